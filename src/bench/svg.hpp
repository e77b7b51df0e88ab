#pragma once
// Plain SVG text: axes and marks of the report's plots. Colours are classes of the page's style sheet, so that the page can be
// light or dark.

#include <fmt/format.h>

#include <cmath>
#include <string>

namespace monotile::bench::svg {

inline std::string escape(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else
      out += c;
  }
  return out;
}

/// A logarithmic or linear scale from values to pixels.
struct Scale {
  double low, high, from, to;
  bool log = false;
  double operator()(double value) const {
    const double t = log ? std::log(value / low) / std::log(high / low) : (value - low) / (high - low);
    return from + t * (to - from);
  }
};

inline std::string line(double x1, double y1, double x2, double y2, const char* cls) {
  return fmt::format("<line class=\"{}\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>\n", cls, x1, y1, x2,
                     y2);
}
inline std::string text(double x, double y, const std::string& content, const char* anchor = "start",
                        const char* cls = "label") {
  return fmt::format("<text class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", cls, x, y, anchor,
                     escape(content));
}
inline std::string rect(double x, double y, double w, double h, const std::string& cls, const std::string& title) {
  return fmt::format(
      "<rect class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" "
      "rx=\"1.5\"><title>{}</title></rect>\n",
      cls, x, y, std::max(w, 0.5), h, escape(title));
}
inline std::string dot(double x, double y, const std::string& cls, const std::string& title) {
  return fmt::format("<circle class=\"{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\"><title>{}</title></circle>\n", cls, x, y,
                     escape(title));
}
inline std::string open(double width, double height, const std::string& label) {
  return fmt::format("<svg viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\" aria-label=\"{}\">\n", width, height,
                     escape(label));
}

/// Grid lines and labels at powers of ten.
inline std::string log_axis(const Scale& scale, bool vertical, double other_from, double other_to) {
  std::string out;
  for (double tick = std::pow(10.0, std::ceil(std::log10(scale.low) - 1e-9)); tick <= scale.high * 1.0001; tick *= 10) {
    const double at = scale(tick);
    const std::string label = tick >= 1 ? fmt::format("{:.0f}", tick) : fmt::format("{:g}", tick);
    out += vertical ? line(other_from, at, other_to, at, "grid") + text(other_from - 6, at + 4, label, "end")
                    : line(at, other_from, at, other_to, "grid") + text(at, other_from + 16, label, "middle");
  }
  return out;
}

}  // namespace monotile::bench::svg
