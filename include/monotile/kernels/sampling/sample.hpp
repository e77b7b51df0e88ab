#pragma once
// One token per row: temperature, top-k, top-p, min-p, then Gumbel-max over what is kept. Nothing is sorted: a filter keeps a prefix of the
// order (logit descending, index ascending), which a threshold and the last index among its ties describe; the threshold is searched for.

#include "monotile/kernels/sampling/params.hpp"
#include "monotile/lang/lang.hpp"
#include "monotile/random.hpp"
#include "monotile/row_status.hpp"

namespace monotile::kernels {
using namespace lang;  // NOLINT: kernels are written in the language

/// Tokens above `threshold`, and those equal to it with an index up to `last_tie`.
struct KeptTokens {
  float threshold;
  int32_t last_tie;

  template <class C, class V>
  MT_FN auto holds(C c, V v) const {
    return (v > threshold) | ((v == threshold) & (c <= last_tie));
  }
};

// Floats in their order as integers.
MT_FN int32_t order_of(float v) {
  const int32_t bits = __builtin_bit_cast(int32_t, v);
  return bits < 0 ? bits ^ 0x7fffffff : bits;
}
MT_FN float at_order(int32_t order) { return __builtin_bit_cast(float, order < 0 ? order ^ 0x7fffffff : order); }
/// The float halfway between two floats in their order; `low` if there is none between.
MT_FN float middle_in_order(float low, float high) {
  const int64_t a = order_of(low), b = order_of(high);
  return at_order(static_cast<int32_t>(a + (b - a) / 2));
}

/// One program per row.
template <class X, class L>
struct Sample {
  using Params = SampleParams<X>;

  /// How large the kept prefix shall be: `count` tokens, or the fraction `mass` of the weights 2^((logit - largest) * factor).
  struct Goal {
    bool by_count;
    float count, mass, factor, first_step;
  };

  /// The smallest prefix of `kept` that reaches the goal; all of `kept` if none does.
  template <class Ctx, class Row>
  static MT_FN KeptTokens smallest_prefix(Ctx& ctx, Row& x, const KeptTokens& kept, float largest, const Goal& goal) {
    float low = -kInfinity, high = kInfinity, next = -kInfinity, step = goal.first_step, wanted = 0.0f;
    sums down_to_low{}, down_to_high{0.0f, 0.0f};  // weights and counts of the tokens at or above each
    for (int pass = 0;; ++pass) {
      const sums found = uniform(fold_at<Sum>(ctx, x, [=](auto c, auto v) {
        const auto in = kept.holds(c, v) & (v >= next);
        const auto weight = select(v == largest, 1.0f, fast_exp2(max_of((v - largest) * goal.factor, -200.0f)));
        return make_sums(select(in, weight, 0.0f), select(in, 1.0f, 0.0f));
      }));
      if (pass == 0) {
        wanted = goal.by_count ? goal.count : goal.mass * found.first;
        if (goal.by_count && found.second <= wanted) return kept;
        down_to_low = found;
        next = largest;
        continue;
      }
      if ((goal.by_count ? found.second : found.first) >= wanted) {
        low = next;
        down_to_low = found;
      } else {
        high = next;
        down_to_high = found;
      }
      const float between = down_to_low.second - down_to_high.second;  // tokens from low to below high
      if (between <= 1.0f || low == largest || (goal.by_count && down_to_low.second == wanted)) break;
      // First outwards from the largest logit, then halving: by value, sometimes by order, which bounds the number of passes.
      next = low == -kInfinity && pass <= 6 ? largest - step : low + (high - low) * 0.5f;
      step *= 2.0f;
      if (!(next > low && next < high) || pass % 4 == 0) next = middle_in_order(low, high);
      if (!(next > low)) break;
    }
    if (!(low > kept.threshold)) low = kept.threshold;
    const float ties = down_to_low.second - down_to_high.second;
    const float missing = goal.by_count ? wanted - down_to_high.second
                                        : __builtin_ceilf((wanted - down_to_high.first) * ties / (down_to_low.first - down_to_high.first));
    int32_t last_tie = low == kept.threshold ? kept.last_tie : INT32_MAX;
    if (ties > 1.0f && missing < ties) last_tie = nth_tie(ctx, x, kept, low, missing < 1.0f ? 1.0f : missing);
    return {low, last_tie};
  }

  /// Index of the n-th token of `kept` that equals `value`.
  template <class Ctx, class Row>
  static MT_FN int32_t nth_tie(Ctx& ctx, Row& x, const KeptTokens& kept, float value, float n) {
    int32_t below = -1, at = static_cast<int32_t>(x.at.cols) - 1;  // fewer than n up to `below`, at least n up to `at`
    while (at - below > 1) {
      const int32_t middle = below + (at - below) / 2;
      const float count = uniform(fold_at<Sum>(ctx, x, [=](auto c, auto v) {
        return select(kept.holds(c, v) & (v == value) & (c <= middle), 1.0f, 0.0f);
      }));
      if (count >= n) {
        at = middle;
      } else {
        below = middle;
      }
    }
    return at;
  }

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

  template <class Ctx, class Row>
  static MT_FN int32_t draw(Ctx& ctx, Row& x, const Params& p, indexed top, float temperature) {
    const auto& row = x.at;
    constexpr float kLog2e = 1.44269504f;
    const float largest = top.value, inverse = 1.0f / temperature;
    KeptTokens kept{-kInfinity, -1};
    const int32_t top_k = parameter(ctx, p.top_k, row, int32_t{0});
    const float top_p = parameter(ctx, p.top_p, row, 1.0f);
    for (int filter = 0; filter < 2; ++filter) {  // one loop: the search is large, and is compiled once
      const bool by_count = filter == 0;
      if (by_count ? top_k <= 0 || top_k >= p.cols : !(top_p > 0.0f && top_p < 1.0f)) continue;
      const Goal goal{by_count, static_cast<float>(top_k), top_p, inverse * kLog2e, by_count ? 1.0f : temperature};
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
    const auto score = [=](int32_t token, float logit) {
      const uint32_t bits = random::bits(seed, position, random::Purpose::sample, static_cast<uint32_t>(token));
      return random::gumbel_score(logit, largest, inverse, bits);
    };
    // No variate exceeds 23: tokens that cannot pass the largest one need none.
    const float enough = score(top.index, largest) * 0x1p-24f - 23.0f;
    const auto best = fold_where<ArgMax>(
        ctx, x, [=](auto c, auto v) { return kept.holds(c, v) & (((v - largest) * inverse >= enough) | (v == largest)); },
        [=](int32_t c, float v) { return indexed{score(c, v), c}; });
    return uniform(best).index;
  }

  template <class Ctx>
  static MT_FN void run(Ctx& ctx, const Params& p) {
    const auto row = rows_of<L>(ctx, p.rows, p.cols);
    auto x = hold(ctx, row, [&](const auto& at) { return load(ctx, p.logits, at); });
    // A NaN wins as the lowest of all infinities.
    const indexed top = uniform(fold_at<ArgMax>(
        ctx, x, [](auto c, auto v) { return make_indexed(select(is_nan(v), kInfinity, v), select(is_nan(v), int32_t{-1}, c)); }));
    const ops::RowStatus status = top.index < 0 ? ops::row_has_nan : top.value == -kInfinity ? ops::row_no_valid_token : ops::row_ok;
    int32_t id = 0;
    if (status == ops::row_ok) {
      constexpr float kGreedyTemperature = 1e-5f;
      const float temperature = parameter(ctx, p.temperature, row, 1.0f);
      id = temperature >= kGreedyTemperature ? draw(ctx, x, p, top, temperature) : top.index;
    }
    store_row_value(ctx, p.ids, row, id);
    if (p.status != nullptr) store_row_value(ctx, p.status, row, status);
  }
};

}  // namespace monotile::kernels
