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

  /// 2^((v - largest) * factor), also where infinities meet.
  template <class V>
  static MT_FN V weight(V v, float largest, float factor) {
    return select(v == largest, 1.0f, fast_exp2(max_of((v - largest) * factor, -200.0f)));
  }

  /// The smallest prefix of `kept` that reaches the goal; all of `kept` if none does. Once few tokens are in question, only those are visited.
  template <class Ctx, class Selection>
  static MT_FN KeptTokens smallest_prefix(Ctx& ctx, Selection& x, const KeptTokens& kept, float largest,
                                          const Goal& goal) {
    // The tokens of `kept` from `low` on reach the goal, those from `high` on do not; weights and counts of either.
    float low = -kInfinity, high = kInfinity, wanted = goal.count, step = goal.first_step;
    sums from_low{0.0f, 0.0f}, from_high{0.0f, 0.0f};
    bool low_known = false, high_known = false;
    int outward = 0, gathers = 0;
    // All mass is asked for first; counts start near the largest logit.
    float next = goal.by_count ? largest - step : -kInfinity;
    for (int pass = 0;; ++pass) {
      const sums found = uniform(fold_at<Sum>(ctx, x, [=](auto c, auto v) {
        const auto in = kept.holds(c, v) & (v >= next);
        const auto one = select(in, 1.0f, 0.0f);
        if (goal.by_count) return make_sums(one, one);
        return make_sums(select(in, weight(v, largest, goal.factor), 0.0f), one);
      }));
      if (!goal.by_count && pass == 0) wanted = goal.mass * found.first;
      if (found.first >= wanted) {
        low = next;
        from_low = found;
        low_known = true;
      } else if (next == -kInfinity) {
        return kept;
      } else {
        high = next;
        from_high = found;
        high_known = true;
      }
      if (low_known) {
        if (from_low.second - from_high.second <= 1.0f || low == largest ||
            (goal.by_count && from_low.second == wanted))
          break;
        if (!x.listed && gathers < 2 && from_low.second <= gather_limit(ctx)) {
          gather_where(ctx, x, from_low.second, [=](auto c, auto v) { return kept.holds(c, v) & (v >= low); });
          ++gathers;
        }
      }
      if (low == -kInfinity && outward < 6 && largest - step > -kInfinity) {
        next = largest - step;
        step *= 2.0f;
        ++outward;
      } else if (!low_known) {
        next = -kInfinity;
      } else if (!high_known) {
        next = largest;
      } else {  // interpolating and halving in turn, sometimes in the order of floats, which bounds the number of passes
        const float fraction = (from_low.first - wanted) / (from_low.first - from_high.first);
        next = low + (high - low) * (pass % 2 != 0 || goal.by_count ? 0.5f : max_of(0.02f, min_of(fraction, 0.98f)));
        if (!(next > low && next < high) || pass % 4 == 3) next = middle_in_order(low, high);
        if (!(next > low)) break;
      }
    }
    if (!(low > kept.threshold)) low = kept.threshold;
    const float ties = from_low.second - from_high.second;
    const float missing = goal.by_count
                              ? wanted - from_high.second
                              : __builtin_ceilf((wanted - from_high.first) * ties / (from_low.first - from_high.first));
    int32_t last_tie = low == kept.threshold ? kept.last_tie : INT32_MAX;
    if (ties > 1.0f && missing < ties) last_tie = nth_tie(ctx, x, kept, low, missing < 1.0f ? 1.0f : missing);
    return {low, last_tie};
  }

  /// Index of the n-th token of `kept` that equals `value`.
  template <class Ctx, class Selection>
  static MT_FN int32_t nth_tie(Ctx& ctx, Selection& x, const KeptTokens& kept, float value, float n) {
    int32_t below = -1,
            at = static_cast<int32_t>(x.row.at.cols) - 1;  // fewer than n up to `below`, at least n up to `at`
    while (at - below > 1) {
      const int32_t middle = below + (at - below) / 2;
      const float count = uniform(fold_at<Sum>(
          ctx, x, [=](auto c, auto v) { return select(kept.holds(c, v) & (v == value) & (c <= middle), 1.0f, 0.0f); }));
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
      const Goal goal{by_count, static_cast<float>(top_k), top_p, inverse * kLog2e,
                      by_count ? 4.0f : temperature * 4.0f};
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
    return uniform(best).index;
  }

  template <class Ctx>
  static MT_FN void run(Ctx& ctx, const Params& p) {
    const auto row = rows_of<L>(ctx, p.rows, p.cols);
    auto x = hold(ctx, row, [&](const auto& at) { return load(ctx, p.logits, at); });
    // A NaN wins as the lowest of all infinities.
    const indexed top = uniform(fold_at<ArgMax>(ctx, x, [](auto c, auto v) {
      return make_indexed(select(is_nan(v), kInfinity, v), select(is_nan(v), int32_t{-1}, c));
    }));
    const ops::RowStatus status = top.index < 0             ? ops::row_has_nan
                                  : top.value == -kInfinity ? ops::row_no_valid_token
                                                            : ops::row_ok;
    int32_t id = 0;
    if (status == ops::row_ok) {
      constexpr float kGreedyTemperature = 1e-5f;
      const float temperature = parameter(ctx, p.temperature, row, 1.0f);
      auto tokens = select_from(ctx, x);
      id = temperature >= kGreedyTemperature ? draw(ctx, tokens, p, top, temperature) : top.index;
    }
    store_row_value(ctx, p.ids, row, id);
    if (p.status != nullptr) store_row_value(ctx, p.status, row, status);
  }
};

}  // namespace monotile::kernels
