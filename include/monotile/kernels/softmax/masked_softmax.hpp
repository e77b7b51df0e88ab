#pragma once
// y = softmax(scale x + mask) along rows, or its logarithm.

#include "monotile/kernels/softmax/params.hpp"
#include "monotile/kernels/softmax/softmax_parts.hpp"

namespace monotile::kernels {
using namespace lang;  // NOLINT: kernels are written in the language

/// One program per group of rows of L; the masked row stays on chip as fp32, or is computed again where L streams.
template <class Y, class X, class L>
struct MaskedSoftmax {
  using Params = SoftmaxParams<Y, X>;

  template <class Ctx>
  static MT_FN void run(Ctx& ctx, const Params& p) {
    const float scale = p.scale;
    const bool hides = p.mask.dtype == DType::u8;
    const auto row = rows_of<L>(ctx, p.rows, p.cols);
    auto x = hold(ctx, row, [&](const auto& at) {
      return eval(ctx, at,
                  map([=](auto v, auto m) { return hides ? select(m == 0.0f, -kInfinity, v * scale) : v * scale + m; },
                      load(ctx, p.x, at), load_any(ctx, p.mask, at)));
    });
    const auto largest = map(finite_or_zero{}, fold<Max>(ctx, x, [](auto v) { return v; }));
    auto powers = held_map(
        ctx, x, [](auto v, auto m) { return fast_exp2((v - m) * 1.44269504f); }, largest);
    const auto sum = fold<Sum>(ctx, powers, [](auto v) { return v; });
    if (p.log) {
      const auto offset = map([](auto s) { return select(s == 0.0f, 0.0f, fast_log(s)); }, sum);
      each(ctx, x, [&](const auto& at, const auto& t) {
        store(ctx, p.y, at, map([](auto v, auto m, auto o) { return (v - m) - o; }, t, largest, offset));
      });
    } else {
      const auto inverse = map([](auto s) { return select(s == 0.0f, 0.0f, 1.0f / s); }, sum);
      each(ctx, powers, [&](const auto& at, const auto& t) {
        store(ctx, p.y, at, map([](auto v, auto i) { return v * i; }, t, inverse));
      });
    }
  }
};

}  // namespace monotile::kernels
