#pragma once
// Rows, or groups of columns, to one-byte codes with a scale each: codes = round(x * (1 / scale)), scale = max|x| / largest code.

#include "monotile/kernels/activation/functions.hpp"
#include "monotile/kernels/quant/params.hpp"
#include "monotile/kernels/quant/scale.hpp"

namespace monotile::kernels {

/// make(product), where product(place) is act(gate) * up, rounded to X as if it had been stored.
template <class X, class Ctx, class P, class Make>
MT_FN auto with_product(Ctx& ctx, const P& p, Make make) {
  const auto make_with = [&](auto activation) {
    return make([&](const auto& at) {
      const auto gate = load<cache::stream>(ctx, p.x, at), up = load<cache::stream>(ctx, p.up, at);
      const auto times = [=](auto g, auto u) { return activation(g) * u; };
      return eval(ctx, at, map_rounded<X>(ctx, at, times, gate, up));
    });
  };
  switch (p.function) {
    case GateFunction::silu: return make_with(silu_of{});
    case GateFunction::gelu_tanh: return make_with(gelu_tanh_of{});
    case GateFunction::gelu_erf: return make_with(gelu_erf_of{});
    default: return make_with(relu2_of{});
  }
}

/// One program per group of rows of L; the row stays on chip, or is read a second time where L streams.
template <class X, class L, bool Gated>
struct Quantise {
  using Params = QuantiseParams<X>;

  template <class Ctx>
  static MT_FN void run(Ctx& ctx, const Params& p) {
    const auto row = rows_of<L>(ctx, p.rows, p.cols);
    auto x = hold(ctx, row, [&](const auto& at) {
      if constexpr (Gated && L::vectors == 4) {
        return with_product<X>(ctx, p, [&](auto product) { return in_halves<X>(ctx, at, product); });
      } else if constexpr (Gated) {
        return with_product<X>(ctx, p, [&](auto product) { return product(at); });
      } else {
        return load < L::streaming ? cache::normal : cache::stream > (ctx, p.x, at);
      }
    });
    const auto scale_at = at_rows(row, map(scale_row{p.groups, p.block_rows}, row_index(row)));
    auto scale = row_fill(row, 1.0f);
    if (p.given) {
      scale = load_row_value(ctx, p.scales, scale_at);
    } else {
      scale = map(scale_of_most{p.largest_code}, fold<Max>(ctx, x, finite_magnitude{}));
      store_row_value(ctx, p.scales, scale_at, scale);
    }
    const auto inverse = map(inverse_of{}, scale);
    settle(ctx, x);
    each(ctx, x, [&](const auto& at, const auto& t) {
      store_codes(ctx, p.codes, at, map([](auto v, auto i) { return v * i; }, t, inverse));
    });
  }
};

}  // namespace monotile::kernels
