#pragma once
// What the activation kernels are given: filled by the host, passed by value.

#include "monotile/lang/view.hpp"

namespace monotile::kernels {

enum class GateFunction : uint8_t { silu, gelu_tanh, gelu_erf, relu2, identity };

template <class X>
struct GatedActivationParams {
  lang::view<X> y, gate, up;
  int64_t rows, cols;
  int64_t chunks;  ///< programs side by side along a row
  GateFunction function;
};

template <class X>
struct BiasActivationParams {
  lang::view<X> y, x, residual;  ///< the residual may be absent
  lang::any_view bias;           ///< one row for all, or absent
  int64_t rows, cols, chunks;
  GateFunction function;
};

}  // namespace monotile::kernels
