#pragma once
// Long rows: one program per chunk of a row finds what the row's own program will want to know, in one read of the row.

#include "monotile/kernels/sampling/filters.hpp"
#include "monotile/kernels/sampling/threshold.hpp"

namespace monotile::kernels {
using namespace lang;  // NOLINT: kernels are written in the language

/// Largest element, weights, and the largest of every few neighbours, among which the row's program looks for its candidates. How a row is cut depends
/// on its length alone.
template <class X, class L>
struct Scan {
  using Params = ScanParams<X>;

  template <class Ctx>
  static MT_FN void run(Ctx& ctx, const Params& p) {
    const ChunkFacts& f = p.facts;
    const auto at = chunks_of<L>(ctx, p.rows, p.cols, f.chunks);
    const int64_t row = uniform(row_index(at)), chunk = row * f.chunks + chunk_number(at);
    auto x = hold(ctx, at, [&](const auto& c) { return load(ctx, p.logits, c); });
    float mass_factor = p.mass_factor;
    bool maxima = p.maxima;
    if (p.sampling) {
      constexpr float kLog2e = 1.44269504f;
      const RowFilters filters = RowFilters::of(ctx, p, at);
      maxima = !filters.greedy && !filters.none();
      mass_factor =
          filters.by_mass && filters.top_k == 0 && !filters.greedy ? 1.0f / filters.temperature * kLog2e : 0.0f;
    }
    if (maxima) {
      auto groups = group_max(ctx, x);
      each(ctx, groups, [&](const auto& places, const auto& t) { store(ctx, f.maxima, places, t); });
    }
    const indexed top = uniform(largest_or_nan(ctx, x));
    const auto here = at_rows(at, chunk);
    store_row_value(ctx, f.largest, here, top.value);
    store_row_value(ctx, f.index, here, top.index);
    if (mass_factor > 0.0f) {
      const float largest = top.value, factor = mass_factor;
      store_row_value(ctx, f.mass, here,
                      fold_at<Sum>(ctx, x, [=](auto, auto v) { return weight_of(v, largest, factor); }));
    }
  }
};

}  // namespace monotile::kernels
