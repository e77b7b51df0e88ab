#pragma once
// What the norms share: the row with its residual, and the scaled result.

#include <type_traits>

#include "monotile/kernels/norm/params.hpp"
#include "monotile/lang/lang.hpp"
#include "monotile/lang/pairs.hpp"

namespace monotile::kernels {
using namespace lang;  // NOLINT: kernels are written in the language

/// -0, the number that changes no sum: what stands for pieces that are absent.
template <class T>
MT_FN T nothing_to_add() {
  return __builtin_bit_cast(T, static_cast<uint16_t>(0x8000));
}
template <>
MT_FN float nothing_to_add<float>() {
  return -0.0f;
}

/// h = x, or round(x + residual) which goes back to the residual; as R.
template <class X, class R, class Ctx, class At, class P>
MT_FN auto hold_sum(Ctx& ctx, const At& row, const P& p) {
  const bool sums = p.residual.data != nullptr;
  return hold(
      ctx, row,
      [&ctx, &p, sums](const auto& at) {
        const auto residual_at = only_if(at, sums);
        const auto residual = load<cache::stream>(ctx, p.residual, residual_at, nothing_to_add<R>());
        const auto x = load<cache::stream>(ctx, p.x, at);
        auto sum = eval_unless(ctx, at, !sums, x, round_to<R>(map([](auto v, auto r) { return v + r; }, x, residual)));
        store<cache::stream>(ctx, p.residual, residual_at, sum);
        return sum;
      },
      [&ctx, &p, sums](const auto& at) {  // the sum has been stored, if there is one
        const auto x = load(ctx, p.x, only_if(at, !sums), nothing_to_add<X>());
        return round_to<R>(map([](auto x, auto r) { return x + r; }, x,
                               load(ctx, p.residual, only_if(at, sums), nothing_to_add<R>())));
      });
}

/// gamma and beta of the row, on their way: calls `use(gamma, beta)` at a place when they are wanted. G: the dtype of both, the same for all rows; void:
/// whatever they are, at the price of registers and of waiting.
template <class G, class Ctx, class Row, class P>
MT_FN auto scaling_of(Ctx& ctx, const Row& row, const P& p) {
  if constexpr (std::is_void_v<G>) {
    return [&ctx, &p](const auto& at, auto use) {
      return use(load_any(ctx, p.gamma, at), load_any(ctx, p.beta, at, -0.0f));
    };
  } else {
    const bool adds = p.beta.data != nullptr;
    // Beside rows of 16 bits an fp32 gamma would fill the registers that their codes want.
    constexpr bool kAhead = sizeof(G) == 2 || sizeof(*p.x.data) == 4;
    const auto gamma_rows = p.gamma.template as<const G>();
    const auto gamma = [&] {
      if constexpr (kAhead) {
        return load_ahead(ctx, gamma_rows, row);
      } else {
        return gamma_rows;
      }
    }();
    const auto beta = p.beta.template as<
        const G>();  // comes when it is wanted: waiting, it would cost a third of the resident programs
    return [=, &ctx](const auto& at, auto use) {
      const auto scale = [&] {
        if constexpr (kAhead) {
          return arrived(ctx, gamma, at);
        } else {
          return load<cache::read_only>(ctx, gamma, at);
        }
      }();
      return use(scale, load<cache::read_only>(ctx, beta, only_if(at, adds), nothing_to_add<G>()));
    };
  }
}

/// (v - mean) * inverse * (gamma + offset) + beta of a tile, rounded to X.
template <class X, class Ctx, class At, class Scaling, class T, class M>
MT_FN auto normalised(Ctx& ctx, const At& at, const Scaling& scaling, float offset, const T& t, const M& mean,
                      const M& inverse) {
  return scaling(at, [&](const auto& gamma, const auto& beta) {
    return eval(
        ctx, at,
        round_to<X>(map([=](auto v, auto m, auto i, auto g, auto b) { return fma_of((v - m) * i, g + offset, b); }, t,
                        mean, inverse, gamma, beta)));
  });
}

}  // namespace monotile::kernels
