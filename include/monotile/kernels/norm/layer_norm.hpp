#pragma once
// Layer norm with an optional residual: y = (h - mean(h)) / sqrt(var(h) + eps) * (gamma + offset) + beta.

#include "monotile/kernels/norm/norm_parts.hpp"

namespace monotile::kernels {

/// Two passes over the row: the mean, then the sums of distances from it and of their squares. The first of these corrects the mean's own rounding,
/// so a large mean costs no digits.
template <class X, class R, class L, class G = void>
struct LayerNorm {
  using Params = NormParams<X, R>;

  template <class Ctx>
  static MT_FN void run(Ctx& ctx, const Params& p) {
    const float cols = static_cast<float>(p.cols), eps = p.eps;
    const auto row = rows_of<L>(ctx, p.rows, p.cols);
    auto h = hold_sum<X, R>(ctx, row, p);
    const auto scaling = scaling_of<G>(ctx, row, p);
    const auto mean = map([=](auto s) { return s / cols; }, fold<Sum>(ctx, h, [](auto v) { return v; }));
    settle(ctx, h);  // the row waits as its elements, in half the registers of its distances
    auto distances = held_map(
        ctx, h, [](auto v, auto m) { return v - m; }, mean);
    const auto moments = fold<Sum>(ctx, distances, [](auto d) { return make_sums(d, d * d); });
    const auto rest = map([=](auto s) { return s.first / cols; }, moments);
    const auto inverse = map(
        [=](auto s, auto r) {
          const float variance = s.second / cols - r * r;
          return recip_sqrt((variance > 0.0f ? variance : variance == variance ? 0.0f : variance) + eps);
        },
        moments, rest);
    const auto shift = map([](auto r, auto i) { return -r * i; }, rest, inverse);
    settle(ctx, h);
    const float offset = p.gamma_offset;
    each(ctx, h, [&](const auto& at, const auto& t) {
      const auto scaled = [&](const auto& gamma, const auto& beta) {
        return map(
            [=](auto v, auto m, auto i, auto s, auto g, auto b) { return fma_of(fma_of(v - m, i, s), g + offset, b); },
            t, mean, inverse, shift, gamma, beta);
      };
      store<cache::stream>(ctx, p.y, at, scaling(at, scaled));
    });
  }
};

}  // namespace monotile::kernels
