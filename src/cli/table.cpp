#include "cli/table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "monotile/error.hpp"

namespace monotile::cli {

std::string wrap(std::string_view text, size_t indent) {
  const size_t width = indent + 20 < kColumns ? kColumns - indent : 20;
  std::string result;
  while (text.size() > width) {
    size_t end = text.rfind(' ', width);
    if (end == std::string_view::npos || end == 0) end = std::min(text.find(' '), text.size());
    result += std::string(text.substr(0, end)) + "\n" + std::string(indent, ' ');
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return result + std::string(text);
}

std::string size_text(size_t bytes) {
  if (bytes == 0) return "-";
  constexpr const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1024.0 && unit + 1 < std::size(units); ++unit) value /= 1024.0;
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, units[unit]);
}

void print(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    throw Error(ErrorCode::device_error, "stdout: the output could not be written");
  }
}

}  // namespace monotile::cli
