#pragma once
// RMSNorm with everything that may follow or vary: a gamma for each of several groups, one-byte codes with a scale per row, residual.
// Sums run in the order of RmsNorm, so both give the same bits.

#include "monotile/kernels/norm/norm_parts.hpp"
#include "monotile/kernels/quant/scale.hpp"

namespace monotile::kernels {

/// One program per group of rows of L; the row stays on chip, or is read again where L streams.
template <class X, class R, class L, class G = void>
struct RmsNormQuantise {
  using Params = NormParams<X, R>;

  template <class Ctx>
  static MT_FN void run(Ctx& ctx, const Params& p) {
    const auto row = rows_of<L>(ctx, p.rows, p.cols);
    auto h = hold_sum<X, R>(ctx, row, p);
    const auto scaling = scaling_of<G>(ctx, row, p);
    const auto squares = fold<SumSquares>(ctx, h, [](auto v) { return v; });
    const auto inverse = map([&](auto s) { return recip_sqrt(s / static_cast<float>(p.cols) + p.eps); }, squares);
    const auto zero = row_fill(row, 0.0f);
    settle(ctx, h);
    auto y = hold_from(ctx, h, [&](const auto& at, const auto& t) {
      return normalised<X>(ctx, at, scaling, p.gamma_offset, t, zero, inverse);
    });
    if (p.codes.data == nullptr) {
      each(ctx, y, [&](const auto& at, const auto& t) { store<cache::stream>(ctx, p.y, at, t); });
      return;
    }
    auto scale = row_fill(row, 1.0f);
    if (p.given) {
      scale = load_row_value(ctx, p.scales, row);
    } else {
      scale = map(scale_of_most{p.largest_code}, fold<Max>(ctx, y, finite_magnitude{}));
      store_row_value(ctx, p.scales, row, scale);
    }
    const auto to_code = map(inverse_of{}, scale);
    each(ctx, y, [&](const auto& at, const auto& t) {
      if (p.y.data != nullptr) store<cache::stream>(ctx, p.y, at, t);
      store_codes(ctx, p.codes, at, map([](auto v, auto i) { return v * i; }, t, to_code));
    });
  }
};

}  // namespace monotile::kernels
