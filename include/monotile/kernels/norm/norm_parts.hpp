#pragma once
// What the norms share: the row with its residual, and the scaled result.

#include "monotile/kernels/norm/params.hpp"
#include "monotile/lang/lang.hpp"

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
        auto sum =
            eval(ctx, at,
                 round_to<R>(map([](auto x, auto r) { return x + r; }, load<cache::stream>(ctx, p.x, at), residual)));
        store<cache::stream>(ctx, p.residual, residual_at, sum);
        return sum;
      },
      [&ctx, &p, sums](const auto& at) {  // the sum has been stored, if there is one
        const auto x = load(ctx, p.x, only_if(at, !sums), nothing_to_add<X>());
        return round_to<R>(map([](auto x, auto r) { return x + r; }, x,
                               load(ctx, p.residual, only_if(at, sums), nothing_to_add<R>())));
      });
}

/// (v - mean) * inverse * (gamma + offset) + beta of a tile, rounded to X.
template <class X, class Ctx, class At, class P, class T, class M>
MT_FN auto normalised(Ctx& ctx, const At& at, const P& p, const T& t, const M& mean, const M& inverse) {
  const float offset = p.gamma_offset;
  const auto gamma = load_any(ctx, p.gamma, at), beta = load_any(ctx, p.beta, at, -0.0f);
  return eval(
      ctx, at,
      round_to<X>(map([=](auto v, auto m, auto i, auto g, auto b) { return fma_of((v - m) * i, g + offset, b); }, t,
                      mean, inverse, gamma, beta)));
}

}  // namespace monotile::kernels
