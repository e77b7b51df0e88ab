// One self-contained page: no scripts, no network, light and dark.

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "bench/compare.hpp"
#include "bench/report.hpp"
#include "bench/svg.hpp"

namespace monotile::bench {
namespace {

using svg::escape;
using svg::Scale;

// Colours: the first eight of a palette that colour-blind readers can tell apart, checked on both backgrounds.
constexpr const char* kStyle = R"(
:root { color-scheme: light dark; --bg: #ffffff; --fg: #1c2530; --soft: #5b6773; --line: #d8dee4; --panel: #f5f7f9;
  --c-portable: #0b66c3; --c-portable_sm80: #56a0dd; --c-tuned: #00866b; --c-vendor: #c2410c; --c-native: #8a6d00; --c-naive: #8b95a1;
  --c-peer: #9d3fa8; --c-reference: #b8c0c8; --bad: #b42318; }
@media (prefers-color-scheme: dark) { :root { --bg: #12171d; --fg: #e4e9ee; --soft: #9aa7b4; --line: #2d3742; --panel: #1a2129;
  --c-portable: #5aaeff; --c-portable_sm80: #2f78b8; --c-tuned: #3fcfa8; --c-vendor: #ff8a4c; --c-native: #e0bf3c; --c-naive: #75818d;
  --c-peer: #d68be0; --c-reference: #4a5560; --bad: #ff8f85; } }
body { background: var(--bg); color: var(--fg); font: 15px/1.5 system-ui, "Segoe UI", "Liberation Sans", sans-serif; margin: 0 auto; max-width: 1080px; padding: 24px 20px 60px; }
h1 { font-size: 26px; margin: 0 0 4px; } h2 { font-size: 19px; margin: 40px 0 6px; } p { margin: 6px 0 12px; max-width: 76ch; } .soft { color: var(--soft); }
svg { width: 100%; height: auto; display: block; } .label { fill: var(--soft); font-size: 11px; } .name { fill: var(--fg); font-size: 11.5px; } .small { fill: var(--soft); font-size: 10px; }
.grid { stroke: var(--line); stroke-width: 1; } .roof { stroke: var(--fg); stroke-width: 1.6; } .spec { stroke: var(--soft); stroke-width: 1.2; stroke-dasharray: 5 4; }
.portable { fill: var(--c-portable); } .portable_sm80 { fill: var(--c-portable_sm80); } .tuned { fill: var(--c-tuned); } .vendor { fill: var(--c-vendor); } .native { fill: var(--c-native); }
.naive { fill: var(--c-naive); } .peer { fill: var(--c-peer); } .reference { fill: var(--c-reference); } circle { stroke: var(--bg); stroke-width: 1; }
path.portable { fill: none; stroke: var(--c-portable); stroke-width: 2; } path.vendor { fill: none; stroke: var(--c-vendor); stroke-width: 2; }
path.tuned { fill: none; stroke: var(--c-tuned); stroke-width: 2; } path.native { fill: none; stroke: var(--c-native); stroke-width: 2; } path.peer { fill: none; stroke: var(--c-peer); stroke-width: 2; }
.legend span { display: inline-block; margin-right: 16px; } .legend i { display: inline-block; width: 11px; height: 11px; border-radius: 2px; margin-right: 5px; vertical-align: -1px; }
table { border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums; width: 100%; } th, td { text-align: right; padding: 3px 8px; border-bottom: 1px solid var(--line); white-space: nowrap; }
th { color: var(--soft); font-weight: 600; } th:first-child, td:first-child, .left { text-align: left; } .scroll { overflow-x: auto; } .bad { color: var(--bad); white-space: normal; }
.facts { display: grid; grid-template-columns: repeat(auto-fit, minmax(160px, 1fr)); gap: 10px; margin: 16px 0; } .facts div { background: var(--panel); border-radius: 8px; padding: 10px 12px; }
.facts b { display: block; font-size: 18px; white-space: nowrap; } .facts span { color: var(--soft); font-size: 12.5px; }
)";

constexpr const char* kColumns[] = {"naive", "portable_sm80", "portable", "tuned", "native", "vendor", "peer"};

std::string column_title(const std::string& column) {
  return column == "portable_sm80" ? "portable, Ampere path" : column == "peer" ? "best Python peer" : column;
}

std::string legend(const std::set<std::string>& used) {
  std::string out = "<p class=\"legend\">";
  for (const char* column : kColumns) {
    if (used.count(column) != 0)
      out += fmt::format("<span><i style=\"background:var(--c-{})\"></i>{}</span>", column, column_title(column));
  }
  return out + "</p>\n";
}

std::string short_us(double us) {
  return us < 100   ? fmt::format("{:.1f} us", us)
         : us < 1e4 ? fmt::format("{:.0f} us", us)
                    : fmt::format("{:.1f} ms", us * 1e-3);
}

std::string row_title(const Row& row) {
  return fmt::format("{} {} {}, {} ({}): {} , {:.0f} GB/s, {:.2f} TFLOP/s, {:.0f} % of the measured limit", row.op,
                     row.shape, row.dtype, row.column, row.implementation, short_us(row.us.median), row.gbs(),
                     row.tflops(), 100 * row.of_peak());
}

bool usable(const Row& row) { return row.status == "ok" && row.us.median > 0; }

/// Arithmetic intensity against rate, with the measured and specified roofs.
std::string roofline(const Report& report) {
  const Ceilings& c = report.ceilings;
  constexpr double kWidth = 1040, kHeight = 470, kLeft = 64, kRight = 1020, kTop = 14, kBottom = 425;
  double low = 1e9, high = 1, least = 1e9, most = 1e-6;
  for (const Row& row : report.rows) {
    if (!usable(row) || row.flops <= 0) continue;
    low = std::min(low, row.flops / row.bytes);
    high = std::max(high, row.flops / row.bytes);
    least = std::min(least, row.tflops() * 1e3);
    most = std::max(most, row.tflops() * 1e3);
  }
  if (low > high) return "";
  DType dtype = c.tflops_of(DType::bf16) > 0 || c.spec.flops_of(DType::bf16) > 0 ? DType::bf16 : DType::f32;
  const double peak = c.tflops_of(dtype) * 1e3, spec_peak = c.spec.flops_of(dtype) * 1e3;
  most = std::max({most, peak, spec_peak});
  const Scale x{std::pow(10, std::floor(std::log10(low))), std::pow(10, std::ceil(std::log10(std::max(high, 2e3)))),
                kLeft, kRight, true};
  const Scale y{std::pow(10, std::floor(std::log10(least))), std::pow(10, std::ceil(std::log10(most))), kBottom, kTop,
                true};
  std::string out = svg::open(kWidth, kHeight, "Roofline") + svg::log_axis(x, false, kBottom, kTop) +
                    svg::log_axis(y, true, kLeft, kRight);
  const auto roof = [&](double gbs, double gflops, const char* cls, const std::string& label) {
    if (gbs <= 0) return std::string();
    const double top = gflops > 0 ? gflops : y.high, ridge = std::min(top / gbs, x.high),
                 start = std::max(x.low, y.low / gbs);
    std::string s = svg::line(x(start), y(start * gbs), x(ridge), y(ridge * gbs), cls);
    if (gflops > 0 && ridge < x.high)
      s += svg::line(x(ridge), y(gflops), kRight, y(gflops), cls) +
           svg::text(kRight - 4, y(gflops) + (cls[0] == 's' ? -5 : 14), label, "end");
    return s;
  };
  out += roof(
      c.spec.gbs, spec_peak, "spec",
      fmt::format("specified: {:.0f} GB/s, {:.0f} TFLOP/s {}", c.spec.gbs, spec_peak * 1e-3, dtype_info(dtype).name));
  out += roof(c.peak_gbs, peak, "roof",
              fmt::format("measured: {:.0f} GB/s, {:.1f} TFLOP/s {}", c.peak_gbs, peak * 1e-3, dtype_info(dtype).name));
  std::set<std::string> used;
  for (const Row& row : report.rows) {
    if (!usable(row) || row.flops <= 0 || row.column == "reference") continue;
    used.insert(row.column);
    out += svg::dot(x(row.flops / row.bytes), y(std::max(row.tflops() * 1e3, y.low)), row.column, row_title(row));
  }
  out += svg::text((kLeft + kRight) / 2, kBottom + 36, "flop per byte of the algorithmic minimum", "middle") +
         svg::text(kLeft + 6, kTop + 12, "GFLOP/s");
  return "<h2>Roofline</h2>\n<p class=\"soft\">Every operator and implementation. The lines are this device's limits; "
         "a point on the slope is bound by memory, on the flat by arithmetic. "
         "Point at a mark for its figures.</p>\n" +
         legend(used) + out + "</svg>\n";
}

/// Per work: one bar per column, as the share of the measured limit that was reached.
std::string ladder(const std::vector<std::pair<std::string, Price>>& list) {
  constexpr double kWidth = 1040, kLeft = 300, kRight = 930, kBar = 11;
  std::set<std::string> used;
  std::string body;
  double y = 22;
  const Scale x{0, 1, kLeft, kRight};
  for (const auto& [key, price] : list) {
    if (price.portable == nullptr) continue;
    const Row& portable = *price.portable;
    const double top = y;
    for (const auto& [column, row] : {std::pair{"naive", price.naive},
                                      {"portable_sm80", price.ampere},
                                      {"portable", price.portable},
                                      {"tuned", price.tuned},
                                      {"native", price.native},
                                      {"vendor", price.vendor},
                                      {"peer", price.peer}}) {
      if (row == nullptr) continue;
      used.insert(column);
      const double share = std::min(row->of_peak(), 1.1);
      body += svg::rect(kLeft, y, x(share) - kLeft, kBar - 2, column, row_title(*row)) +
              svg::text(x(share) + 5, y + 8, short_us(row->us.median), "start", "small");
      y += kBar;
    }
    body += svg::text(kLeft - 8, top + 10, portable.op + " " + portable.shape + " " + portable.dtype, "end", "name");
    if (!portable.phase.empty() && y - top > 1.9 * kBar)
      body += svg::text(kLeft - 8, top + 22, portable.model + ", " + portable.phase, "end", "small");
    y = std::max(y, top + 14) + 8;
  }
  if (used.empty()) return "";
  std::string out = svg::open(kWidth, y + 10, "Ladder of implementations");
  for (const double tick : {0.0, 0.25, 0.5, 0.75, 1.0})
    out += svg::line(x(tick), 16, x(tick), y, "grid") +
           svg::text(x(tick), 11, fmt::format("{:.0f} %", 100 * tick), "middle");
  return "<h2>Naive, portable, tuned, vendor</h2>\n<p class=\"soft\">Share of the measured limit (memory or "
         "arithmetic, whichever binds) that each implementation reaches on the same data. "
         "Longer is better.</p>\n" +
         legend(used) + out + body + "</svg>\n";
}

/// Portable time over the best time of any column, per work.
std::string price_section(const std::vector<std::pair<std::string, Price>>& list) {
  constexpr double kWidth = 1040, kLeft = 300, kRight = 930;
  std::vector<const Price*> shown;
  double most = 1.5;
  for (const auto& [key, price] : list) {
    if (price.portable == nullptr) continue;
    if (price.tuned == nullptr && price.vendor == nullptr && price.native == nullptr && price.peer == nullptr) continue;
    shown.push_back(&price);
    most = std::max(most, price.price());
  }
  if (shown.empty()) return "";
  std::stable_sort(shown.begin(), shown.end(), [](const Price* a, const Price* b) { return a->price() > b->price(); });
  const Scale x{1, std::min(most, 1000.0) * 1.05, kLeft, kRight, true};
  std::string out = svg::open(kWidth, 30 + 17.0 * static_cast<double>(shown.size()), "Price of portability");
  for (const double tick : {1.0, 1.1, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0, 300.0}) {
    if (tick > x.high || (most > 20 && tick > 1 && tick < 2)) continue;
    out += svg::line(x(tick), 16, x(tick), 24 + 17.0 * static_cast<double>(shown.size()), "grid") +
           svg::text(x(tick), 11, fmt::format("{:g}x", tick), "middle");
  }
  double y = 22;
  for (const Price* price : shown) {
    const Row& p = *price->portable;
    const double cost = std::max(1.0, price->price());
    out += svg::rect(kLeft, y, x(cost) - kLeft, 11, "portable", row_title(p));
    out += svg::text(kLeft - 8, y + 10, p.op + " " + p.shape + " " + p.dtype, "end", "name");
    out +=
        svg::text(x(cost) + 6, y + 10,
                  price->best == price->portable ? "portable is the best"
                                                 : fmt::format("{:.2f}x, best: {}", cost, price->best->implementation),
                  "start", "small");
    y += 17;
  }
  return "<h2>The price of portability, per operator</h2>\n<p class=\"soft\">Time of the portable kernel over the time "
         "of the best implementation in any column. 1x: portability is free.</p>\n" +
         out + "</svg>\n";
}

/// Weighted over the steps of models: sum of calls times time, portable against best.
std::string model_section(const std::vector<std::pair<std::string, Price>>& list) {
  struct Sum {
    double portable = 0, best = 0, ours = 0;
    std::vector<std::pair<double, std::string>> parts;
  };
  std::vector<std::string> order;
  std::map<std::string, Sum> steps;
  for (const auto& [key, price] : list) {
    if (price.portable == nullptr || price.portable->calls <= 0) continue;
    const Row& p = *price.portable;
    const std::string step = p.model + ", " + p.phase;
    if (steps.count(step) == 0) order.push_back(step);
    Sum& sum = steps[step];
    sum.portable += p.calls * p.us.median;
    sum.best += p.calls * price.best->us.median;
    sum.parts.push_back({p.calls * (p.us.median - price.best->us.median), p.op + " " + p.shape});
  }
  if (order.empty()) return "";
  std::string out =
      "<h2>The price for a whole step</h2>\n<p class=\"soft\">The operators of a model's step "
      "that this result holds, each weighted by its calls: what the step costs with portable kernels only, and with "
      "the best of "
      "each.</p>\n<div class=\"scroll\"><table><tr><th>step</th><th>portable</th><th>best of "
      "each</th><th>price</th><th class=\"left\">where the difference lies</th></tr>\n";
  for (const std::string& step : order) {
    Sum& sum = steps[step];
    std::sort(sum.parts.rbegin(), sum.parts.rend());
    std::string where;
    for (size_t i = 0; i < std::min<size_t>(2, sum.parts.size()); ++i) {
      if (sum.parts[i].first > 0.01 * (sum.portable - sum.best) && sum.portable > sum.best)
        where += fmt::format("{}{} ({:.0f} %)", where.empty() ? "" : ", ", sum.parts[i].second,
                             100 * sum.parts[i].first / (sum.portable - sum.best));
    }
    out +=
        fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td><td>{:.2f}x</td><td class=\"left\">{}</td></tr>\n",
                    escape(step), short_us(sum.portable), short_us(sum.best), sum.portable / sum.best, escape(where));
  }
  return out + "</table></div>\n";
}

/// Portable against best over problem size, for operators with at least three sizes of one kind.
std::string size_section(const std::vector<std::pair<std::string, Price>>& list) {
  std::map<std::string, std::vector<const Price*>> groups;
  for (const auto& [key, price] : list) {
    if (price.portable != nullptr && price.best != price.portable)
      groups[price.portable->op].push_back(&price);
    else if (price.portable != nullptr &&
             (price.native != nullptr || price.vendor != nullptr || price.peer != nullptr || price.tuned != nullptr))
      groups[price.portable->op].push_back(&price);
  }
  constexpr double kWidth = 1040, kPlot = 330, kHigh = 190;
  std::string body;
  int plots = 0;
  for (auto& [op, members] : groups) {
    std::sort(members.begin(), members.end(),
              [](const Price* a, const Price* b) { return a->portable->bytes < b->portable->bytes; });
    if (members.size() < 3 || members.back()->portable->bytes < 4 * members.front()->portable->bytes) continue;
    const double left = 40 + (plots % 3) * (kPlot + 15), top = 26 + (plots / 3) * (kHigh + 30);
    const Scale x{std::pow(10, std::floor(std::log10(members.front()->portable->bytes * 1e-6))),
                  std::pow(10, std::ceil(std::log10(members.back()->portable->bytes * 1e-6))), left, left + kPlot - 50,
                  true};
    const Scale y{0, 1.05, top + kHigh - 40, top};
    body += svg::text(left, top - 8, op, "start", "name") + svg::log_axis(x, false, top + kHigh - 40, top);
    for (const double tick : {0.0, 0.25, 0.5, 0.75, 1.0})
      body += svg::line(left, y(tick), left + kPlot - 50, y(tick), "grid") +
              svg::text(left - 5, y(tick) + 4, fmt::format("{:g}", tick), "end");
    std::string path;
    for (const Price* price : members) {
      const double px = x(price->portable->bytes * 1e-6), py = y(1 / std::max(1.0, price->price()));
      path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", px, py);
      body += svg::dot(px, py, "portable",
                       fmt::format("{} {}: {:.2f} of {}", price->portable->shape, price->portable->dtype,
                                   1 / price->price(), price->best->implementation));
    }
    body += fmt::format("<path class=\"portable\" d=\"{}\"/>\n", path) +
            svg::text(left + kPlot - 50, top + kHigh - 8, "MB moved", "end");
    ++plots;
  }
  if (plots == 0) return "";
  return "<h2>Where does the gap close?</h2>\n<p class=\"soft\">Speed of the portable kernel as a share of the best "
         "implementation, against the size of the problem.</p>\n" +
         svg::open(kWidth, 26 + ((plots + 2) / 3) * (kHigh + 30), "Price against size") + body + "</svg>\n";
}

std::string comparison_section(const Report& report, const Report& other) {
  const auto list = compare(other, report, 0.97);
  std::string out = fmt::format(
      "<h2>Compared with {}, {}</h2>\n<p class=\"soft\">Speed now over speed then. \"Cannot tell\": the spreads "
      "overlap.</p>\n<div class=\"scroll\"><table><tr><th>row</th><th>then</th>"
      "<th>now</th><th>speed</th><th>judgement</th></tr>\n",
      escape(other.environment.value("device_name", std::string("?"))),
      escape(other.environment.value("time", std::string("?"))));
  for (const Comparison& c : list) {
    const char* word = c.judgement == Judgement::same     ? "same"
                       : c.judgement == Judgement::faster ? "faster"
                       : c.judgement == Judgement::slower ? "slower"
                                                          : "cannot tell";
    out += fmt::format("<tr><td>{} {} {} {}</td><td>{}</td><td>{}</td><td>{:.3f}</td><td>{}</td></tr>\n", c.after->op,
                       c.after->shape, c.after->dtype, c.after->column, short_us(c.before->us.median),
                       short_us(c.after->us.median), c.ratio, word);
  }
  return out + "</table></div>\n";
}

std::string all_rows(const Report& report) {
  std::string out =
      "<h2>All rows</h2>\n<div class=\"scroll\"><table><tr><th>work</th><th "
      "class=\"left\">implementation</th><th>time</th><th>p10</th><th>p90</th><th>n</th><th>GB/s</th><th>TFLOP/s</"
      "th><th>of measured</th>"
      "<th>of spec</th><th>host us</th><th>first call</th><th>error</th><th class=\"left\">method</th></tr>\n";
  std::string work;
  for (const Row& row : report.rows) {
    const std::string title = row.work_key() == work
                                  ? ""
                                  : fmt::format("{} {} {}{}", row.op, row.shape, row.dtype,
                                                row.phase.empty() ? "" : ", " + row.model + " " + row.phase);
    work = row.work_key();
    if (row.status != "ok") {
      out += fmt::format(
          "<tr><td>{}</td><td class=\"left\">{}</td><td class=\"left bad\" colspan=\"12\">{}: {}</td></tr>\n",
          escape(title), escape(row.column + ": " + row.implementation), row.status, escape(row.note));
      continue;
    }
    out += fmt::format(
        "<tr><td>{}</td><td "
        "class=\"left\">{}</td><td>{}</td><td>{:.2f}</td><td>{:.2f}</td><td>{}</td><td>{:.0f}</td><td>{:.2f}</"
        "td><td>{:.0f} %</td><td>{}</td><td>{}</td><td>{}</td><td>{:.2f}</td>"
        "<td class=\"left\">{}</td></tr>\n",
        escape(title), escape(row.column + ": " + row.implementation + (row.chosen ? " (chosen)" : "")),
        short_us(row.us.median), row.us.p10, row.us.p90, row.us.n, row.gbs(), row.tflops(), 100 * row.of_peak(),
        row.of_spec() > 0 ? fmt::format("{:.0f} %", 100 * row.of_spec()) : "-",
        row.host ? fmt::format("{:.2f} ({:+.2f})", row.host->call.median, row.host->difference.median) : "-",
        short_us(row.first_call_us), row.error, escape(row.method));
  }
  return out + "</table></div>\n";
}

std::string facts(const Report& report) {
  const Ceilings& c = report.ceilings;
  std::string out = "<div class=\"facts\">";
  const auto fact = [&](const std::string& value, const std::string& name) {
    out += fmt::format("<div><b>{}</b><span>{}</span></div>", escape(value), escape(name));
  };
  fact(fmt::format("{:.0f} GB/s", c.copy_gbs), "copy bandwidth, read and write");
  fact(fmt::format("{:.0f} GB/s", c.peak_gbs),
       c.spec.gbs > 0 ? fmt::format("best stream; {:.0f} specified", c.spec.gbs) : "best stream");
  for (const auto& [dtype, p] : c.products) fact(fmt::format("{:.1f} TFLOP/s", p.value), dtype + " peak: " + p.name);
  if (c.ridge_of(DType::bf16) > 0) fact(fmt::format("{:.0f} flop/byte", c.ridge_of(DType::bf16)), "ridge point, bf16");
  if (c.launch_us > 0)
    fact(fmt::format("{:.1f} us", c.launch_us),
         fmt::format("bare launch on the host; {:.2f} us as a graph node", c.empty_node_us));
  return out + "</div>\n";
}

}  // namespace

std::string html(const Report& report, const Report* other) {
  const auto list = prices(report);
  std::string out =
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width, initial-scale=1\"><title>monotile bench</title><style>";
  out += kStyle;
  out += "</style></head><body>\n";
  const Json& e = report.environment;
  out += fmt::format(
      "<h1>Portability and its price</h1>\n<p class=\"soft\">{} ({}), {}. monotile {}, commit {}, {}. {} rows in "
      "{:.0f} s, {} cache, {}, seed {}.</p>\n",
      escape(e.value("device_name", std::string("?"))), escape(e.value("path", std::string("?"))),
      escape(e.value("time", std::string("?"))), escape(e.value("version", std::string("?"))),
      escape(e.value("commit", std::string("?"))), escape(e.value("driver", std::string(""))), report.rows.size(),
      report.seconds, escape(e.value("cache", std::string("?"))), escape(e.value("regime", std::string("?"))),
      e.value("seed", 0));
  out +=
      facts(report) + model_section(list) + price_section(list) + ladder(list) + roofline(report) + size_section(list);
  if (other != nullptr) out += comparison_section(report, *other);
  out += all_rows(report);
  if (!report.notes.empty()) {
    out += "<h2>Notes</h2>\n<ul>";
    for (const std::string& note : report.notes) out += "<li>" + escape(note) + "</li>";
    out += "</ul>\n";
  }
  out +=
      "<h2>How this was measured</h2>\n<p>Device time of one call: replays of a recorded graph of calls over rotating "
      "buffers, behind an eviction of the cache and a spin that keeps the device from "
      "waiting for the host; on a CPU the clock around each call. Medians with p10 and p90. Bytes and flops are the "
      "algorithmic minimum. Every timed output was compared with the scalar "
      "reference, and a figure beyond the specified limits is "
      "refused.</p>\n<details><summary>Environment</summary><pre>" +
      escape(e.dump(2)) + "</pre></details>\n</body></html>\n";
  return out;
}

}  // namespace monotile::bench
