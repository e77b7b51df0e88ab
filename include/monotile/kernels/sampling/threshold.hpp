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

/// The largest threshold found that at least `wanted` elements reach, and no more than `most` if there is one.
template <class Ctx, class Row>
MT_FN float threshold_for(Ctx& ctx, Row& x, float largest, float wanted, float most) {
  float low = -kInfinity, high = at_order(order_of(largest) + 1), step = 2.0f;
  float at_low = 0.0f, at_high = 0.0f;  // how many reach them
  for (int pass = 0;; ++pass) {
    // Steps away from the largest, each twice as wide, until enough is found. Then between the two ends, as if the logarithm of the count were a straight
    // line there (the count itself next to the largest, where it starts from 0); every third time halfway, at times in the order of floats, which
    // bounds the passes.
    float next = largest - step;
    step *= 2.0f;
    if (low != -kInfinity) {
      const float goal = wanted + (most - wanted) * 0.5f;
      float part = 0.5f;
      if (pass % 3 != 2) part = at_high > 0.0f ? fast_log(goal / at_high) / fast_log(at_low / at_high) : goal / at_low;
      next = high - (high - low) * max_of(0.001f, min_of(part, 0.98f));
    }
    if (!(next > low && next < high) || pass % 8 == 7) next = middle_in_order(low, high);
    if (!(next > low)) return low;
    const float count = uniform(fold_at<Sum>(ctx, x, [=](auto, auto v) { return select(v >= next, 1.0f, 0.0f); }));
    if (count < wanted) {
      high = next;
      at_high = count;
      continue;
    }
    low = next;
    at_low = count;
    if (count <= most) return low;
  }
}

/// Lists the largest elements of row `place`, at least `wanted` of them: all from a threshold on, which is returned; +infinity where they do not fit.
/// Few maxima of neighbours are searched instead of all elements: enough of these reach a threshold that enough of those reach.
template <class L, class X, class Ctx, class List, class Params>
MT_FN float list_largest(Ctx& ctx, List& x, const Params& p, int64_t row, float largest, int32_t wanted) {
  constexpr int32_t kNeighbours = L::vector_elements, kGroups = 2048;
  const int32_t cols = static_cast<int32_t>(p.cols), groups = (cols + kNeighbours - 1) / kNeighbours;
  if (!L::streaming || wanted > groups) return kInfinity;  // shorter rows are not scanned
  auto bounds = p.facts.maxima;
  bounds.vectors = true;  // they were written one by one
  const float goal = static_cast<float>(wanted);
  int32_t* const found = scratch_at<int32_t>(ctx, p.list_bytes);
  float threshold = 0.0f;
  const auto find = [&](const auto& at) {
    auto maxima = hold(ctx, at, [&](const auto& c) { return load(ctx, bounds, c); });
    threshold = threshold_for(ctx, maxima, largest, goal, goal * 1.5f + 8.0f);
    return collect_where(
        ctx, maxima, [=](auto, auto v) { return v >= threshold; },
        [=](int32_t slot, int32_t c, float) {
          if (slot < kGroups) found[slot] = c;
        });
  };
  // Each look at the maxima costs a tenth of the time if they stay on chip.
  const auto on_chip = rows_of<blocked<kNeighbours, 4, 0>>(ctx, p.rows, groups);
  const int32_t count = holds_row(on_chip) ? find(on_chip) : find(rows_of<L>(ctx, p.rows, groups));
  if (count > kGroups) return kInfinity;
  const X* const logits = p.logits.row(row);
  const auto column = [=](int32_t i) { return found[i / kNeighbours] * kNeighbours + i % kNeighbours; };
  list_items(
      ctx, x, count * kNeighbours,
      [=](int32_t i) {
        const int32_t c = column(i);
        return c < cols && promote(logits[c]) >= threshold;
      },
      [=](int32_t i) { return promote(logits[column(i)]); }, column);
  return x.listed ? threshold : kInfinity;
}
}  // namespace monotile::kernels
