#include "engine/inspect.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>

namespace monotile::engine {

namespace {

constexpr size_t kColumns = 80;
constexpr size_t kFirstItems = 6;      // of an array
constexpr size_t kMaxJsonText = 4096;  // of a string; chat templates are longer than anyone reads, but fit

struct Total {
  size_t tensors = 0;
  uint64_t elements = 0, bytes = 0;
};

std::map<std::string, Total> totals(const GgufFile& file) {
  std::map<std::string, Total> out;
  for (const GgufTensor& t : file.tensors()) {
    Total& total = out[t.type_name];
    ++total.tensors;
    total.elements += static_cast<uint64_t>(t.elements);  // below the file size in bits: tensors do not overlap
    total.bytes += t.bytes;
  }
  return out;
}

/// Shortest text that reads back as the same value of the type in the file.
std::string number(const GgufValue& v) {
  char buffer[64];
  const auto end = v.type == GgufType::f32
                       ? std::to_chars(buffer, buffer + sizeof buffer, static_cast<float>(v.as_f64())).ptr
                       : std::to_chars(buffer, buffer + sizeof buffer, v.as_f64()).ptr;
  return std::string(buffer, end);
}

/// "1.5 MiB"
std::string size_text(uint64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, unit == 0 ? "%.0f %s" : "%.1f %s", value, kUnits[unit]);
  return buffer;
}

/// Bytes of the type's elements; the same rule as in the reader.
size_t element_bytes(GgufType type) {
  switch (type) {
    case GgufType::u8:
    case GgufType::i8:
    case GgufType::boolean: return 1;
    case GgufType::u16:
    case GgufType::i16: return 2;
    case GgufType::u64:
    case GgufType::i64:
    case GgufType::f64: return 8;
    default: return 4;
  }
}

/// Element `i` of an array of scalars, as a value of its own.
GgufValue element(const GgufValue& array, size_t i) {
  GgufValue v;
  v.type = array.element;
  const std::byte* p = array.raw + i * element_bytes(array.element);
  uint64_t bits = 0;
  for (size_t k = 0; k < element_bytes(array.element); ++k) bits |= static_cast<uint64_t>(p[k]) << (8 * k);
  switch (array.element) {
    case GgufType::i8: bits = static_cast<uint64_t>(static_cast<int64_t>(static_cast<int8_t>(bits))); break;
    case GgufType::i16: bits = static_cast<uint64_t>(static_cast<int64_t>(static_cast<int16_t>(bits))); break;
    case GgufType::i32: bits = static_cast<uint64_t>(static_cast<int64_t>(static_cast<int32_t>(bits))); break;
    default: break;
  }
  v.bits = bits;
  return v;
}

std::string scalar_text(const GgufValue& v) {
  if (v.type == GgufType::boolean) return v.bits != 0 ? "true" : "false";
  if (v.type == GgufType::u64) return std::to_string(v.bits);
  if (v.is_float()) return number(v);
  return std::to_string(v.as_i64());
}

/// Columns that a text takes, counting every code point as one.
size_t columns(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

/// The longest beginning that fits, with "..." if something is cut off.
std::string fitted(const std::string& text, size_t width) {
  if (columns(text) <= width) return text;
  std::string out;
  size_t used = 0;
  for (size_t i = 0; i < text.size();) {
    size_t end = i + 1;
    while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) ++end;
    if (used + 1 + 3 > width) break;
    out += text.substr(i, end - i);
    ++used;
    i = end;
  }
  return out + "...";
}

std::string padded(const std::string& text, size_t width) {
  const size_t used = columns(text);
  return used >= width ? text : text + std::string(width - used, ' ');
}

std::string right(const std::string& text, size_t width) {
  const size_t used = columns(text);
  return used >= width ? text : std::string(width - used, ' ') + text;
}

std::string value_text(const GgufValue& v, size_t width) {
  if (v.type == GgufType::string) return fitted("\"" + printable(v.text, 4 * width) + "\"", width);
  if (v.type != GgufType::array) return fitted(scalar_text(v), width);
  std::string out = std::to_string(v.count) + " x " + to_string(v.element) + " [";
  for (size_t i = 0; i < std::min<size_t>(v.count, kFirstItems); ++i) {
    if (i > 0) out += ", ";
    out += v.element == GgufType::string ? "\"" + printable(v.strings[i], 24) + "\"" : scalar_text(element(v, i));
  }
  return fitted(out + (v.count > kFirstItems ? ", ...]" : "]"), width);
}

std::string extents_text(const GgufTensor& t) {
  std::string out = "[";
  for (int d = 0; d < t.rank; ++d) {
    if (d > 0) out += ", ";
    out += std::to_string(t.extents[static_cast<size_t>(d)]);
  }
  return out + "]";
}

using Json = nlohmann::ordered_json;

Json scalar_json(const GgufValue& v) {
  if (v.type == GgufType::boolean) return v.bits != 0;
  if (v.type == GgufType::u64) return v.bits;
  if (v.is_float()) {
    const std::string text = number(v);  // through the text, so that 0.01f is written as 0.01
    return std::isfinite(v.as_f64()) ? Json(std::strtod(text.c_str(), nullptr)) : Json(text);
  }
  return v.as_i64();
}

Json value_json(const GgufValue& v) {
  Json out;
  out["type"] = to_string(v.type);
  if (v.type == GgufType::string) {
    out["value"] = std::string(v.text.substr(0, kMaxJsonText));
    if (v.text.size() > kMaxJsonText) out["bytes"] = v.text.size();
  } else if (v.type == GgufType::array) {
    out["element"] = to_string(v.element);
    out["count"] = v.count;
    Json first = Json::array();
    for (size_t i = 0; i < std::min<size_t>(v.count, kFirstItems); ++i) {
      first.push_back(v.element == GgufType::string ? Json(std::string(v.strings[i].substr(0, kMaxJsonText)))
                                                    : scalar_json(element(v, i)));
    }
    out["first"] = std::move(first);
  } else {
    out["value"] = scalar_json(v);
  }
  return out;
}

}  // namespace

std::string inspect_text(const GgufFile& file) {
  std::string out;
  const auto add = [&](const std::string& line) { out += fitted(line, kColumns) + "\n"; };
  add("file       " + printable(file.path(), 200));
  add("format     GGUF v" + std::to_string(file.version()) + ", " + size_text(file.file_bytes()) + " (" +
      std::to_string(file.file_bytes()) + " bytes), alignment " + std::to_string(file.alignment()));
  add("");

  add("metadata   " + std::to_string(file.metadata().size()) + " entries");
  size_t key_width = 8;
  for (const GgufEntry& e : file.metadata()) key_width = std::max(key_width, columns(printable(e.key, 60)));
  key_width = std::min<size_t>(key_width, 44);
  for (const GgufEntry& e : file.metadata()) {
    const std::string key = padded(fitted(printable(e.key, 200), key_width), key_width);
    add("  " + key + "  " + value_text(e.value, kColumns - key_width - 4));
  }
  add("");

  add("tensors    " + std::to_string(file.tensors().size()));
  size_t name_width = 8;
  for (const GgufTensor& t : file.tensors()) name_width = std::max(name_width, columns(printable(t.name, 60)));
  name_width = std::min<size_t>(name_width, 38);
  for (const GgufTensor& t : file.tensors()) {
    const std::string type = std::string(t.type_name) + (t.dtype == DType::none ? " *" : "");
    const std::string name = padded(fitted(printable(t.name, 300), name_width), name_width);
    add("  " + name + "  " + padded(type, 9) + right(size_text(t.bytes), 10) + "  " + extents_text(t));
  }
  add("");

  add("totals");
  Total sum;
  bool unloadable = false;
  for (const GgufTensor& t : file.tensors()) unloadable = unloadable || t.dtype == DType::none;
  const auto line = [&](const std::string& name, const Total& t) {
    add("  " + padded(name, 9) + right(std::to_string(t.tensors), 6) + " tensors" +
        right(std::to_string(t.elements), 16) + " elements" + right(size_text(t.bytes), 12));
    sum.tensors += t.tensors;
    sum.elements += t.elements;
    sum.bytes += t.bytes;
  };
  for (const auto& [name, total] : totals(file)) line(name, total);
  line("all", Total(sum));
  if (unloadable) add("* this type cannot be loaded");
  return out;
}

std::string inspect_json(const GgufFile& file) {
  Json out;
  out["file"] = file.path();
  out["version"] = file.version();
  out["alignment"] = file.alignment();
  out["bytes"] = file.file_bytes();
  Json metadata = Json::object();
  // Appended, since looking a key up walks through all of them; the reader has refused keys that occur twice.
  auto& entries = metadata.get_ref<Json::object_t&>();
  for (const GgufEntry& e : file.metadata()) entries.emplace_back(std::string(e.key), value_json(e.value));
  out["metadata"] = std::move(metadata);
  Json tensors = Json::array();
  for (const GgufTensor& t : file.tensors()) {
    Json extents = Json::array();
    for (int d = 0; d < t.rank; ++d) extents.push_back(t.extents[static_cast<size_t>(d)]);
    tensors.push_back({{"name", std::string(t.name)},
                       {"type", t.type_name},
                       {"extents", std::move(extents)},
                       {"elements", t.elements},
                       {"bytes", t.bytes},
                       {"offset", t.offset},
                       {"loadable", t.dtype != DType::none}});
  }
  out["tensors"] = std::move(tensors);
  Json sums = Json::object();
  for (const auto& [name, total] : totals(file)) {
    sums[name] = {{"tensors", total.tensors}, {"elements", total.elements}, {"bytes", total.bytes}};
  }
  out["totals"] = std::move(sums);
  return out.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace monotile::engine
