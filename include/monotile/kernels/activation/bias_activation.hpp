#pragma once
// y = act(x + bias) + residual.

#include "monotile/kernels/activation/functions.hpp"
#include "monotile/kernels/activation/params.hpp"

namespace monotile::kernels {

/// One program per chunk of columns of a group of rows of L.
template <class X, class L>
struct BiasActivation {
  using Params = BiasActivationParams<X>;

  template <class Ctx>
  static MT_FN void run(Ctx& ctx, const Params& p) {
    const auto at = chunks_of<L>(ctx, p.rows, p.cols, p.chunks);
    const auto x = load<cache::stream>(ctx, p.x, at),
               residual = load<cache::stream>(ctx, p.residual, only_if(at, p.residual.data != nullptr));
    const auto bias = load_any(ctx, p.bias, at);
    const auto finish = [&](auto f) {
      const auto y = [=](auto v, auto b, auto r) { return f(v + b) + r; };
      store<cache::stream>(ctx, p.y, at, map_rounded<X>(ctx, at, y, x, bias, residual));
    };
    switch (p.function) {
      case GateFunction::silu: return finish(silu_of{});
      case GateFunction::gelu_tanh: return finish(gelu_tanh_of{});
      case GateFunction::gelu_erf: return finish(gelu_erf_of{});
      case GateFunction::relu2: return finish(relu2_of{});
      case GateFunction::identity: return finish([](auto v) { return v; });
    }
  }
};

}  // namespace monotile::kernels
