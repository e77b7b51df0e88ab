#pragma once
// y = act(gate) * up.

#include "monotile/kernels/activation/functions.hpp"
#include "monotile/kernels/activation/params.hpp"

namespace monotile::kernels {

/// One program per chunk of columns of a group of rows of L.
template <class X, class L>
struct GatedActivation {
  using Params = GatedActivationParams<X>;

  template <class Ctx>
  static MT_FN void run(Ctx& ctx, const Params& p) {
    const auto at = chunks_of<L>(ctx, p.rows, p.cols, p.chunks);
    const auto gate = load<cache::stream>(ctx, p.gate, at), up = load<cache::stream>(ctx, p.up, at);
    switch (p.function) {
      case GateFunction::silu:
        store<cache::stream>(ctx, p.y, at, map([](auto g, auto u) { return silu_of{}(g)*u; }, gate, up));
        break;
      case GateFunction::gelu_tanh:
        store<cache::stream>(ctx, p.y, at, map([](auto g, auto u) { return gelu_tanh_of{}(g)*u; }, gate, up));
        break;
      case GateFunction::gelu_erf:
        store<cache::stream>(ctx, p.y, at, map([](auto g, auto u) { return gelu_erf_of{}(g)*u; }, gate, up));
        break;
      case GateFunction::relu2:
        store<cache::stream>(ctx, p.y, at, map([](auto g, auto u) { return relu2_of{}(g)*u; }, gate, up));
        break;
      case GateFunction::identity: break;  // refused by the host
    }
  }
};

}  // namespace monotile::kernels
