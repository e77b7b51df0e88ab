#pragma once
// RMSNorm with an optional residual: h = round(x + r);  r <- h;  y = h / sqrt(mean(h^2) + eps) * (gamma + offset) + beta.

#include <type_traits>

#include "monotile/kernels/norm/params.hpp"
#include "monotile/lang/lang.hpp"
#include "monotile/lang/pairs.hpp"

namespace monotile::kernels {
using namespace lang;  // NOLINT: kernels are written in the language

/// One program per group of rows of L; the row stays on chip, or is read a second time where L streams. G: the dtype of gamma, there is no beta then; void:
/// whatever both are, at the price of registers.
template <class X, class R, class L, bool Residual, class G = void>
struct RmsNorm {
  using Params = RmsNormParams<X, R>;

  template <class Ctx>
  static MT_FN void run(Ctx& ctx, const Params& p) {
    const auto row = rows_of<L>(ctx, p.rows, p.cols);
    auto h = [&] {
      if constexpr (Residual) {
        return hold(
            ctx, row,
            [&](const auto& at) {
              auto sum = eval(ctx, at, round_to<R>(map([](auto x, auto r) { return x + r; }, load<cache::stream>(ctx, p.x, at), load<cache::stream>(ctx, p.residual, at))));
              store<cache::stream>(ctx, p.residual, at, sum);
              return sum;
            },
            [&](const auto& at) { return load(ctx, p.residual, at); });
      } else {
        return hold(ctx, row, [&](const auto& at) { return load<L::streaming ? cache::normal : cache::stream>(ctx, p.x, at); });
      }
    }();
    const auto gamma = load_ahead(ctx, p.gamma.template as<G>(), row);
    const auto squares = fold<SumSquares>(ctx, h, [](auto v) { return v; });
    const auto inverse = map([&](auto s) { return recip_sqrt(s / static_cast<float>(p.cols) + p.eps); }, squares);
    const float offset = p.gamma_offset;
    settle(ctx, h);
    if (!std::is_void_v<G> || p.beta.data == nullptr) {
      each(ctx, h, [&](const auto& at, const auto& t) {
        store<cache::stream>(ctx, p.y, at, map([=](auto v, auto i, auto g) { return v * i * (g + offset); }, t, inverse, arrived(ctx, gamma, at)));
      });
    } else if constexpr (std::is_void_v<G>) {
      each(ctx, h, [&](const auto& at, const auto& t) {
        store<cache::stream>(ctx, p.y, at, map([=](auto v, auto i, auto g, auto b) { return fma_of(v * i, g + offset, b); }, t, inverse, arrived(ctx, gamma, at),
                                load_bcast(ctx, p.beta, at)));
      });
    }
  }
};

}  // namespace monotile::kernels
