#include "bench/compare.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "monotile/error.hpp"

namespace monotile::bench {
namespace {

const char* word(Judgement judgement) {
  switch (judgement) {
    case Judgement::same: return "same";
    case Judgement::faster: return "faster";
    case Judgement::slower: return "SLOWER";
    case Judgement::cannot_tell: return "cannot tell";
  }
  return "?";
}

Judgement judge(const Spread& before, const Spread& after, double fail_under) {
  const double ratio = before.median / after.median;
  if (ratio >= fail_under && ratio * fail_under <= 1.0) return Judgement::same;
  const bool apart = ratio < 1.0 ? after.p10 > before.p90 : after.p90 < before.p10;
  if (!apart) return Judgement::cannot_tell;
  return ratio < 1.0 ? Judgement::slower : Judgement::faster;
}

}  // namespace

std::vector<Comparison> compare(const Report& before, const Report& after, double fail_under) {
  std::map<std::string, const Row*> rows;
  for (const Row& row : before.rows) {
    if (row.status == "ok") rows[row.key()] = &row;
  }
  std::vector<Comparison> list;
  for (const Row& row : after.rows) {
    const auto found = rows.find(row.key());
    if (row.status != "ok" || found == rows.end() || row.us.median <= 0 || found->second->us.median <= 0) continue;
    list.push_back(
        {found->second, &row, found->second->us.median / row.us.median, judge(found->second->us, row.us, fail_under)});
  }
  return list;
}

Report merged(const std::vector<Report>& runs) {
  Report result = runs.front();
  for (Row& row : result.rows) {
    std::vector<double> medians, lows, highs;
    for (const Report& run : runs) {
      for (const Row& other : run.rows) {
        if (other.key() != row.key() || other.status != "ok") continue;
        medians.push_back(other.us.median);
        lows.push_back(other.us.p10);
        highs.push_back(other.us.p90);
      }
    }
    if (medians.empty()) continue;
    const auto [least, most] = std::minmax_element(medians.begin(), medians.end());
    // A few medians may lie close together by luck, so the spread inside the runs counts too.
    row.us = {spread_of(medians).median, std::min(*least, spread_of(lows).median),
              std::max(*most, spread_of(highs).median), static_cast<int>(medians.size())};
  }
  return result;
}

std::string comparison_text(const std::vector<Comparison>& comparisons, double fail_under) {
  std::string text = fmt::format("{:<42}{:>11}{:>11}{:>8}  {}\n", "row", "before us", "after us", "speed", "judgement");
  std::map<Judgement, int> counts;
  for (const Comparison& c : comparisons) {
    ++counts[c.judgement];
    std::string name = fmt::format("{} {} {} {}", c.after->op, c.after->shape, c.after->dtype, c.after->column);
    if (name.size() > 41) name = name.substr(0, 40) + ".";
    text += fmt::format("{:<42}{:>11.2f}{:>11.2f}{:>8.3f}  {}\n", name, c.before->us.median, c.after->us.median,
                        c.ratio, word(c.judgement));
  }
  text += fmt::format("{} rows: {} same within {:.0f} %, {} faster, {} slower, {} cannot tell (spreads overlap)\n",
                      comparisons.size(), counts[Judgement::same], 100 * (1 - fail_under), counts[Judgement::faster],
                      counts[Judgement::slower], counts[Judgement::cannot_tell]);
  return text;
}

std::vector<std::string> refuse_published(const Json& table) {
  const std::string device = table.at("device");
  const Spec spec = spec_of(device);
  if (spec.gbs <= 0) throw Error(ErrorCode::not_found, "no specified limits are known for \"" + device + "\"");
  std::vector<std::string> refusals;
  for (const Json& row : table.at("rows")) {
    const std::string op = row.at("op"), shape = row.at("shape"), by = row.value("by", std::string("?"));
    const double us = row.at("us"), bytes = row.at("bytes"), flops = row.at("flops");
    const bool product = row.value("product", false);
    const double memory_us = bytes * 1e-3 / spec.gbs,
                 compute_us = product ? flops * 1e-6 / spec.flops_of(DType::f16) : 0;
    std::string why;
    if (us < 0.98 * memory_us)
      why = fmt::format("{:.0f} MB in {:g} us are {:.0f} GB/s, {:.1f} times the {:.0f} GB/s of the chip", bytes * 1e-6,
                        us, bytes * 1e-3 / us, memory_us / us, spec.gbs);
    if (us < 0.98 * compute_us)
      why += fmt::format("{}{:.0f} GFLOP in {:g} us are {:.0f} TFLOP/s, {:.1f} times the {:.0f} TFLOP/s of the chip",
                         why.empty() ? "" : "; ", flops * 1e-9, us, flops * 1e-6 / us, compute_us / us,
                         spec.flops_of(DType::f16));
    // What is printed beside the time must be the work over that time.
    const auto self = [&](const char* field, double work, double scale, const char* unit, const char* noun) {
      if (!row.contains(field)) return;
      const double printed = row.at(field), implied = printed * scale * us;
      if (implied > 0.8 * work && implied < 1.25 * work) return;
      why += fmt::format("{}the printed {:g} {} over {:g} us are {:.3g} {}, the work is {:.3g}",
                         why.empty() ? "" : "; ", printed, unit, us, implied, noun, work);
    };
    self("tflops", flops, 1e6, "TFLOP/s", "flop");
    self("gbs", bytes, 1e3, "GB/s", "bytes");
    if (!why.empty()) refusals.push_back(fmt::format("{} {} by {}: {}", op, shape, by, why));
  }
  return refusals;
}

}  // namespace monotile::bench
