#pragma once
// Groups of columns to 4-bit codes with a scale, and a zero point where they are not symmetric.

#include "monotile/kernels/quant/params.hpp"
#include "monotile/kernels/quant/scale.hpp"

namespace monotile::kernels {

/// One program per group of rows of L; a row is a group of columns and fits on chip.
template <class X, class L>
struct QuantiseInt4 {
  using Params = QuantiseInt4Params<X>;

  template <class Ctx>
  static MT_FN void run(Ctx& ctx, const Params& p) {
    const auto row = rows_of<L>(ctx, p.rows, p.cols);
    const auto x =
        eval(ctx, row, map([](auto v) { return select(is_nan(v), 0.0f, v); }, load<cache::stream>(ctx, p.x, row)));
    auto scale = row_fill(row, 1.0f), zero = row_fill(row, 8.0f);
    if (p.symmetric) {
      scale = map(scale_of_most{7.0f}, row_reduce<Max>(ctx, row, map(finite_magnitude{}, x)));
    } else {
      const auto high =
          row_reduce<Max>(ctx, row, map([](auto v) { return select(v < kInfinity, max_of(v, 0.0f), 0.0f); }, x));
      const auto low =
          row_reduce<Min>(ctx, row, map([](auto v) { return select(v > -kInfinity, min_of(v, 0.0f), 0.0f); }, x));
      // Two quotients, since the distance of the ends may overflow.
      scale = map([](auto h, auto l) { return scale_of_most{1.0f}(h / 15.0f - l / 15.0f); }, high, low);
      zero = map([](auto l, auto s) { return min_of(round_even(-l * (1.0f / s)), 15.0f); }, low, scale);
      store_row_value(ctx, p.zero_points, row, map([](auto z) { return static_cast<int32_t>(z); }, zero));
    }
    store_row_value(ctx, p.scales, row, scale);
    store_nibbles(
        ctx, p.nibbles, row,
        map([](auto v, auto i,
               auto z) { return min_of(max_of(round_even(min_of(max_of(v * i, -16.0f), 16.0f)) + z, 0.0f), 15.0f); },
            x, map(inverse_of{}, scale), zero));
  }
};

}  // namespace monotile::kernels
