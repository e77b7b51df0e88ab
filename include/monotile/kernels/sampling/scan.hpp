#pragma once
// Long rows: one program per chunk of a row finds what the row's own program will want to know.

#include "monotile/kernels/sampling/filters.hpp"
#include "monotile/kernels/sampling/threshold.hpp"

namespace monotile::kernels {
using namespace lang;  // NOLINT: kernels are written in the language

/// Largest element, weights, and the elements that may be among the largest of the row. How a row is cut depends on its length alone.
template <class X, class L>
struct Scan {
  using Params = ScanParams<X>;

  /// A threshold that at least `wanted` elements reach, and no more than `most` if there is one. `low` is such a threshold already.
  template <class Ctx, class Row>
  static MT_FN float threshold_for(Ctx& ctx, Row& x, float low, float largest, float wanted, float most) {
    float high = at_order(order_of(largest) + 1);
    for (int pass = 0;; ++pass) {
      float next = low + (largest - low) * 0.5f;
      if (pass > 0) next = low + (high - low) * 0.5f;
      if (!(next > low && next < high) || pass % 4 == 3) next = middle_in_order(low, high);
      if (!(next > low)) return low;
      const float count = uniform(fold_at<Sum>(ctx, x, [=](auto, auto v) { return select(v >= next, 1.0f, 0.0f); }));
      if (count < wanted) {
        high = next;
        continue;
      }
      low = next;
      if (count <= most) return low;
    }
  }

  template <class Ctx>
  static MT_FN void run(Ctx& ctx, const Params& p) {
    const ChunkFacts& f = p.facts;
    const auto at = chunks_of<L>(ctx, p.rows, p.cols, f.chunks);
    const int64_t row = uniform(row_index(at)), chunk = row * f.chunks + chunk_number(at);
    auto x = hold(ctx, at, [&](const auto& c) { return load(ctx, p.logits, c); });
    const indexed top = uniform(largest_or_nan(ctx, x));
    const auto here = at_rows(at, chunk);
    store_row_value(ctx, f.largest, here, top.value);
    store_row_value(ctx, f.index, here, top.index);

    float threshold = -kInfinity;
    int32_t count = 0;
    float wanted = static_cast<float>(p.wanted), mass_factor = p.mass_factor;
    if (p.sampling) {
      constexpr float kLog2e = 1.44269504f;
      const RowFilters filters = RowFilters::of(ctx, p, at);
      if (filters.greedy || filters.none()) {
        wanted = 0.0f;
      } else if (filters.top_k > 0 && filters.top_k < p.wanted) {
        wanted = static_cast<float>(filters.top_k);
      }
      mass_factor =
          filters.by_mass && filters.top_k == 0 && !filters.greedy ? 1.0f / filters.temperature * kLog2e : 0.0f;
    }
    if (mass_factor > 0.0f) {
      const float largest = top.value, factor = mass_factor;
      store_row_value(ctx, f.mass, here,
                      fold_at<Sum>(ctx, x, [=](auto, auto v) { return weight_of(v, largest, factor); }));
    }
    if (wanted > 0.0f) {
      count = -1;  // no list
      if (top.index >= 0) {
        // Few maxima of neighbours instead of all elements: enough of these reach a threshold that enough of those reach.
        auto groups = group_max(ctx, x);
        threshold = uniform(fold_at<Min>(ctx, groups, [](auto, auto v) { return v; }));
        const float capacity = static_cast<float>(1 << f.capacity_log2);
        const float groups_here =
            uniform(fold_at<Sum>(ctx, groups, [](auto, auto v) { return select(v >= -kInfinity, 1.0f, 0.0f); }));
        if (groups_here >= wanted) {
          threshold = threshold_for(ctx, groups, threshold, top.value, wanted, wanted * 1.25f + 4.0f);
        } else {
          threshold = -kInfinity;
        }
        float found = 0.0f;
        for (int attempt = 0; attempt < 2; ++attempt) {
          const float t = threshold;
          found = uniform(fold_at<Sum>(ctx, x, [=](auto, auto v) { return select(v >= t, 1.0f, 0.0f); }));
          if (found <= capacity || attempt > 0) break;
          threshold = threshold_for(ctx, x, threshold, top.value, wanted, capacity);
        }
        if (found <= capacity) {
          const float t = threshold;
          float* const values = f.values + (chunk << f.capacity_log2);
          int32_t* const columns = f.columns + (chunk << f.capacity_log2);
          count = collect_where(
              ctx, x, [=](auto, auto v) { return v >= t; },
              [=](int32_t slot, int32_t c, float v) {
                values[slot] = v;
                columns[slot] = c;
              });
        }
      }
    }
    store_row_value(ctx, f.threshold, here, threshold);
    store_row_value(ctx, f.count, here, count);
  }
};

}  // namespace monotile::kernels
