#pragma once
// Finding the largest elements of a row without sorting it. A prefix of the order (value descending, index ascending) is a threshold and the
// last index among its ties; the threshold is searched for.

#include "monotile/kernels/sampling/params.hpp"
#include "monotile/lang/items.hpp"

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

/// How large a prefix shall be: `count` tokens, or the fraction `mass` of the weights 2^((logit - largest) * factor).
struct PrefixGoal {
  bool by_count;
  float count, mass, factor, first_step;
  float total;  ///< of all weights, where it is known; else 0
};

/// 2^((v - largest) * factor), also where infinities meet.
template <class V>
MT_FN V weight_of(V v, float largest, float factor) {
  return select(v == largest, 1.0f, fast_exp2(max_of((v - largest) * factor, -200.0f)));
}

/// Index of the n-th token of `kept` that equals `value`.
template <class Ctx, class List>
MT_FN int32_t nth_tie(Ctx& ctx, List& x, const KeptTokens& kept, float value, float n) {
  int32_t below = -1,
          at = static_cast<int32_t>(x.row.at.cols) - 1;  // fewer than n up to `below`, at least n up to `at`
  while (at - below > 1) {
    const int32_t middle = below + (at - below) / 2;
    const float count = fold_at<Sum>(
        ctx, x, [=](auto c, auto v) { return select(kept.holds(c, v) & (v == value) & (c <= middle), 1.0f, 0.0f); });
    if (count >= n) {
      at = middle;
    } else {
      below = middle;
    }
  }
  return at;
}

/// The smallest prefix of `kept` that reaches the goal; all of `kept` if none does. Once few tokens are in question, only those are visited.
template <class Ctx, class List>
MT_FN KeptTokens smallest_prefix(Ctx& ctx, List& x, const KeptTokens& kept, float largest, const PrefixGoal& goal) {
  // The tokens of `kept` from `low` on reach the goal, those from `high` on do not; weights and counts of either.
  float low = -kInfinity, high = kInfinity, wanted = goal.by_count ? goal.count : goal.mass * goal.total,
        step = goal.first_step;
  sums from_low{0.0f, 0.0f}, from_high{0.0f, 0.0f};
  bool low_known = false, high_known = false;
  int outward = 0, tries = 0;
  // All mass is asked for first; counts start near the largest logit.
  float next = goal.by_count ? largest - step : -kInfinity;
  for (int pass = 0;; ++pass) {
    const sums found = fold_at<Sum>(ctx, x, [=](auto c, auto v) {
      const auto in = kept.holds(c, v) & (v >= next);
      const auto one = select(in, 1.0f, 0.0f);
      if (goal.by_count) return make_sums(one, one);
      return make_sums(select(in, weight_of(v, largest, goal.factor), 0.0f), one);
    });
    if (!goal.by_count && pass == 0 && goal.total == 0.0f) wanted = goal.mass * found.first;
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
      if (from_low.second - from_high.second <= 1.0f || low == largest || (goal.by_count && from_low.second == wanted))
        break;
      if (!x.listed && tries < 2 && from_low.second <= list_limit(ctx, x)) {
        list_where(ctx, x, [=](auto c, auto v) { return kept.holds(c, v) & (v >= low); });
        ++tries;
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

/// The largest element with its index (ties: the lower one); a NaN wins as the lowest of all infinities, at index -1.
template <class Ctx, class Row>
MT_FN auto largest_or_nan(Ctx& ctx, Row& x) {
  return fold_at<ArgMax>(ctx, x, [](auto c, auto v) {
    return make_indexed(select(is_nan(v), kInfinity, v), select(is_nan(v), int32_t{-1}, c));
  });
}

/// The same from what the chunks of row `row` left behind.
template <class Ctx>
MT_FN indexed largest_of_chunks(Ctx& ctx, const ChunkFacts& f, int64_t row) {
  const int64_t first = row * f.chunks;
  return fold_items<ArgMax>(ctx, f.chunks, [=](int32_t i) {
    return indexed{f.largest[first + i], f.index[first + i]};
  });
}

/// The sum of 2^((v - largest) * factor) over row `row`, from the sums of its chunks.
template <class Ctx>
MT_FN float total_of_chunks(Ctx& ctx, const ChunkFacts& f, int64_t row, float largest, float factor) {
  const int64_t first = row * f.chunks;
  return fold_items<Sum>(
      ctx, f.chunks, [=](int32_t i) { return f.mass[first + i] * weight_of(f.largest[first + i], largest, factor); });
}

/// Lists the elements that the chunks of row `row` set aside, from the highest of their thresholds on: all of the row above it. Returns the
/// threshold, or +infinity where some chunk has no list.
template <class Ctx, class List>
MT_FN float list_chunks(Ctx& ctx, List& x, const ChunkFacts& f, int64_t row) {
  const int64_t first = row * f.chunks;
  if (fold_items<Min>(ctx, f.chunks, [=](int32_t i) { return f.count[first + i]; }) < 0) return kInfinity;
  const float lowest = fold_items<Max>(ctx, f.chunks, [=](int32_t i) { return f.threshold[first + i]; });
  const float* const values = f.values + (first << f.capacity_log2);
  const int32_t* const columns = f.columns + (first << f.capacity_log2);
  const int32_t mask = (1 << f.capacity_log2) - 1;
  list_items(
      ctx, x, f.chunks << f.capacity_log2,
      [=](int32_t i) { return (i & mask) < f.count[first + (i >> f.capacity_log2)] && values[i] >= lowest; },
      [=](int32_t i) { return values[i]; }, [=](int32_t i) { return columns[i]; });
  return x.listed ? lowest : kInfinity;
}

}  // namespace monotile::kernels
