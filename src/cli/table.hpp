#pragma once
// Text for terminals of 80 columns.

#include <cstddef>
#include <string>
#include <string_view>

namespace monotile::cli {

inline constexpr size_t kColumns = 80;

/// `text` broken at blanks into lines that start at column `indent`; the first line is not indented, since something
/// stands before it.
std::string wrap(std::string_view text, size_t indent);
/// "7.6 GiB"; "-" for 0.
std::string size_text(size_t bytes);
/// Prints to stdout and throws Error(device_error) if that fails.
void print(std::string_view text);

}  // namespace monotile::cli
