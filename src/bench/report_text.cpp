// Terminal and Markdown.

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "bench/report.hpp"

namespace monotile::bench {
namespace {

std::string us_text(double us) {
  if (us <= 0) return "-";
  if (us < 100) return fmt::format("{:.2f} us", us);
  if (us < 10e3) return fmt::format("{:.1f} us", us);
  return us < 10e6 ? fmt::format("{:.1f} ms", us * 1e-3) : fmt::format("{:.1f} s", us * 1e-6);
}
std::string rate_text(const Row& row) {
  if (!row.memory_bound) {
    return row.tflops() < 1 ? fmt::format("{:.0f} GFLOP/s", row.tflops() * 1e3)
                            : fmt::format("{:.1f} TFLOP/s", row.tflops());
  }
  return row.gbs() < 100 ? fmt::format("{:.1f} GB/s", row.gbs()) : fmt::format("{:.0f} GB/s", row.gbs());
}
std::string percent(double share) { return share > 0 ? fmt::format("{:.0f} %", 100 * share) : std::string("-"); }
std::string spread_text(const Spread& s) {
  return s.median > 0 ? fmt::format("{:+.0f}{:+.0f}%", 100 * (s.p10 / s.median - 1), 100 * (s.p90 / s.median - 1))
                      : "-";
}

std::string copy_text(const Row& row) {
  return row.copy_gbs > 0 ? fmt::format("{:.2f}", row.of_copy()) : std::string("-");
}

std::string title(const Row& row) {
  std::string text = fmt::format("{} {} {}", row.op, row.shape, row.dtype);
  if (row.threads > 0) text += fmt::format("  {} thread{}", row.threads, row.threads == 1 ? "" : "s");
  if (!row.phase.empty()) text += fmt::format("  [{}, {}, x{:g}]", row.model, row.phase, row.calls);
  return text;
}

std::string sensors_line(const Json& environment) {
  std::string text;
  if (!environment.contains("sensors")) return text;
  for (const auto& [name, value] : environment["sensors"].items()) {
    if (value.is_number()) text += fmt::format("{}{} {:g}", text.empty() ? "" : ", ", name, value.get<double>());
  }
  return text;
}

}  // namespace

std::string text_table(const Report& report, bool wide) {
  const Ceilings& c = report.ceilings;
  std::string text = fmt::format("{}\n", report.environment.value("device_name", std::string("?")));
  for (const Ceiling& s : c.streams) text += fmt::format("  {:<34} {:>9.1f} GB/s\n", s.name, s.value);
  for (const auto& [dtype, p] : c.products) text += fmt::format("  {:<34} {:>9.2f} TFLOP/s\n", p.name, p.value);
  if (c.spec.gbs > 0)
    text += fmt::format("  {:<34} {:>9.0f} GB/s, {:.0f} TFLOP/s bf16\n", "specified (" + c.spec.name + ")", c.spec.gbs,
                        c.spec.flops_of(DType::bf16));
  if (c.launch_us > 0)
    text += fmt::format("  {:<34} {:>9.2f} us host, {:.2f} us per empty graph node\n", "bare launch", c.launch_us,
                        c.empty_node_us);
  if (c.ridge_of(DType::bf16) > 0)
    text += fmt::format("  {:<34} {:>9.0f} flop/byte bf16\n", "ridge point", c.ridge_of(DType::bf16));
  const std::string sensors = sensors_line(report.environment);
  if (!sensors.empty()) text += "  " + sensors + "\n";
  // Beside memcpy there is no specified limit to show, nor a device to issue calls to.
  const bool beside_copy =
      std::any_of(report.rows.begin(), report.rows.end(), [](const Row& row) { return row.copy_gbs > 0; });
  text += fmt::format("\n{:<17}{:>11}{:>10}{:>14}{:>7}{:>7}{:>6}{:>7}", "* chosen", "time", "p10 p90", "rate", "meas.",
                      beside_copy ? "memcpy" : "spec", "err", "host+");
  if (wide)
    text += fmt::format("  {:>9} {:>4} {:>10} {:<18} {}", "first", "n", "workspace", "method", "implementation, note");
  text += "\n";
  std::string work;
  for (const Row& row : report.rows) {
    if (row.work_key() != work) {
      work = row.work_key();
      text += title(row) + "\n";
    }
    std::string name = row.column == "peer" || row.column == "vendor" ? row.implementation : row.column;
    if (name.size() > 13) name.resize(13);
    const std::string host = row.host ? fmt::format("{:+.1f}", row.host->difference.median) : "";
    text += fmt::format("  {:<14}{} {:>10}{:>10}{:>14}{:>7}{:>7}{:>6}{:>7}", name, row.chosen ? '*' : ' ',
                        us_text(row.us.median), spread_text(row.us), row.us.median > 0 ? rate_text(row) : "-",
                        percent(row.of_peak()), beside_copy ? copy_text(row) : percent(row.of_spec()),
                        row.checked > 0 ? fmt::format("{:.2f}", row.error) : "", host);
    if (wide)
      text += fmt::format("  {:>9} {:>4} {:>10} {:<18} {}", us_text(row.first_call_us), row.us.n, row.workspace_bytes,
                          row.method, row.implementation);
    if (row.status != "ok")
      text += fmt::format("\n    {}: {}", row.status == "refused" ? "REFUSED" : "failed", row.note);
    if (row.status == "ok" && !row.note.empty()) text += "\n    " + row.note;
    text += "\n";
  }
  for (const std::string& note : report.notes) text += note + "\n";
  text += fmt::format("{}err: error over\nits bound. host+: us to issue, above an empty kernel. {} rows, {:.0f} s\n",
                      beside_copy ? "meas.: share of the measured limit. memcpy: rate over its rate. "
                                  : "meas., spec: share of the measured and of the specified limit. ",
                      report.rows.size(), report.seconds);
  return text;
}

std::string readme_table(const Report& report) {
  // Of each operator the largest and the smallest single shape.
  const auto list = prices(report);
  std::map<std::string, std::pair<const Row*, const Row*>> ends;
  for (const auto& [key, price] : list) {
    if (price.portable == nullptr || !price.portable->phase.empty()) continue;
    auto& [small, large] = ends.try_emplace(price.portable->op, price.portable, price.portable).first->second;
    if (price.portable->bytes < small->bytes) small = price.portable;
    if (price.portable->bytes > large->bytes) large = price.portable;
  }
  const Json& e = report.environment;
  std::string text = fmt::format("{}, {}, commit {}:\n\n", e.value("device_name", std::string("?")),
                                 e.value("time", std::string("?")).substr(0, 10), e.value("commit", std::string("?")));
  text +=
      "| operator, shape, dtype | portable | of the measured limit | beside the best of the others "
      "|\n|---|---|---|---|\n";
  for (const auto& [key, price] : list) {
    if (price.portable == nullptr || !price.portable->phase.empty()) continue;
    const Row& p = *price.portable;
    const auto& [small, large] = ends.at(p.op);
    if (&p != small && &p != large) continue;
    const Row* other = nullptr;
    for (const Row* candidate : {price.vendor, price.native, price.peer}) {
      if (candidate != nullptr && (other == nullptr || candidate->us.median < other->us.median)) other = candidate;
    }
    const std::string name = other == nullptr            ? ""
                             : other->column == "native" ? "hand-written CUDA"
                                                         : other->implementation;
    text += fmt::format("| {} {} {} | {}, {} | {} | {} |\n", p.op, p.shape, p.dtype, us_text(p.us.median), rate_text(p),
                        p.memory_bound && p.of_peak() < 0.05 ? std::string("latency") : percent(p.of_peak()),
                        other != nullptr ? fmt::format("{:.2f}x the speed of {} ({})", other->us.median / p.us.median,
                                                       name, us_text(other->us.median))
                                         : "-");
  }
  return text;
}

std::string markdown(const Report& report) {
  const Ceilings& c = report.ceilings;
  std::string text = fmt::format("Measured on {}, {}.", report.environment.value("device_name", std::string("?")),
                                 report.environment.value("time", std::string("?")));
  text += fmt::format(" Copy bandwidth {:.0f} GB/s, best stream {:.0f} GB/s", c.copy_gbs, c.peak_gbs);
  if (c.spec.gbs > 0) text += fmt::format(" (specified {:.0f})", c.spec.gbs);
  for (const auto& [dtype, p] : c.products) text += fmt::format("; {} {:.1f} TFLOP/s", p.name, p.value);
  text +=
      ".\n\n| operator | shape | dtype | portable | best other | naive | portable / best | of measured limit | of "
      "specified |\n|---|---|---|---|---|---|---|---|---|\n";
  for (const auto& [key, price] : prices(report)) {
    if (price.portable == nullptr) continue;
    const Row& p = *price.portable;
    const Row* other = nullptr;
    for (const Row* candidate : {price.tuned, price.vendor, price.native, price.peer}) {
      if (candidate != nullptr && (other == nullptr || candidate->us.median < other->us.median)) other = candidate;
    }
    text += fmt::format("| {} | {}{} | {} | {} ({}) | {} | {} | {} | {} | {} |\n", p.op, p.shape,
                        p.phase.empty() ? "" : ", " + p.model + " " + p.phase, p.dtype, us_text(p.us.median),
                        rate_text(p), other != nullptr ? us_text(other->us.median) + " " + other->implementation : "-",
                        price.naive != nullptr ? us_text(price.naive->us.median) : "-",
                        other != nullptr ? fmt::format("{:.2f}", other->us.median / p.us.median) : "-",
                        percent(p.of_peak()), percent(p.of_spec()));
  }
  bool first = true;
  for (const Row& row : report.rows) {
    if (row.status == "ok") continue;
    if (first) text += "\nNot shown:\n\n";
    first = false;
    text +=
        fmt::format("- {} {} {} {}: {}: {}\n", row.op, row.shape, row.dtype, row.implementation, row.status, row.note);
  }
  return text;
}

}  // namespace monotile::bench
