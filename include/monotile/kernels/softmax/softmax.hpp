#pragma once
// y = softmax(scale x) along rows, or its logarithm.

#include "monotile/kernels/softmax/params.hpp"
#include "monotile/kernels/softmax/softmax_parts.hpp"

namespace monotile::kernels {
using namespace lang;  // NOLINT: kernels are written in the language

/// One program per group of rows of L; the row stays on chip. Where L streams, it stays in scratch if `Staged`, else it is read again.
template <class Y, class X, class L, bool Staged = false>
struct Softmax {
  using Params = SoftmaxParams<Y, X>;

  template <class Ctx>
  static MT_FN void run(Ctx& ctx, const Params& p) {
    const SoftmaxScale s = SoftmaxScale::of(p.scale);
    const float sign = s.sign, scale = s.scale, scale2 = s.scale2;
    const auto row = rows_of<L>(ctx, p.rows, p.cols);
    auto x = [&] {
      if constexpr (Staged) {
        return hold(
            ctx, row, [&](const auto& at) { return stash(ctx, at, load<cache::stream>(ctx, p.x, at)); },
            [&](const auto& at) { return unstash<X>(ctx, at); });
      } else {
        return hold(ctx, row, [&](const auto& at) {
          return load < L::streaming ? cache::normal : cache::stream > (ctx, p.x, at);
        });
      }
    }();
    const auto largest = map(finite_or_zero{}, fold<Max>(ctx, x, [=](auto v) { return v * sign; }));
    settle(ctx, x);
    // Only one of the row and its powers is held past the sum: that is why the powers are there in each branch.
    const auto powers_of_row = [&] {
      return held_map(
          ctx, x, [=](auto v, auto m) { return fast_exp2((v * sign - m) * scale2); }, largest);
    };
    const auto same = [](auto v) { return v; };
    if (p.log) {
      settle(ctx, x);
      auto powers = powers_of_row();
      const auto sum = fold<Sum>(ctx, powers, same);
      const auto offset = map([](auto s) { return select(s == 0.0f, 0.0f, fast_log(s)); }, sum);
      each(ctx, x, [&](const auto& at, const auto& t) {
        store<cache::stream>(
            ctx, p.y, at, map([=](auto v, auto m, auto o) { return (v * sign - m) * scale - o; }, t, largest, offset));
      });
    } else {
      auto powers = powers_of_row();
      const auto sum = fold<Sum>(ctx, powers, same);
      const auto inverse = map([](auto s) { return select(s == 0.0f, 0.0f, 1.0f / s); }, sum);
      each(ctx, powers, [&](const auto& at, const auto& t) {
        store<cache::stream>(ctx, p.y, at, map([](auto v, auto i) { return v * i; }, t, inverse));
      });
    }
  }
};

}  // namespace monotile::kernels
