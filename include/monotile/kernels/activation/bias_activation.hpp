#pragma once
// y = act(x + bias) + residual.

#include "monotile/kernels/activation/functions.hpp"
#include "monotile/kernels/activation/params.hpp"

namespace monotile::kernels {

/// One program per chunk of columns of a group of rows of L.
template <class X, class L>
struct BiasActivation {
  using Params = BiasActivationParams<X>;

  template <class F, class Ctx, class At>
  static MT_FN void apply(Ctx& ctx, const Params& p, const At& at, F f) {
    const auto x = load<cache::stream>(ctx, p.x, at),
               residual = load<cache::stream>(ctx, p.residual, only_if(at, p.residual.data != nullptr));
    const auto bias = load_any(ctx, p.bias, at);
    const auto y = [=](auto v, auto b, auto r) { return f(v + b) + r; };
    store<cache::stream>(ctx, p.y, at, map_rounded<X>(ctx, at, y, x, bias, residual));
  }
  template <class Ctx>
  static MT_FN void run(Ctx& ctx, const Params& p) {
    const auto at = chunks_of<L>(ctx, p.rows, p.cols, p.chunks);
    switch (p.function) {
      case GateFunction::silu: return apply(ctx, p, at, silu_of{});
      case GateFunction::gelu_tanh: return apply(ctx, p, at, gelu_tanh_of{});
      case GateFunction::gelu_erf: return apply(ctx, p, at, gelu_erf_of{});
      case GateFunction::relu2: return apply(ctx, p, at, relu2_of{});
      case GateFunction::identity: return apply(ctx, p, at, [](auto v) { return v; });
    }
  }
};

}  // namespace monotile::kernels
