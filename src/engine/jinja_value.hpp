#pragma once
// Values of the template language: Python's, as far as chat templates use them.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace monotile::engine::jinja {

class Value;
struct Stmt;

enum class Kind : uint8_t { undefined, none, boolean, integer, real, string, list, dict, name_space, callable };

/// `depth` bounds every recursion over values (printing, comparing, freeing).
struct List {
  std::vector<Value> items;
  int depth = 1;
  bool holds_namespace = false;
};

/// Insertion-ordered. Look-up is linear: the dicts of chat templates have a handful of keys.
struct Dict {
  std::vector<std::pair<Value, Value>> items;
  int depth = 1;
  bool holds_namespace = false;
};

/// Variables of `namespace()`: the only mutable value. It cannot be stored inside another one, so there are no cycles.
struct Namespace {
  std::vector<std::pair<std::string, Value>> items;
};

/// A macro of the template, or a global function by name.
struct Callable {
  const Stmt* macro = nullptr;
  std::string function;
  int64_t argument = 0;  ///< strftime_now: seconds since 1970
};

/// Cheap to copy: composite values are shared and immutable (save Namespace).
class Value {
 public:
  static constexpr int kMaxDepth = 32;

  Value() = default;                                          ///< undefined
  Value(bool b) : kind_(Kind::boolean) { scalar_.b = b; }     // NOLINT: values convert freely
  Value(int64_t i) : kind_(Kind::integer) { scalar_.i = i; }  // NOLINT
  Value(int i) : Value(static_cast<int64_t>(i)) {}            // NOLINT
  Value(double d) : kind_(Kind::real) { scalar_.d = d; }      // NOLINT
  Value(std::string s)                                        // NOLINT
      : kind_(Kind::string), data_(std::make_shared<const std::string>(std::move(s))) {}
  Value(std::string_view s) : Value(std::string(s)) {}  // NOLINT
  Value(const char* s) : Value(std::string(s)) {}       // NOLINT

  static Value none();
  /// Undefined, remembering the expression that gave it for error messages.
  static Value undefined(std::string name);
  /// Throws Error(invalid_argument) if nested deeper than kMaxDepth.
  static Value list(std::vector<Value> items);
  static Value dict(std::vector<std::pair<Value, Value>> items);
  static Value name_space(std::vector<std::pair<std::string, Value>> items);
  static Value callable(Callable c);

  Kind kind() const { return kind_; }
  bool is(Kind k) const { return kind_ == k; }
  bool boolean() const { return scalar_.b; }
  int64_t integer() const { return scalar_.i; }
  double real() const { return scalar_.d; }
  /// Number as double (bool, integer or real).
  double number() const;
  bool is_number() const { return kind_ == Kind::boolean || kind_ == Kind::integer || kind_ == Kind::real; }
  bool is_whole() const { return kind_ == Kind::boolean || kind_ == Kind::integer; }
  /// Value of a bool or integer.
  int64_t whole() const { return kind_ == Kind::boolean ? (scalar_.b ? 1 : 0) : scalar_.i; }
  const std::string& string() const { return *static_cast<const std::string*>(data_.get()); }
  const List& list() const { return *static_cast<const List*>(data_.get()); }
  const Dict& dict() const { return *static_cast<const Dict*>(data_.get()); }
  Namespace& name_space() const { return *static_cast<Namespace*>(const_cast<void*>(data_.get())); }
  const Callable& callable() const { return *static_cast<const Callable*>(data_.get()); }
  /// Name of an undefined value, or "".
  std::string undefined_name() const;

  bool truthy() const;
  int depth() const;
  bool holds_namespace() const;

 private:
  Kind kind_ = Kind::undefined;
  union {
    bool b;
    int64_t i = 0;
    double d;
  } scalar_;
  std::shared_ptr<const void> data_;
};

/// "string", "list", ... as Python names them.
const char* type_name(const Value& v);

// --- text with Python's rules: a character is a code point; a byte that is not UTF-8 counts as one ------------------------
struct Character {
  uint32_t code;  ///< above 0x10FFFF: the byte at that place is not UTF-8
  size_t bytes;
};
Character decode(std::string_view s, size_t at);
size_t count_characters(std::string_view s);
/// Characters [begin, end), 0 <= begin <= end.
std::string_view characters(std::string_view s, int64_t begin, int64_t end);
/// Strips white space (Unicode's), or any character of `set`.
std::string_view strip(std::string_view s, bool left, bool right);
std::string_view strip(std::string_view s, bool left, bool right, std::string_view set);

}  // namespace monotile::engine::jinja
