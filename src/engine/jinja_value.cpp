#include "engine/jinja_value.hpp"

#include <algorithm>

#include "monotile/error.hpp"

namespace monotile::engine::jinja {

Character decode(std::string_view s, size_t at) {
  const auto byte = [&](size_t k) { return static_cast<unsigned char>(s[at + k]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || at + length > s.size()) return {0x110000u + lead, 1};
  uint32_t code = lead & (0xFFu >> (length + 1));
  for (size_t k = 1; k < length; ++k) {
    if ((byte(k) & 0xC0) != 0x80) return {0x110000u + lead, 1};
    code = (code << 6) | (byte(k) & 0x3Fu);
  }
  return {code, length};
}

namespace {

template <class Container>
int child_depth(const Container& items, int (*depth)(const typename Container::value_type&)) {
  int most = 0;
  for (const auto& item : items) most = std::max(most, depth(item));
  if (most + 1 > Value::kMaxDepth) {
    throw Error(ErrorCode::invalid_argument,
                "chat template: lists and dicts nest deeper than " + std::to_string(Value::kMaxDepth));
  }
  return most + 1;
}

/// Python's str.isspace() for one character.
bool is_space(uint32_t c) {
  if (c < 0x80) return (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x20);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 ||
         c == 0x202F || c == 0x205F || c == 0x3000;
}

template <class Predicate>
std::string_view strip_if(std::string_view s, bool left, bool right, Predicate drop) {
  while (left && !s.empty()) {
    const Character c = decode(s, 0);
    if (!drop(c.code, s.substr(0, c.bytes))) break;
    s.remove_prefix(c.bytes);
  }
  while (right && !s.empty()) {
    size_t begin = s.size() - 1;
    while (begin > 0 && s.size() - begin < 4 && (static_cast<unsigned char>(s[begin]) & 0xC0) == 0x80) --begin;
    if (decode(s, begin).bytes != s.size() - begin) begin = s.size() - 1;
    if (!drop(decode(s, begin).code, s.substr(begin))) break;
    s.remove_suffix(s.size() - begin);
  }
  return s;
}

}  // namespace

Value Value::none() {
  Value v;
  v.kind_ = Kind::none;
  return v;
}

Value Value::undefined(std::string name) {
  Value v;
  v.data_ = std::make_shared<const std::string>(std::move(name));
  return v;
}

std::string Value::undefined_name() const {
  return kind_ == Kind::undefined && data_ != nullptr ? string() : std::string();
}

Value Value::list(std::vector<Value> items) {
  auto data = std::make_shared<List>();
  data->depth = child_depth(
      items, +[](const Value& v) { return v.depth(); });
  data->holds_namespace = std::any_of(items.begin(), items.end(), [](const Value& v) { return v.holds_namespace(); });
  data->items = std::move(items);
  Value v;
  v.kind_ = Kind::list;
  v.data_ = std::move(data);
  return v;
}

Value Value::dict(std::vector<std::pair<Value, Value>> items) {
  auto data = std::make_shared<Dict>();
  data->depth = child_depth(
      items, +[](const std::pair<Value, Value>& p) { return std::max(p.first.depth(), p.second.depth()); });
  data->holds_namespace =
      std::any_of(items.begin(), items.end(), [](const auto& p) { return p.second.holds_namespace(); });
  data->items = std::move(items);
  Value v;
  v.kind_ = Kind::dict;
  v.data_ = std::move(data);
  return v;
}

Value Value::name_space(std::vector<std::pair<std::string, Value>> items) {
  auto data = std::make_shared<Namespace>();
  data->items = std::move(items);
  Value v;
  v.kind_ = Kind::name_space;
  v.data_ = std::move(data);
  return v;
}

Value Value::callable(Callable c) {
  Value v;
  v.kind_ = Kind::callable;
  v.data_ = std::make_shared<Callable>(std::move(c));
  return v;
}

double Value::number() const { return kind_ == Kind::real ? scalar_.d : static_cast<double>(whole()); }

bool Value::truthy() const {
  switch (kind_) {
    case Kind::undefined:
    case Kind::none: return false;
    case Kind::boolean: return scalar_.b;
    case Kind::integer: return scalar_.i != 0;
    case Kind::real: return scalar_.d != 0.0;
    case Kind::string: return !string().empty();
    case Kind::list: return !list().items.empty();
    case Kind::dict: return !dict().items.empty();
    default: return true;
  }
}

int Value::depth() const {
  if (kind_ == Kind::list) return list().depth;
  if (kind_ == Kind::dict) return dict().depth;
  return 0;
}

bool Value::holds_namespace() const {
  if (kind_ == Kind::list) return list().holds_namespace;
  if (kind_ == Kind::dict) return dict().holds_namespace;
  return kind_ == Kind::name_space;
}

const char* type_name(const Value& v) {
  switch (v.kind()) {
    case Kind::undefined: return "undefined";
    case Kind::none: return "none";
    case Kind::boolean: return "bool";
    case Kind::integer: return "int";
    case Kind::real: return "float";
    case Kind::string: return "string";
    case Kind::list: return "list";
    case Kind::dict: return "dict";
    case Kind::name_space: return "namespace";
    case Kind::callable: return "function";
  }
  return "unknown";
}

size_t count_characters(std::string_view s) {
  size_t count = 0;
  for (size_t at = 0; at < s.size(); at += decode(s, at).bytes) ++count;
  return count;
}

std::string_view characters(std::string_view s, int64_t begin, int64_t end) {
  int64_t index = 0;
  size_t at = 0, first = s.size();
  for (; at < s.size() && index < end; ++index) {
    if (index == begin) first = at;
    at += decode(s, at).bytes;
  }
  if (begin >= index) return {};
  return s.substr(first, at - first);
}

std::string_view strip(std::string_view s, bool left, bool right) {
  return strip_if(s, left, right, [](uint32_t code, std::string_view) { return is_space(code); });
}

std::string_view strip(std::string_view s, bool left, bool right, std::string_view set) {
  return strip_if(s, left, right, [&](uint32_t code, std::string_view) {
    for (size_t at = 0; at < set.size(); at += decode(set, at).bytes) {
      if (decode(set, at).code == code) return true;
    }
    return false;
  });
}

}  // namespace monotile::engine::jinja
