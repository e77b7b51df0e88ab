#pragma once
// One token per row: temperature, top-k, top-p, min-p, then Gumbel-max over what is kept. Nothing is sorted: a filter keeps a prefix of the
// order (logit descending, index ascending), which a threshold and the last index among its ties describe; the threshold is searched for.

#include "monotile/kernels/sampling/threshold.hpp"
#include "monotile/random.hpp"
#include "monotile/row_status.hpp"

namespace monotile::kernels {
using namespace lang;  // NOLINT: kernels are written in the language

/// One program per row.
template <class X, class L>
struct Sample {
  using Params = SampleParams<X>;

  /// The smallest logit whose probability is at least min_p times that of the largest.
  static MT_FN float min_p_threshold(float largest, float temperature, float min_p) {
    const float distance = temperature * fast_log(min_p);
    if (!(distance <= 0.0f)) return -kInfinity;  // 0 times infinity: all are equally likely
    float threshold = largest + distance;
    if (!(threshold - largest >= distance)) threshold = at_order(order_of(threshold) + 1);
    return threshold;
  }

  template <class T, class Ctx, class Place>
  static MT_FN T parameter(Ctx& ctx, const T* values, const Place& row, T otherwise) {
    return values == nullptr ? otherwise : uniform(load_row_value(ctx, values, row));
  }

  template <class Ctx, class Selection>
  static MT_FN int32_t draw(Ctx& ctx, Selection& x, const Params& p, indexed top, float temperature) {
    const auto& row = x.row.at;
    constexpr float kLog2e = 1.44269504f;
    const float largest = top.value, inverse = 1.0f / temperature;
    KeptTokens kept{-kInfinity, -1};
    const int32_t top_k = parameter(ctx, p.top_k, row, int32_t{0});
    const float top_p = parameter(ctx, p.top_p, row, 1.0f);
    for (int filter = 0; filter < 2; ++filter) {  // one loop: the search is large, and is compiled once
      const bool by_count = filter == 0;
      if (by_count ? top_k <= 0 || top_k >= p.cols : !(top_p > 0.0f && top_p < 1.0f)) continue;
      const PrefixGoal goal{
          by_count, static_cast<float>(top_k), top_p, inverse * kLog2e, by_count ? 4.0f : temperature * 4.0f, 0.0f};
      kept = smallest_prefix(ctx, x, kept, largest, goal);
    }
    const float min_p = parameter(ctx, p.min_p, row, 0.0f);
    if (min_p > 1.0f) kept = {largest, top.index};
    if (min_p > 0.0f && min_p <= 1.0f) {
      const float threshold = min_p_threshold(largest, temperature, min_p);
      if (threshold > kept.threshold) kept = {threshold, INT32_MAX};
    }

    const uint64_t seed = static_cast<uint64_t>(parameter(ctx, p.seeds, row, int64_t{0}));
    const int64_t position = parameter(ctx, p.positions, row, int64_t{0});
    constexpr random::Purpose kPurpose = random::Purpose::sample;
    const auto score = [=](int32_t token, float logit) {
      return indexed{random::gumbel_score(logit, largest, inverse,
                                          random::bits(seed, position, kPurpose, static_cast<uint32_t>(token))),
                     token};
    };
    // The largest logit's own score is where all start from. No variate exceeds 23, so most others need no draw at all. Of the drawn ones few
    // need the logarithms: a variate of g or more takes 1 - u <= e^-g. The margins are far above all rounding.
    const indexed start = score(top.index, largest);
    const float enough = start.value * 0x1p-24f - 23.0f;
    const auto best = fold_where<ArgMax>(
        ctx, x, start,
        [=](auto c, auto v) { return kept.holds(c, v) & (((v - largest) * inverse >= enough) | (v == largest)); },
        [=](auto c, auto v, indexed so_far) {
          const auto distance = max_of((v - largest) * inverse, -40.0f);
          return (random_tail(seed, position, kPurpose, c) <= fast_exp(distance + (0.001f - so_far.value * 0x1p-24f))) |
                 (v == largest);
        },
        score);
    return best.index;
  }

  template <class Ctx>
  static MT_FN void run(Ctx& ctx, const Params& p) {
    const auto row = rows_of<L>(ctx, p.rows, p.cols);
    auto x = hold(ctx, row, [&](const auto& at) { return load(ctx, p.logits, at); });
    const indexed top = uniform(largest_or_nan(ctx, x));
    const ops::RowStatus status = top.index < 0             ? ops::row_has_nan
                                  : top.value == -kInfinity ? ops::row_no_valid_token
                                                            : ops::row_ok;
    int32_t id = 0;
    if (status == ops::row_ok) {
      constexpr float kGreedyTemperature = 1e-5f;
      const float temperature = parameter(ctx, p.temperature, row, 1.0f);
      auto tokens = shortlist_of(ctx, x, 0, p.list_bytes);
      id = temperature >= kGreedyTemperature ? draw(ctx, tokens, p, top, temperature) : top.index;
    }
    store_row_value(ctx, p.ids, row, id);
    if (p.status != nullptr) store_row_value(ctx, p.status, row, status);
  }
};

}  // namespace monotile::kernels
