#pragma once
// The part of the Jinja template language that chat templates use, with the settings of Hugging Face's renderer (block tags
// swallow the newline after them and the indentation before them). Templates come out of model files, so they are treated as
// hostile: nesting, steps and the size of every text and list are limited.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/jinja_value.hpp"

namespace monotile::engine::jinja {

/// A parsed template. Rendering is const and safe from several threads.
///
/// Statements: for (with `if`, `else`, unpacking, loop.*), if, set (also block and namespace form), macro, break, continue, raw,
/// generation. Expressions: Python's arithmetic, comparisons, slices, `in`, `is`, inline if, `~`, calls of methods and macros.
/// Upper and lower case change ASCII letters only.
class Template {
 public:
  /// Throws Error(bad_file) for wrong syntax, Error(unsupported) for statements outside the subset; both name the line.
  static Template parse(std::string_view source);
  ~Template();
  Template(Template&&) noexcept;
  Template& operator=(Template&&) noexcept;

  /// Throws Error(invalid_argument) for what the template itself raises and for wrong operations, Error(unsupported) for unknown
  /// filters, tests, functions and methods, Error(bad_file) when a limit is exceeded; all name the line.
  std::string render(const std::vector<std::pair<std::string, Value>>& variables) const;

 private:
  struct Impl;
  explicit Template(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace monotile::engine::jinja
