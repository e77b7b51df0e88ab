// Evaluator of the template language.

#include <algorithm>
#include <charconv>
#include <cmath>
#include <ctime>
#include <limits>

#include "engine/gguf.hpp"  // printable()
#include "engine/jinja.hpp"
#include "engine/jinja_ast.hpp"

namespace monotile::engine::jinja {

namespace {

// A long conversation takes about 1e5 steps. Bytes count too, which bounds both time and memory of a hostile template.
constexpr int64_t kMaxSteps = 5'000'000;
constexpr int64_t kBytesPerStep = 64;
constexpr size_t kMaxBytes = size_t{64} << 20;  // of one text
constexpr size_t kMaxItems = size_t{1} << 20;   // of one list
constexpr int kMaxRecursion = 200;              // of evaluation: expressions, blocks and macros together

using Variables = std::vector<std::pair<std::string, Value>>;

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }
char upper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; }
bool letter(char c) { return upper(c) >= 'A' && upper(c) <= 'Z'; }

std::string mapped(std::string_view s, char (*f)(char)) {
  std::string out(s);
  std::transform(out.begin(), out.end(), out.begin(), f);
  return out;
}

std::string capitalised(std::string_view s) {
  std::string out = mapped(s, lower);
  if (!out.empty()) out[0] = upper(out[0]);
  return out;
}

/// Upper case after every character that is no letter (`words`: after white space and brackets only, as the filter does).
std::string title(std::string_view s, bool words) {
  std::string out(s);
  bool start = true;
  for (char& c : out) {
    const bool joins =
        words ? (c != ' ' && (c < '\t' || c > '\r') && c != '-' && c != '(' && c != '[' && c != '{' && c != '<')
              : (letter(c) || (static_cast<unsigned char>(c) & 0x80) != 0);
    c = start ? upper(c) : lower(c);
    start = !joins;
  }
  return out;
}

/// Shortest text that reads back as `d`, in Python's form.
std::string real_text(double d) {
  if (std::isnan(d)) return "nan";
  if (std::isinf(d)) return d > 0 ? "inf" : "-inf";
  char buffer[64];
  const double magnitude = std::fabs(d);
  const bool scientific = d != 0 && (magnitude < 1e-4 || magnitude >= 1e16);
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, d,
                                 scientific ? std::chars_format::scientific : std::chars_format::fixed)
                       .ptr;
  std::string out(buffer, end);
  if (!scientific && out.find('.') == std::string::npos) out += ".0";
  return out;
}

/// The positional and named arguments of a call, matched to parameter names by `take`.
struct Arguments {
  std::vector<Value> positional;
  Variables named;
};

class Evaluator {
 public:
  explicit Evaluator(const Variables& variables) {
    scopes_.emplace_back();
    scopes_[0].variables = variables;
  }

  std::string run(const Block& block) {
    execute(block);
    return std::move(out_);
  }

 private:
  enum class Flow : uint8_t { normal, stop, skip };

  struct Scope {
    Variables variables;
    bool closed = false;  ///< a macro's body: sees the template's own variables, not the caller's
  };

  // --- limits ---------------------------------------------------------------------------------------------------------
  void charge(size_t amount, int line) {
    steps_ += 1 + static_cast<int64_t>(amount) / kBytesPerStep;
    if (steps_ > kMaxSteps)
      fail(ErrorCode::bad_file, line, "the template takes more than " + std::to_string(kMaxSteps) + " steps");
  }

  void check_bytes(size_t bytes, int line) {
    if (bytes > kMaxBytes)
      fail(ErrorCode::bad_file, line,
           "a text of " + std::to_string(bytes) + " bytes, allowed are at most " + std::to_string(kMaxBytes));
    charge(bytes, line);
  }

  void check_items(size_t items, int line) {
    if (items > kMaxItems)
      fail(ErrorCode::bad_file, line,
           "a list of " + std::to_string(items) + " items, allowed are at most " + std::to_string(kMaxItems));
    charge(items * sizeof(Value), line);
  }

  struct Recursion {
    Recursion(Evaluator& e, int line) : e_(e) {
      if (e_.recursion_ >= kMaxRecursion)
        fail(ErrorCode::bad_file, line, "evaluation nests deeper than " + std::to_string(kMaxRecursion));
      ++e_.recursion_;
    }
    ~Recursion() { --e_.recursion_; }
    Evaluator& e_;
  };

  // --- variables ------------------------------------------------------------------------------------------------------
  static Value* find_in(Variables& variables, std::string_view name) {
    for (auto& [key, value] : variables) {
      if (key == name) return &value;
    }
    return nullptr;
  }

  const Value* find(std::string_view name, int line) {
    for (size_t i = scopes_.size(); i-- > 0;) {
      charge(scopes_[i].variables.size() * 8, line);
      if (const Value* v = find_in(scopes_[i].variables, name)) return v;
      if (scopes_[i].closed && i > 0) i = 1;  // go on with the template's own scope
    }
    return nullptr;
  }

  void set(std::string_view name, Value value, int line) {
    Variables& variables = scopes_.back().variables;
    charge(variables.size() * 8, line);
    if (Value* v = find_in(variables, name)) {
      *v = std::move(value);
    } else {
      variables.emplace_back(name, std::move(value));
    }
  }

  // --- statements -----------------------------------------------------------------------------------------------------
  Flow execute(const Block& block) {
    for (const Stmt& s : block) {
      const Flow flow = execute(s);
      if (flow != Flow::normal) return flow;
    }
    return Flow::normal;
  }

  Flow execute(const Stmt& s) {
    const Recursion recursion(*this, s.line);
    charge(0, s.line);
    switch (s.kind) {
      case StmtKind::text: emit(s.text, s.line); return Flow::normal;
      case StmtKind::output: emit(text(evaluate(*s.exprs[0]), s.line), s.line); return Flow::normal;
      case StmtKind::branch:
        for (size_t i = 0; i < s.bodies.size(); ++i) {
          if (i >= s.exprs.size() || evaluate(*s.exprs[i]).truthy()) return execute(s.bodies[i]);
        }
        return Flow::normal;
      case StmtKind::loop: return loop(s);
      case StmtKind::assign: assign(s); return Flow::normal;
      case StmtKind::assign_block: {
        std::string saved = std::exchange(out_, std::string());
        const Flow flow = execute(s.bodies[0]);
        std::string block = std::exchange(out_, std::move(saved));
        set(s.targets[0], Value(std::move(block)), s.line);
        return flow;
      }
      case StmtKind::macro: set(s.text, Value::callable({&s, "", 0}), s.line); return Flow::normal;
      case StmtKind::stop: return Flow::stop;
      case StmtKind::skip: return Flow::skip;
      case StmtKind::group: return execute(s.bodies[0]);
      case StmtKind::refuse: fail(ErrorCode::unsupported, s.line, s.text);
    }
    return Flow::normal;
  }

  void emit(std::string_view bytes, int line) {
    check_bytes(out_.size() + bytes.size() > kMaxBytes ? kMaxBytes + 1 : bytes.size(), line);
    out_ += bytes;
  }

  void assign(const Stmt& s) {
    Value value = evaluate(*s.exprs[0]);
    if (!s.text.empty()) {
      const Value* object = find(s.targets[0], s.line);
      if (object == nullptr || !object->is(Kind::name_space)) {
        fail(ErrorCode::invalid_argument, s.line,
             "'" + s.targets[0] + "' is no namespace, so '" + s.text + "' cannot be set");
      }
      if (value.holds_namespace())
        fail(ErrorCode::unsupported, s.line, "a namespace inside a namespace is not supported");
      auto& items = object->name_space().items;
      charge(items.size() * 8, s.line);
      if (Value* v = find_in(items, s.text)) {
        *v = std::move(value);
      } else {
        items.emplace_back(s.text, std::move(value));
      }
      return;
    }
    unpack(s, std::move(value));
  }

  void unpack(const Stmt& s, Value value) {
    if (s.targets.size() == 1) {
      set(s.targets[0], std::move(value), s.line);
      return;
    }
    const std::vector<Value> parts = items(value, s.line);
    if (parts.size() != s.targets.size()) {
      fail(ErrorCode::invalid_argument, s.line,
           std::to_string(parts.size()) + " values for " + std::to_string(s.targets.size()) + " variables");
    }
    for (size_t i = 0; i < parts.size(); ++i) set(s.targets[i], parts[i], s.line);
  }

  struct ScopeGuard {
    explicit ScopeGuard(std::vector<Scope>& scopes) : scopes_(scopes) { scopes_.emplace_back(); }
    ~ScopeGuard() { scopes_.pop_back(); }
    std::vector<Scope>& scopes_;
  };

  Flow loop(const Stmt& s) {
    std::vector<Value> values = items(evaluate(*s.exprs[0]), s.line);
    if (s.exprs[1] != nullptr) {
      std::vector<Value> kept;
      for (Value& value : values) {
        const ScopeGuard guard(scopes_);
        unpack(s, value);
        if (evaluate(*s.exprs[1]).truthy()) kept.push_back(std::move(value));
      }
      values = std::move(kept);
    }
    bool completed = false;
    for (size_t i = 0; i < values.size(); ++i) {
      charge(0, s.line);
      const ScopeGuard guard(scopes_);  // what an iteration sets is gone in the next one
      set("loop", loop_state(values, i), s.line);
      unpack(s, values[i]);
      const Flow flow = execute(s.bodies[0]);
      if (flow == Flow::stop) break;
      completed = completed || flow == Flow::normal;
    }
    // As the reference implementation: the else part runs unless some iteration came to its end.
    return !completed && s.bodies.size() > 1 ? execute(s.bodies[1]) : Flow::normal;
  }

  static Value loop_state(const std::vector<Value>& values, size_t i) {
    const auto index = static_cast<int64_t>(i), count = static_cast<int64_t>(values.size());
    // A namespace has no depth of its own, so that the neighbours may be lists of any allowed depth.
    return Value::name_space({{"index", Value(index + 1)},
                              {"index0", Value(index)},
                              {"revindex", Value(count - index)},
                              {"revindex0", Value(count - index - 1)},
                              {"first", Value(i == 0)},
                              {"last", Value(index + 1 == count)},
                              {"length", Value(count)},
                              {"previtem", i > 0 ? values[i - 1] : Value::undefined("loop.previtem")},
                              {"nextitem", index + 1 < count ? values[i + 1] : Value::undefined("loop.nextitem")}});
  }

  // --- texts of values ------------------------------------------------------------------------------------------------
  std::string text(const Value& v, int line) {
    if (v.is(Kind::string)) return v.string();
    if (v.is(Kind::undefined)) return {};
    return repr(v, line);
  }

  std::string repr(const Value& v, int line) {
    std::string out;
    repr(v, line, out);
    return out;
  }

  void repr(const Value& v, int line, std::string& out) {
    charge(0, line);
    switch (v.kind()) {
      case Kind::undefined: out += "Undefined"; break;
      case Kind::none: out += "None"; break;
      case Kind::boolean: out += v.boolean() ? "True" : "False"; break;
      case Kind::integer: out += std::to_string(v.integer()); break;
      case Kind::real: out += real_text(v.real()); break;
      case Kind::string: quote(v.string(), out); break;
      case Kind::list: {
        out += '[';
        bool first = true;
        for (const Value& item : v.list().items) {
          if (!std::exchange(first, false)) out += ", ";
          repr(item, line, out);
        }
        out += ']';
        break;
      }
      case Kind::dict: {
        out += '{';
        bool first = true;
        for (const auto& [key, value] : v.dict().items) {
          if (!std::exchange(first, false)) out += ", ";
          repr(key, line, out);
          out += ": ";
          repr(value, line, out);
        }
        out += '}';
        break;
      }
      case Kind::name_space: out += "<Namespace>"; break;
      case Kind::callable: out += "<Function>"; break;
    }
    check_bytes(out.size() > kMaxBytes ? out.size() : 0, line);
  }

  static void quote(std::string_view s, std::string& out) {
    const char mark = s.find('\'') != std::string_view::npos && s.find('"') == std::string_view::npos ? '"' : '\'';
    static constexpr char kHex[] = "0123456789abcdef";
    out += mark;
    for (const char c : s) {
      const auto b = static_cast<unsigned char>(c);
      if (c == mark || c == '\\') {
        out += {'\\', c};
      } else if (c == '\n') {
        out += "\\n";
      } else if (c == '\r') {
        out += "\\r";
      } else if (c == '\t') {
        out += "\\t";
      } else if (b < 0x20 || b == 0x7f) {
        out += {'\\', 'x', kHex[b >> 4], kHex[b & 15]};
      } else {
        out += c;
      }
    }
    out += mark;
  }

  /// How tojson writes: Python's json.dumps.
  struct JsonStyle {
    int indent = -1;  ///< < 0: one line
    bool ascii = false, sorted = false;
    std::string between_items = ", ", after_key = ": ";
  };

  static void json_text(std::string_view s, bool ascii, std::string& out) {
    static constexpr char kHex[] = "0123456789abcdef";
    const auto unit = [&](uint32_t u) {
      out += {'\\', 'u', kHex[(u >> 12) & 15], kHex[(u >> 8) & 15], kHex[(u >> 4) & 15], kHex[u & 15]};
    };
    out += '"';
    for (size_t at = 0; at < s.size();) {
      const Character c = decode(s, at);
      if (c.code == '"' || c.code == '\\') {
        out += {'\\', s[at]};
      } else if (c.code == '\n') {
        out += "\\n";
      } else if (c.code == '\r') {
        out += "\\r";
      } else if (c.code == '\t') {
        out += "\\t";
      } else if (c.code == '\b') {
        out += "\\b";
      } else if (c.code == '\f') {
        out += "\\f";
      } else if (c.code < 0x20 || (ascii && c.code >= 0x7F && c.code < 0x10000)) {
        unit(c.code);
      } else if (ascii && c.code >= 0x10000 && c.code < 0x110000) {
        unit(0xD800 + ((c.code - 0x10000) >> 10));
        unit(0xDC00 + ((c.code - 0x10000) & 0x3FF));
      } else {
        out += s.substr(at, c.bytes);
      }
      at += c.bytes;
    }
    out += '"';
  }

  void json(const Value& v, const JsonStyle& style, int level, int line, std::string& out) {
    charge(0, line);
    check_bytes(out.size() > kMaxBytes ? out.size() : 0, line);
    const auto separate = [&](bool first, int at) {
      if (!first) out += style.between_items;
      if (style.indent >= 0) {
        out += '\n';
        out.append(static_cast<size_t>(style.indent) * static_cast<size_t>(at), ' ');
      }
    };
    switch (v.kind()) {
      case Kind::none: out += "null"; return;
      case Kind::boolean: out += v.boolean() ? "true" : "false"; return;
      case Kind::integer: out += std::to_string(v.integer()); return;
      case Kind::real: {
        if (std::isfinite(v.real())) {
          out += real_text(v.real());
        } else {
          out += std::isnan(v.real()) ? "NaN" : v.real() > 0 ? "Infinity" : "-Infinity";
        }
        return;
      }
      case Kind::string: json_text(v.string(), style.ascii, out); return;
      case Kind::list: {
        const auto& items = v.list().items;
        out += '[';
        for (size_t i = 0; i < items.size(); ++i) {
          separate(i == 0, level + 1);
          json(items[i], style, level + 1, line, out);
        }
        if (!items.empty() && style.indent >= 0) separate(true, level);
        out += ']';
        return;
      }
      case Kind::dict: {
        auto items = v.dict().items;
        check_items(items.size(), line);
        if (style.sorted) {
          std::stable_sort(items.begin(), items.end(),
                           [&](const auto& a, const auto& b) { return less(a.first, b.first, line); });
        }
        out += '{';
        for (size_t i = 0; i < items.size(); ++i) {
          separate(i == 0, level + 1);
          json_text(text(items[i].first, line), style.ascii, out);
          out += style.after_key;
          json(items[i].second, style, level + 1, line, out);
        }
        if (!items.empty() && style.indent >= 0) separate(true, level);
        out += '}';
        return;
      }
      default: fail(ErrorCode::invalid_argument, line, std::string("tojson of ") + describe(v));
    }
  }

  static std::string describe(const Value& v) {
    const std::string name = v.undefined_name();
    if (!name.empty()) return "'" + printable(name) + "' is undefined";
    return type_name(v);
  }

  Value to_json(const Value& v, const Arguments& a, int line) {
    JsonStyle style;
    style.ascii = argument(a, 0, "ensure_ascii").truthy();
    const Value indent = argument(a, 1, "indent"), separators = argument(a, 2, "separators");
    if (indent.is_whole()) {
      style.indent = static_cast<int>(std::clamp<int64_t>(indent.whole(), 0, 16));
      style.between_items = ",";
    }
    if (separators.is(Kind::list) && separators.list().items.size() == 2) {
      style.between_items = need_string(separators.list().items[0], "tojson", line);
      style.after_key = need_string(separators.list().items[1], "tojson", line);
    }
    style.sorted = argument(a, 3, "sort_keys").truthy();
    std::string out;
    json(v, style, 0, line, out);
    return make_text(std::move(out), line);
  }

  // --- building blocks ------------------------------------------------------------------------------------------------
  /// What a loop over `v` visits: items of a list, keys of a dict, characters of a string, nothing for undefined.
  std::vector<Value> items(const Value& v, int line) {
    std::vector<Value> out;
    switch (v.kind()) {
      case Kind::list: check_items(v.list().items.size(), line); return v.list().items;
      case Kind::dict:
        check_items(v.dict().items.size(), line);
        for (const auto& [key, value] : v.dict().items) out.push_back(key);
        return out;
      case Kind::string: {
        const std::string& s = v.string();
        const size_t count = count_characters(s);
        check_items(count, line);
        charge(count * 96, line);  // a text of its own for every character
        std::string_view rest = s;
        while (!rest.empty()) {
          const std::string_view c = characters(rest, 0, 1);
          out.push_back(Value(c));
          rest.remove_prefix(c.size());
        }
        return out;
      }
      case Kind::undefined: return out;
      default: fail(ErrorCode::invalid_argument, line, "cannot loop over " + describe(v));
    }
  }

  bool equal(const Value& a, const Value& b, int line) {
    charge(0, line);
    if (a.is_number() && b.is_number()) {
      if (a.is_whole() && b.is_whole()) return a.whole() == b.whole();
      return a.number() == b.number();
    }
    if (a.kind() != b.kind()) return false;
    switch (a.kind()) {
      case Kind::undefined:
      case Kind::none: return true;
      case Kind::string: charge(a.string().size(), line); return a.string() == b.string();
      case Kind::list: {
        const auto &x = a.list().items, &y = b.list().items;
        if (x.size() != y.size()) return false;
        for (size_t i = 0; i < x.size(); ++i) {
          if (!equal(x[i], y[i], line)) return false;
        }
        return true;
      }
      case Kind::dict: {
        const auto &x = a.dict().items, &y = b.dict().items;
        if (x.size() != y.size()) return false;
        for (const auto& [key, value] : x) {
          const Value* other = look_up(b, key, line);
          if (other == nullptr || !equal(value, *other, line)) return false;
        }
        return true;
      }
      case Kind::name_space: return &a.name_space() == &b.name_space();
      default: return false;
    }
  }

  /// Value of a key in a dict, or null.
  const Value* look_up(const Value& dict, const Value& key, int line) {
    for (const auto& [k, value] : dict.dict().items) {
      if (equal(k, key, line)) return &value;
    }
    return nullptr;
  }

  bool contains(const Value& container, const Value& item, int line) {
    switch (container.kind()) {
      case Kind::string:
        if (!item.is(Kind::string))
          fail(ErrorCode::invalid_argument, line, "'in' of " + describe(item) + " and a string");
        charge(container.string().size(), line);
        return container.string().find(item.string()) != std::string::npos;
      case Kind::list:
        for (const Value& v : container.list().items) {
          if (equal(v, item, line)) return true;
        }
        return false;
      case Kind::dict: return look_up(container, item, line) != nullptr;
      case Kind::undefined: return false;
      default: fail(ErrorCode::invalid_argument, line, "'in' needs a string, list or dict, not " + describe(container));
    }
  }

  bool less(const Value& a, const Value& b, int line) {
    if (a.is_number() && b.is_number()) {
      return a.is_whole() && b.is_whole() ? a.whole() < b.whole() : a.number() < b.number();
    }
    if (a.is(Kind::string) && b.is(Kind::string)) {
      charge(a.string().size(), line);
      return a.string() < b.string();
    }
    fail(ErrorCode::invalid_argument, line, "comparison of " + describe(a) + " with " + describe(b));
  }

  Value length(const Value& v, int line) {
    switch (v.kind()) {
      case Kind::undefined: return Value(0);
      case Kind::string:
        charge(v.string().size(), line);
        return Value(static_cast<int64_t>(count_characters(v.string())));
      case Kind::list: return Value(static_cast<int64_t>(v.list().items.size()));
      case Kind::dict: return Value(static_cast<int64_t>(v.dict().items.size()));
      default: fail(ErrorCode::invalid_argument, line, "length of " + describe(v));
    }
  }

  const std::string& need_string(const Value& v, const char* what, int line) {
    if (!v.is(Kind::string))
      fail(ErrorCode::invalid_argument, line, std::string(what) + " needs a string, not " + describe(v));
    return v.string();
  }

  int64_t need_integer(const Value& v, const char* what, int line) {
    if (!v.is_whole())
      fail(ErrorCode::invalid_argument, line, std::string(what) + " needs an integer, not " + describe(v));
    return v.whole();
  }

  Value make_text(std::string s, int line) {
    check_bytes(s.size(), line);
    return Value(std::move(s));
  }

  Value make_list(std::vector<Value> v, int line) {
    check_items(v.size(), line);
    return Value::list(std::move(v));
  }

  // --- expressions ----------------------------------------------------------------------------------------------------
  Value evaluate(const Expr& e) {
    const Recursion recursion(*this, e.line);
    charge(0, e.line);
    switch (e.op) {
      case Op::constant: return e.value;
      case Op::name: return name(e);
      case Op::list: {
        std::vector<Value> values;
        values.reserve(e.args.size());
        for (const ExprPtr& arg : e.args) values.push_back(evaluate(*arg));
        return make_list(std::move(values), e.line);
      }
      case Op::dict: return dict(e);
      case Op::attribute: return attribute(evaluate(*e.args[0]), e.text, e.line);
      case Op::index: return index(e);
      case Op::slice: return slice(e);
      case Op::call: return call(e);
      case Op::filter: return filter(e);
      case Op::test: return Value(test(e));
      case Op::negate:
      case Op::plus: return sign(e);
      case Op::logical_not: return Value(!evaluate(*e.args[0]).truthy());
      case Op::logical_and: {
        Value left = evaluate(*e.args[0]);
        return left.truthy() ? evaluate(*e.args[1]) : left;
      }
      case Op::logical_or: {
        Value left = evaluate(*e.args[0]);
        return left.truthy() ? left : evaluate(*e.args[1]);
      }
      case Op::conditional:
        if (evaluate(*e.args[0]).truthy()) return evaluate(*e.args[1]);
        return e.args[2] != nullptr ? evaluate(*e.args[2]) : Value::undefined("inline if without else");
      case Op::compare: return compare(e);
      case Op::refuse: fail(ErrorCode::unsupported, e.line, e.text);
      case Op::concatenate: {
        std::string out;
        for (const ExprPtr& arg : e.args) {
          out += text(evaluate(*arg), e.line);
          check_bytes(out.size(), e.line);
        }
        return Value(std::move(out));
      }
      default: break;
    }
    const Value left = evaluate(*e.args[0]);
    return arithmetic(e, left, evaluate(*e.args[1]));
  }

  Value name(const Expr& e) {
    if (const Value* v = find(e.text, e.line)) return *v;
    static constexpr std::string_view kFunctions[] = {"raise_exception", "namespace", "range", "dict"};
    if (std::find(std::begin(kFunctions), std::end(kFunctions), e.text) != std::end(kFunctions)) {
      return Value::callable({nullptr, e.text, 0});
    }
    return Value::undefined(e.text);
  }

  Value dict(const Expr& e) {
    std::vector<std::pair<Value, Value>> out;
    for (size_t i = 0; i + 1 < e.args.size(); i += 2) {
      Value key = evaluate(*e.args[i]);
      if (!key.is(Kind::string) && !key.is_number() && !key.is(Kind::none)) {
        fail(ErrorCode::invalid_argument, e.line, "a dict key of type " + describe(key));
      }
      put(out, std::move(key), evaluate(*e.args[i + 1]), e.line);
    }
    return Value::dict(std::move(out));
  }

  void put(std::vector<std::pair<Value, Value>>& items, Value key, Value value, int line) {
    for (auto& [k, v] : items) {
      if (equal(k, key, line)) {
        v = std::move(value);
        return;
      }
    }
    items.emplace_back(std::move(key), std::move(value));
  }

  Value attribute(const Value& object, const std::string& key, int line) {
    switch (object.kind()) {
      case Kind::undefined:
        fail(ErrorCode::invalid_argument, line, describe(object) + ", so it has no '" + printable(key) + "'");
      case Kind::dict: {
        const Value* v = look_up(object, Value(key), line);
        return v != nullptr ? *v : Value::undefined(key);
      }
      case Kind::name_space: {
        const Value* v = find_in(object.name_space().items, key);
        return v != nullptr ? *v : Value::undefined(key);
      }
      default: return Value::undefined(key);
    }
  }

  Value index(const Expr& e) {
    const Value object = evaluate(*e.args[0]);
    const Value key = evaluate(*e.args[1]);
    if (object.is(Kind::undefined))
      fail(ErrorCode::invalid_argument, e.line, describe(object) + ", so it cannot be indexed");
    if (object.is(Kind::dict)) {
      const Value* v = look_up(object, key, e.line);
      return v != nullptr ? *v : Value::undefined(text(key, e.line));
    }
    if (key.is(Kind::string)) return attribute(object, key.string(), e.line);
    if ((object.is(Kind::list) || object.is(Kind::string)) && key.is_whole()) {
      const int64_t count = length(object, e.line).integer();
      const int64_t i = key.whole() < 0 ? key.whole() + count : key.whole();
      if (i < 0 || i >= count) return Value::undefined("item " + std::to_string(key.whole()));
      if (object.is(Kind::list)) return object.list().items[static_cast<size_t>(i)];
      return Value(characters(object.string(), i, i + 1));
    }
    return Value::undefined(text(key, e.line));
  }

  Value slice(const Expr& e) {
    const Value object = evaluate(*e.args[0]);
    if (!object.is(Kind::list) && !object.is(Kind::string)) {
      fail(ErrorCode::invalid_argument, e.line, "a slice needs a list or string, not " + describe(object));
    }
    const int64_t count = length(object, e.line).integer();
    const auto part = [&](size_t i, bool* given) {
      *given = false;
      if (e.args[i] == nullptr) return int64_t{0};
      const Value v = evaluate(*e.args[i]);
      if (v.is(Kind::none)) return int64_t{0};
      *given = true;
      return need_integer(v, "a slice", e.line);
    };
    bool has_begin = false, has_end = false, has_step = false;
    int64_t begin = part(1, &has_begin), end = part(2, &has_end), step = part(3, &has_step);
    if (!has_step) step = 1;
    if (step == 0) fail(ErrorCode::invalid_argument, e.line, "a slice with step 0");
    step = std::clamp(step, -(count + 1), count + 1);
    const auto place = [&](int64_t i, bool given, int64_t missing) {
      if (!given) return missing;
      if (i < 0) i = i < -count ? -1 : i + count;
      return step > 0 ? std::clamp(i, int64_t{0}, count) : std::clamp(i, int64_t{-1}, count - 1);
    };
    begin = place(begin, has_begin, step > 0 ? 0 : count - 1);
    end = place(end, has_end, step > 0 ? count : -1);
    if (object.is(Kind::string) && step == 1) {
      return make_text(std::string(characters(object.string(), begin, std::max(begin, end))), e.line);
    }
    const std::vector<Value> all = items(object, e.line);
    std::vector<Value> out;
    for (int64_t i = begin; step > 0 ? i < end : i > end; i += step) out.push_back(all[static_cast<size_t>(i)]);
    if (object.is(Kind::list)) return make_list(std::move(out), e.line);
    std::string joined;
    for (const Value& v : out) joined += v.string();
    return make_text(std::move(joined), e.line);
  }

  Value compare(const Expr& e) {
    Value left = evaluate(*e.args[0]);
    for (size_t i = 0; i < e.text.size(); ++i) {
      Value right = evaluate(*e.args[i + 1]);
      bool holds = false;
      switch (e.text[i]) {
        case kCompareEqual: holds = equal(left, right, e.line); break;
        case kCompareUnequal: holds = !equal(left, right, e.line); break;
        case kCompareLess: holds = less(left, right, e.line); break;
        case kCompareGreater: holds = less(right, left, e.line); break;
        case kCompareLessEqual: holds = less(left, right, e.line) || equal(left, right, e.line); break;
        case kCompareGreaterEqual: holds = less(right, left, e.line) || equal(left, right, e.line); break;
        case kCompareIn: holds = contains(right, left, e.line); break;
        default: holds = !contains(right, left, e.line); break;
      }
      if (!holds) return Value(false);
      left = std::move(right);
    }
    return Value(true);
  }

  Value sign(const Expr& e) {
    const Value v = evaluate(*e.args[0]);
    if (!v.is_number()) fail(ErrorCode::invalid_argument, e.line, "a sign before " + describe(v));
    if (v.is(Kind::real)) return Value(e.op == Op::negate ? -v.real() : v.real());
    if (e.op == Op::plus) return Value(v.whole());
    int64_t out = 0;
    if (__builtin_sub_overflow(int64_t{0}, v.whole(), &out)) overflow(e.line);
    return Value(out);
  }

  [[noreturn]] static void overflow(int line) { fail(ErrorCode::invalid_argument, line, "an integer exceeds 64 bits"); }

  Value arithmetic(const Expr& e, const Value& a, const Value& b) {
    if (e.op == Op::add && a.is(Kind::string) && b.is(Kind::string)) {
      check_bytes(a.string().size() + b.string().size(), e.line);
      return Value(a.string() + b.string());
    }
    if (e.op == Op::add && a.is(Kind::list) && b.is(Kind::list)) {
      check_items(a.list().items.size() + b.list().items.size(), e.line);
      std::vector<Value> out = a.list().items;
      out.insert(out.end(), b.list().items.begin(), b.list().items.end());
      return Value::list(std::move(out));
    }
    if (e.op == Op::multiply && (a.is(Kind::string) || b.is(Kind::string)) && (a.is_whole() || b.is_whole())) {
      return repeat(a.is(Kind::string) ? a.string() : b.string(), a.is(Kind::string) ? b.whole() : a.whole(), e.line);
    }
    if (!a.is_number() || !b.is_number()) {
      static constexpr std::pair<Op, const char*> kSigns[] = {
          {Op::add, "+"},           {Op::subtract, "-"}, {Op::multiply, "*"}, {Op::divide, "/"},
          {Op::floor_divide, "//"}, {Op::modulo, "%"},   {Op::power, "**"}};
      const char* sign = "?";
      for (const auto& [op, text] : kSigns) sign = op == e.op ? text : sign;
      fail(ErrorCode::invalid_argument, e.line,
           std::string("'") + sign + "' of " + describe(a) + " and " + describe(b));
    }
    if (a.is_whole() && b.is_whole() && e.op != Op::divide && !(e.op == Op::power && b.whole() < 0)) {
      return Value(integer_arithmetic(e, a.whole(), b.whole()));
    }
    const double x = a.number(), y = b.number();
    if ((e.op == Op::divide || e.op == Op::floor_divide || e.op == Op::modulo) && y == 0) {
      fail(ErrorCode::invalid_argument, e.line, "division by zero");
    }
    switch (e.op) {
      case Op::add: return Value(x + y);
      case Op::subtract: return Value(x - y);
      case Op::multiply: return Value(x * y);
      case Op::divide: return Value(x / y);
      case Op::floor_divide: return Value(std::floor(x / y));
      case Op::modulo: return Value(x - y * std::floor(x / y));
      default: return Value(std::pow(x, y));
    }
  }

  Value repeat(const std::string& s, int64_t times, int line) {
    if (times <= 0 || s.empty()) return Value("");
    if (static_cast<uint64_t>(times) > kMaxBytes / s.size()) check_bytes(kMaxBytes + 1, line);
    std::string out;
    check_bytes(s.size() * static_cast<size_t>(times), line);
    out.reserve(s.size() * static_cast<size_t>(times));
    for (int64_t i = 0; i < times; ++i) out += s;
    return Value(std::move(out));
  }

  int64_t integer_arithmetic(const Expr& e, int64_t a, int64_t b) {
    int64_t out = 0;
    bool overflows = false;
    switch (e.op) {
      case Op::add: overflows = __builtin_add_overflow(a, b, &out); break;
      case Op::subtract: overflows = __builtin_sub_overflow(a, b, &out); break;
      case Op::multiply: overflows = __builtin_mul_overflow(a, b, &out); break;
      case Op::power: {
        out = 1;
        for (int64_t i = 0; i < b && !overflows && a != 1 && out != 0; ++i) {
          charge(0, e.line);
          overflows = __builtin_mul_overflow(out, a, &out);
        }
        break;
      }
      default: {
        if (b == 0) fail(ErrorCode::invalid_argument, e.line, "division by zero");
        if (b == -1) {  // the one quotient that can overflow
          overflows = __builtin_sub_overflow(int64_t{0}, a, &out);
          if (e.op == Op::modulo) return 0;
          break;
        }
        const int64_t remainder = a % b;
        const bool below = remainder != 0 && (remainder < 0) != (b < 0);  // Python rounds down
        out = e.op == Op::modulo ? remainder + (below ? b : 0) : a / b - (below ? 1 : 0);
      }
    }
    if (overflows) overflow(e.line);
    return out;
  }

  // --- calls ----------------------------------------------------------------------------------------------------------
  Arguments arguments(const Expr& e) {
    Arguments out;
    for (size_t i = 1; i < e.args.size(); ++i) out.positional.push_back(evaluate(*e.args[i]));
    for (const auto& [name, value] : e.named) out.named.emplace_back(name, evaluate(*value));
    return out;
  }

  /// Argument number `i` or called `name`; undefined if absent.
  static Value argument(const Arguments& a, size_t i, std::string_view name) {
    if (i < a.positional.size()) return a.positional[i];
    for (const auto& [key, value] : a.named) {
      if (key == name) return value;
    }
    return Value();
  }

  Value call(const Expr& e) {
    const Expr& callee = *e.args[0];
    if (callee.op == Op::attribute) {
      const Value object = evaluate(*callee.args[0]);
      Value member;
      if (object.is(Kind::dict) || object.is(Kind::name_space)) member = attribute(object, callee.text, e.line);
      if (!member.is(Kind::callable)) return method(object, callee.text, arguments(e), e.line);
      return invoke(member, callee.text, arguments(e), e.line);
    }
    const Value function = evaluate(callee);
    return invoke(function, callee.text, arguments(e), e.line);
  }

  Value invoke(const Value& function, const std::string& name, Arguments a, int line) {
    if (!function.is(Kind::callable)) {
      fail(function.is(Kind::undefined) ? ErrorCode::unsupported : ErrorCode::invalid_argument, line,
           "function '" + printable(name) +
               "' is not known; allowed are macros, raise_exception, namespace, range, dict" +
               (function.is(Kind::undefined) ? "" : std::string(" (it is ") + type_name(function) + ")"));
    }
    const Callable& c = function.callable();
    if (c.macro != nullptr) return call_macro(*c.macro, a, line);
    if (c.function == "raise_exception")
      fail(ErrorCode::invalid_argument, line, printable(text(argument(a, 0, "message"), line), 400));
    if (c.function == "range") return range(a, line);
    if (c.function == "strftime_now") return strftime_now(a, c.argument, line);
    std::vector<std::pair<Value, Value>> items;
    if (!a.positional.empty()) {
      if (!a.positional[0].is(Kind::dict))
        fail(ErrorCode::unsupported, line, c.function + "() of " + describe(a.positional[0]));
      items = a.positional[0].dict().items;
    }
    for (auto& [key, value] : a.named) put(items, Value(key), std::move(value), line);
    if (c.function == "dict") return Value::dict(std::move(items));
    Variables variables;
    for (auto& [key, value] : items) {
      if (value.holds_namespace())
        fail(ErrorCode::unsupported, line, "a namespace inside a namespace is not supported");
      variables.emplace_back(text(key, line), std::move(value));
    }
    return Value::name_space(std::move(variables));
  }

  Value call_macro(const Stmt& macro, const Arguments& a, int line) {
    if (a.positional.size() > macro.targets.size()) {
      fail(ErrorCode::invalid_argument, line,
           "macro '" + macro.text + "' takes " + std::to_string(macro.targets.size()) + " arguments, given are " +
               std::to_string(a.positional.size()));
    }
    const ScopeGuard guard(scopes_);
    scopes_.back().closed = true;
    for (size_t i = 0; i < macro.targets.size(); ++i) {
      Value value = argument(a, i, macro.targets[i]);
      if (value.is(Kind::undefined) && macro.exprs[i] != nullptr) value = evaluate(*macro.exprs[i]);
      set(macro.targets[i], std::move(value), line);
    }
    std::string saved = std::exchange(out_, std::string());
    execute(macro.bodies[0]);
    return Value(std::exchange(out_, std::move(saved)));
  }

  Value range(const Arguments& a, int line) {
    if (a.positional.empty() || a.positional.size() > 3)
      fail(ErrorCode::invalid_argument, line, "range() takes 1 to 3 integers");
    int64_t begin = 0, end = need_integer(a.positional[0], "range()", line), step = 1;
    if (a.positional.size() > 1) begin = std::exchange(end, need_integer(a.positional[1], "range()", line));
    if (a.positional.size() > 2) step = need_integer(a.positional[2], "range()", line);
    if (step == 0) fail(ErrorCode::invalid_argument, line, "range() with step 0");
    std::vector<Value> out;
    for (int64_t i = begin; step > 0 ? i < end : i > end;) {
      if (out.size() >= kMaxItems) check_items(kMaxItems + 1, line);
      out.push_back(Value(i));
      if (__builtin_add_overflow(i, step, &i)) break;
    }
    return make_list(std::move(out), line);
  }

  Value strftime_now(const Arguments& a, int64_t now, int line) {
    const std::string format = need_string(argument(a, 0, "format"), "strftime_now()", line);
    const auto seconds = static_cast<std::time_t>(now);
    std::tm parts{};
    gmtime_r(&seconds, &parts);
    char buffer[256];
    const size_t length = format.size() > 100 ? 0 : std::strftime(buffer, sizeof buffer, format.c_str(), &parts);
    return Value(std::string(buffer, length));
  }

  [[noreturn]] static void unknown_method(const Value& object, const std::string& name, int line) {
    if (object.is(Kind::undefined))
      fail(ErrorCode::invalid_argument, line, describe(object) + ", so it has no method '" + printable(name) + "'");
    fail(ErrorCode::unsupported, line,
         "method '" + printable(name) + "' of " + type_name(object) + " is not supported");
  }

  Value method(const Value& object, const std::string& name, const Arguments& a, int line) {
    if (object.is(Kind::string)) return string_method(object.string(), name, a, line);
    if (object.is(Kind::dict)) {
      const auto& entries = object.dict().items;
      std::vector<Value> out;
      if (name == "get") {
        const Value* v = look_up(object, argument(a, 0, "key"), line);
        if (v != nullptr) return *v;
        return a.positional.size() > 1 ? a.positional[1] : Value::none();
      }
      if (name == "items") {
        for (const auto& [key, value] : entries) out.push_back(Value::list({key, value}));
        return make_list(std::move(out), line);
      }
      if (name == "keys" || name == "values") {
        for (const auto& [key, value] : entries) out.push_back(name == "keys" ? key : value);
        return make_list(std::move(out), line);
      }
    }
    if (object.is(Kind::list) && (name == "index" || name == "count")) {
      int64_t count = 0;
      const auto& values = object.list().items;
      for (size_t i = 0; i < values.size(); ++i) {
        if (!equal(values[i], argument(a, 0, "value"), line)) continue;
        if (name == "index") return Value(static_cast<int64_t>(i));
        ++count;
      }
      if (name == "index") fail(ErrorCode::invalid_argument, line, "index() of a value that is not in the list");
      return Value(count);
    }
    if (object.is(Kind::name_space) && name == "cycle" && !a.positional.empty()) {
      const Value i = attribute(object, "index0", line);
      if (i.is(Kind::integer)) return a.positional[static_cast<size_t>(i.integer()) % a.positional.size()];
    }
    unknown_method(object, name, line);
  }

  Value string_method(const std::string& s, const std::string& name, const Arguments& a, int line) {
    charge(s.size(), line);
    for (const auto& [key, value] : a.named) {
      if (key != "sep" && key != "maxsplit" && key != "count") {
        fail(ErrorCode::unsupported, line,
             "method '" + printable(name) + "' with argument '" + printable(key) + "' is not supported");
      }
    }
    const Value first = argument(a, 0, "");
    if (name == "strip" || name == "lstrip" || name == "rstrip") {
      const bool left = name != "rstrip", right = name != "lstrip";
      if (first.is(Kind::undefined) || first.is(Kind::none)) return Value(strip(s, left, right));
      charge(s.size() * std::min<size_t>(first.is(Kind::string) ? first.string().size() : 0, 1000), line);
      return Value(strip(s, left, right, need_string(first, "strip()", line)));
    }
    if (name == "upper") return Value(mapped(s, upper));
    if (name == "lower") return Value(mapped(s, lower));
    if (name == "title") return Value(title(s, false));
    if (name == "capitalize") return Value(capitalised(s));
    if (name == "startswith" || name == "endswith") return Value(affix(s, first, name == "startswith", line));
    if (name == "split" || name == "rsplit") return split(s, a, name == "rsplit", line);
    if (name == "splitlines") return split_lines(s, line);
    if (name == "replace") {
      return replace(s, need_string(first, "replace()", line), need_string(argument(a, 1, "new"), "replace()", line),
                     argument(a, 2, "count"), line);
    }
    if (name == "removeprefix" || name == "removesuffix") {
      const std::string& part = need_string(first, "removeprefix()", line);
      if (!affix(s, first, name == "removeprefix", line)) return Value(s);
      return Value(name == "removeprefix" ? s.substr(part.size()) : s.substr(0, s.size() - part.size()));
    }
    if (name == "join") return join(first, s, "", line);
    if (name == "find" || name == "rfind" || name == "count" || name == "index") {
      const std::string& part = need_string(first, "find()", line);
      if (name == "count") return Value(count(s, part));
      const size_t at = name == "rfind" ? s.rfind(part) : s.find(part);
      if (at == std::string::npos && name == "index")
        fail(ErrorCode::invalid_argument, line, "index() of a text that is not there");
      if (at == std::string::npos) return Value(-1);
      return Value(static_cast<int64_t>(count_characters(std::string_view(s).substr(0, at))));
    }
    if (name == "isdigit" || name == "isnumeric") {
      return Value(!s.empty() && std::all_of(s.begin(), s.end(), [](char c) { return c >= '0' && c <= '9'; }));
    }
    if (name == "isspace") return Value(!s.empty() && strip(s, true, false).empty());
    unknown_method(Value(""), name, line);
  }

  static int64_t count(std::string_view s, std::string_view part) {
    if (part.empty()) return static_cast<int64_t>(count_characters(s)) + 1;
    int64_t n = 0;
    for (size_t at = s.find(part); at != std::string_view::npos; at = s.find(part, at + part.size())) ++n;
    return n;
  }

  bool affix(std::string_view s, const Value& part, bool start, int line) {
    if (part.is(Kind::list)) {
      for (const Value& p : part.list().items) {
        if (affix(s, p, start, line)) return true;
      }
      return false;
    }
    const std::string& p = need_string(part, start ? "startswith()" : "endswith()", line);
    charge(p.size(), line);
    return start ? s.starts_with(p) : s.ends_with(p);
  }

  Value split(std::string_view s, const Arguments& a, bool from_right, int line) {
    const Value separator = argument(a, 0, "sep"), limit_value = argument(a, 1, "maxsplit");
    int64_t limit = limit_value.is(Kind::undefined) ? -1 : need_integer(limit_value, "split()", line);
    std::vector<Value> out;
    if (separator.is(Kind::undefined) || separator.is(Kind::none)) {
      if (from_right && limit >= 0)
        fail(ErrorCode::unsupported, line, "rsplit() at white space with a limit is not supported");
      for (std::string_view rest = strip(s, true, false); !rest.empty();) {
        if (limit-- == 0) {
          out.push_back(Value(rest));
          break;
        }
        size_t end = 0;
        while (end < rest.size() &&
               strip(rest.substr(end, 4), true, false).size() == std::min<size_t>(4, rest.size() - end))
          ++end;
        out.push_back(Value(rest.substr(0, end)));
        rest = strip(rest.substr(end), true, false);
      }
      return make_list(std::move(out), line);
    }
    const std::string& mark = need_string(separator, "split()", line);
    if (mark.empty()) fail(ErrorCode::invalid_argument, line, "split() with an empty separator");
    for (; limit != 0; --limit) {
      const size_t at = from_right ? s.rfind(mark) : s.find(mark);
      if (at == std::string_view::npos) break;
      out.push_back(Value(from_right ? s.substr(at + mark.size()) : s.substr(0, at)));
      s = from_right ? s.substr(0, at) : s.substr(at + mark.size());
    }
    out.push_back(Value(s));
    if (from_right) std::reverse(out.begin(), out.end());
    return make_list(std::move(out), line);
  }

  Value split_lines(std::string_view s, int line) {
    std::vector<Value> out;
    while (!s.empty()) {
      const size_t at = s.find_first_of("\n\r");
      out.push_back(Value(s.substr(0, at)));
      if (at == std::string_view::npos) break;
      s.remove_prefix(at + (s.substr(at, 2) == "\r\n" ? 2 : 1));
    }
    return make_list(std::move(out), line);
  }

  Value replace(std::string_view s, std::string_view from, std::string_view to, const Value& limit_value, int line) {
    int64_t limit = limit_value.is_whole() ? limit_value.whole() : -1;
    std::string out;
    if (from.empty()) {  // between all characters
      while (limit != 0) {
        out += to;
        --limit;
        check_bytes(out.size(), line);
        if (s.empty()) return Value(std::move(out));
        const std::string_view c = characters(s, 0, 1);
        out += c;
        s.remove_prefix(c.size());
      }
      out += s;
      return make_text(std::move(out), line);
    }
    size_t charged = 0;
    for (size_t at = s.find(from); at != std::string_view::npos && limit != 0; at = s.find(from), --limit) {
      out += s.substr(0, at);
      out += to;
      s.remove_prefix(at + from.size());
      if (out.size() > charged) {
        check_bytes(out.size() > kMaxBytes ? out.size() : out.size() - charged, line);
        charged = out.size();
      }
    }
    out += s;
    return make_text(std::move(out), line);
  }

  Value join(const Value& list, std::string_view separator, const std::string& key, int line) {
    std::string out;
    bool first = true;
    for (const Value& item : items(list, line)) {
      if (!std::exchange(first, false)) out += separator;
      out += text(key.empty() ? item : path(item, key, line), line);
      if (out.size() > kMaxBytes) check_bytes(out.size(), line);
    }
    return make_text(std::move(out), line);
  }

  // --- tests ----------------------------------------------------------------------------------------------------------
  bool test(const Expr& e) {
    const Value v = evaluate(*e.args[0]);
    return test(e.text, v, arguments(e), e.line);
  }

  bool test(const std::string& name, const Value& v, const Arguments& a, int line) {
    if (name == "defined") return !v.is(Kind::undefined);
    if (name == "undefined") return v.is(Kind::undefined);
    if (name == "none") return v.is(Kind::none);
    if (name == "string") return v.is(Kind::string);
    if (name == "number") return v.is_number();
    if (name == "integer") return v.is(Kind::integer);
    if (name == "float") return v.is(Kind::real);
    if (name == "boolean") return v.is(Kind::boolean);
    if (name == "true") return v.is(Kind::boolean) && v.boolean();
    if (name == "false") return v.is(Kind::boolean) && !v.boolean();
    if (name == "mapping") return v.is(Kind::dict);
    if (name == "iterable") return v.is(Kind::list) || v.is(Kind::dict) || v.is(Kind::string) || v.is(Kind::undefined);
    if (name == "sequence") return v.is(Kind::list) || v.is(Kind::dict) || v.is(Kind::string) || v.is(Kind::undefined);
    if (name == "callable") return v.is(Kind::callable);
    if (name == "odd" || name == "even") {
      const bool odd = (need_integer(v, "the test odd or even", line) & 1) != 0;
      return odd == (name == "odd");
    }
    if (name == "lower" || name == "upper") {
      const std::string s = text(v, line);
      return std::any_of(s.begin(), s.end(), letter) && s == mapped(s, name == "lower" ? lower : upper);
    }
    const Value other = argument(a, 0, "other");
    if (name == "divisibleby") {
      const int64_t divisor = need_integer(other, "the test divisibleby", line);
      if (divisor == 0) fail(ErrorCode::invalid_argument, line, "division by zero");
      return divisor == -1 || need_integer(v, "the test divisibleby", line) % divisor == 0;
    }
    if (name == "equalto" || name == "eq" || name == "sameas") return equal(v, other, line);
    if (name == "ne") return !equal(v, other, line);
    if (name == "in") return contains(other, v, line);
    if (name == "lt" || name == "lessthan") return less(v, other, line);
    if (name == "gt" || name == "greaterthan") return less(other, v, line);
    if (name == "le") return less(v, other, line) || equal(v, other, line);
    if (name == "ge") return less(other, v, line) || equal(v, other, line);
    fail(ErrorCode::unsupported, line,
         "test '" + printable(name) +
             "' is not supported; allowed are defined, undefined, none, string, number, integer, float, boolean, true, "
             "false, "
             "mapping, iterable, sequence, callable, odd, even, lower, upper, divisibleby, eq, ne, lt, gt, le, ge, in");
  }

  // --- filters --------------------------------------------------------------------------------------------------------
  Value filter(const Expr& e) {
    const Value v = evaluate(*e.args[0]);
    return filter(e.text, v, arguments(e), e.line);
  }

  Value filter(const std::string& name, const Value& v, const Arguments& a, int line) {
    const Recursion recursion(*this, line);  // map() may name itself
    for (const auto& [key, value] : a.named) {
      static constexpr std::string_view kNames[] = {
          "default_value", "boolean",   "chars", "d",     "attribute", "ensure_ascii",   "indent",
          "separators",    "sort_keys", "old",   "new",   "count",     "case_sensitive", "by",
          "reverse",       "default",   "width", "first", "blank"};
      if (std::find(std::begin(kNames), std::end(kNames), key) == std::end(kNames)) {
        fail(ErrorCode::unsupported, line,
             "filter '" + printable(name) + "' with argument '" + printable(key) + "' is not supported");
      }
    }
    const Value first = argument(a, 0, "");
    if (name == "default" || name == "d") {
      const bool loose = argument(a, 1, "boolean").truthy();
      if (!(v.is(Kind::undefined) || (loose && !v.truthy()))) return v;
      const Value fallback = argument(a, 0, "default_value");
      return fallback.is(Kind::undefined) ? Value("") : fallback;
    }
    if (name == "trim") {
      const std::string s = text(v, line);
      const Value chars = argument(a, 0, "chars");
      if (!chars.is(Kind::string)) return make_text(std::string(strip(s, true, true)), line);
      charge(s.size() * std::min<size_t>(chars.string().size(), 1000), line);
      return make_text(std::string(strip(s, true, true, chars.string())), line);
    }
    if (name == "length" || name == "count") return length(v, line);
    if (name == "upper") return make_text(mapped(text(v, line), upper), line);
    if (name == "lower") return make_text(mapped(text(v, line), lower), line);
    if (name == "title") return make_text(title(text(v, line), true), line);
    if (name == "capitalize") return make_text(capitalised(text(v, line)), line);
    if (name == "string") return make_text(text(v, line), line);
    if (name == "safe") return v;
    if (name == "join") {
      const Value key = argument(a, 1, "attribute");
      return join(v, text(argument(a, 0, "d"), line), key.is(Kind::string) ? key.string() : "", line);
    }
    if (name == "tojson") return to_json(v, a, line);
    if (name == "replace") {
      return replace(text(v, line), need_string(argument(a, 0, "old"), "replace", line),
                     need_string(argument(a, 1, "new"), "replace", line), argument(a, 2, "count"), line);
    }
    if (name == "first" || name == "last") {
      const std::vector<Value> all = items(v, line);
      if (all.empty()) return Value::undefined(name + " item");
      return name == "first" ? all.front() : all.back();
    }
    if (name == "list") return make_list(items(v, line), line);
    if (name == "reverse") {
      std::vector<Value> all = items(v, line);
      std::reverse(all.begin(), all.end());
      if (!v.is(Kind::string)) return make_list(std::move(all), line);
      return join(Value::list(std::move(all)), "", "", line);
    }
    if (name == "unique") {
      std::vector<Value> out;
      for (Value& item : items(v, line)) {
        const bool seen = std::any_of(out.begin(), out.end(), [&](const Value& o) { return equal(o, item, line); });
        if (!seen) out.push_back(std::move(item));
      }
      return make_list(std::move(out), line);
    }
    if (name == "items") return entries(v, line);
    if (name == "dictsort") return sort_entries(v, a, line);
    if (name == "sort") return sort(v, a, line);
    if (name == "map") return map(v, a, line);
    if (name == "select" || name == "reject") return select(v, a, false, name == "select", line);
    if (name == "selectattr" || name == "rejectattr") return select(v, a, true, name == "selectattr", line);
    if (name == "indent") return indent(v, a, line);
    if (name == "int") return to_integer(v, first, line);
    if (name == "float") return to_real(v, first);
    if (name == "abs") {
      if (v.is(Kind::real)) return Value(std::fabs(v.real()));
      const int64_t i = need_integer(v, "abs", line);
      if (i == std::numeric_limits<int64_t>::min()) overflow(line);
      return Value(i < 0 ? -i : i);
    }
    if (name == "min" || name == "max" || name == "sum") return fold(name, v, line);
    fail(ErrorCode::unsupported, line,
         "filter '" + printable(name) +
             "' is not supported; allowed are abs, capitalize, count, default, dictsort, first, float, indent, int, "
             "items, join, last, length, "
             "list, lower, map, max, min, reject, rejectattr, replace, reverse, safe, select, selectattr, sort, "
             "string, sum, title, tojson, trim, "
             "unique, upper");
  }

  Value entries(const Value& v, int line) {
    if (v.is(Kind::undefined)) return Value::list({});
    if (!v.is(Kind::dict)) fail(ErrorCode::invalid_argument, line, "items of " + describe(v));
    check_items(v.dict().items.size(), line);
    std::vector<Value> out;
    for (const auto& [key, value] : v.dict().items) out.push_back(Value::list({key, value}));
    return make_list(std::move(out), line);
  }

  /// Sorts `items` by the value that `key` gives; texts without regard to case unless `exact`.
  template <class Key>
  void sort_by(std::vector<Value>& items, Key key, bool exact, bool reverse, int line) {
    std::vector<std::pair<Value, size_t>> order;
    for (size_t i = 0; i < items.size(); ++i) {
      Value k = key(items[i]);
      if (!exact && k.is(Kind::string)) k = make_text(mapped(k.string(), lower), line);
      order.emplace_back(std::move(k), i);
    }
    std::stable_sort(order.begin(), order.end(), [&](const auto& x, const auto& y) {
      return reverse ? less(y.first, x.first, line) : less(x.first, y.first, line);
    });
    std::vector<Value> out;
    for (const auto& [k, i] : order) out.push_back(items[i]);
    items = std::move(out);
  }

  Value sort_entries(const Value& v, const Arguments& a, int line) {
    std::vector<Value> pairs = entries(v, line).list().items;
    const Value by = argument(a, 1, "by");
    const size_t part = by.is(Kind::string) && by.string() == "value" ? 1 : 0;
    sort_by(
        pairs, [&](const Value& pair) { return pair.list().items[part]; }, argument(a, 0, "case_sensitive").truthy(),
        argument(a, 2, "reverse").truthy(), line);
    return make_list(std::move(pairs), line);
  }

  Value sort(const Value& v, const Arguments& a, int line) {
    std::vector<Value> out = items(v, line);
    const Value key = argument(a, 2, "attribute");
    sort_by(
        out, [&](const Value& item) { return key.is(Kind::string) ? path(item, key.string(), line) : item; },
        argument(a, 1, "case_sensitive").truthy(), argument(a, 0, "reverse").truthy(), line);
    return make_list(std::move(out), line);
  }

  /// Attribute "a.b.c" of `v`.
  Value path(Value v, std::string_view names, int line) {
    while (!names.empty()) {
      const size_t dot = names.find('.');
      v = attribute(v, std::string(names.substr(0, dot)), line);
      names = dot == std::string_view::npos ? std::string_view() : names.substr(dot + 1);
    }
    return v;
  }

  Value map(const Value& v, const Arguments& a, int line) {
    std::vector<Value> out;
    const Value key = argument(a, std::numeric_limits<size_t>::max(), "attribute");
    const Value missing = argument(a, std::numeric_limits<size_t>::max(), "default");
    Arguments rest = a;
    std::string name;
    if (!key.is(Kind::string)) {
      name = need_string(argument(a, 0, "filter"), "map", line);
      if (!rest.positional.empty()) rest.positional.erase(rest.positional.begin());
    }
    for (const Value& item : items(v, line)) {
      if (!name.empty()) {
        out.push_back(filter(name, item, rest, line));
        continue;
      }
      Value found = path(item, key.string(), line);
      if (found.is(Kind::undefined) && !missing.is(Kind::undefined)) found = missing;
      out.push_back(std::move(found));
    }
    return make_list(std::move(out), line);
  }

  Value select(const Value& v, const Arguments& a, bool by_attribute, bool keep, int line) {
    Arguments rest = a;
    const auto next = [&] {
      Value value = rest.positional.empty() ? Value() : rest.positional.front();
      if (!rest.positional.empty()) rest.positional.erase(rest.positional.begin());
      return value;
    };
    std::string key, name;
    if (by_attribute) key = need_string(next(), "selectattr", line);
    if (!rest.positional.empty()) name = need_string(next(), "select", line);
    std::vector<Value> out;
    for (const Value& item : items(v, line)) {
      charge(0, line);
      const Value subject = by_attribute ? path(item, key, line) : item;
      if ((name.empty() ? subject.truthy() : test(name, subject, rest, line)) == keep) out.push_back(item);
    }
    return make_list(std::move(out), line);
  }

  Value indent(const Value& v, const Arguments& a, int line) {
    const Value width = argument(a, 0, "width");
    const std::string prefix =
        width.is(Kind::string)
            ? width.string()
            : std::string(static_cast<size_t>(width.is_whole() ? std::clamp<int64_t>(width.whole(), 0, 256) : 4), ' ');
    const bool first = argument(a, 1, "first").truthy(), blank = argument(a, 2, "blank").truthy();
    const std::string s = text(v, line);
    std::string out;
    size_t begin = 0;
    for (bool start = true;; start = false) {
      const size_t end = s.find('\n', begin);
      const std::string_view part = std::string_view(s).substr(begin, end == std::string::npos ? end : end - begin);
      if (start ? first : (blank || !part.empty())) out += prefix;
      out += part;
      if (out.size() > kMaxBytes) check_bytes(out.size(), line);
      if (end == std::string::npos) break;
      out += '\n';
      begin = end + 1;
    }
    return make_text(std::move(out), line);
  }

  Value to_integer(const Value& v, const Value& fallback, int line) {
    const Value otherwise = fallback.is(Kind::undefined) ? Value(0) : fallback;
    if (v.is_whole()) return Value(v.whole());
    double d = 0;
    if (v.is(Kind::real)) {
      d = v.real();
    } else if (v.is(Kind::string)) {
      const std::string_view s = strip(v.string(), true, true);
      int64_t i = 0;
      const auto parsed = std::from_chars(s.data(), s.data() + s.size(), i);
      if (parsed.ec == std::errc() && parsed.ptr == s.data() + s.size()) return Value(i);
      const auto real = std::from_chars(s.data(), s.data() + s.size(), d);
      if (real.ec != std::errc() || real.ptr != s.data() + s.size()) return otherwise;
    } else {
      return otherwise;
    }
    if (!(std::fabs(d) < 0x1p63)) overflow(line);
    return Value(static_cast<int64_t>(d));
  }

  static Value to_real(const Value& v, const Value& fallback) {
    if (v.is_number()) return Value(v.number());
    if (v.is(Kind::string)) {
      const std::string_view s = strip(v.string(), true, true);
      double d = 0;
      const auto parsed = std::from_chars(s.data(), s.data() + s.size(), d);
      if (parsed.ec == std::errc() && parsed.ptr == s.data() + s.size()) return Value(d);
    }
    return fallback.is(Kind::undefined) ? Value(0.0) : fallback;
  }

  Value fold(const std::string& name, const Value& v, int line) {
    const std::vector<Value> all = items(v, line);
    if (name == "sum") {
      Expr plus;
      plus.op = Op::add;
      plus.line = line;
      Value total(0);
      for (const Value& item : all) total = arithmetic(plus, total, item);
      return total;
    }
    if (all.empty()) return Value::undefined(name + " of nothing");
    Value best = all[0];
    for (const Value& item : all) {
      if (name == "min" ? less(item, best, line) : less(best, item, line)) best = item;
    }
    return best;
  }

  std::vector<Scope> scopes_;
  std::string out_;
  int64_t steps_ = 0;
  int recursion_ = 0;
};

}  // namespace

struct Template::Impl {
  Block block;
};

Template::Template(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Template::~Template() = default;
Template::Template(Template&&) noexcept = default;
Template& Template::operator=(Template&&) noexcept = default;

Template Template::parse(std::string_view source) {
  auto impl = std::make_unique<Impl>();
  impl->block = jinja::parse(source);
  return Template(std::move(impl));
}

std::string Template::render(const std::vector<std::pair<std::string, Value>>& variables) const {
  return Evaluator(variables).run(impl_->block);
}

}  // namespace monotile::engine::jinja
