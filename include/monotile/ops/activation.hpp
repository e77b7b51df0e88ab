#pragma once
// Gated activations.

#include "monotile/dispatch.hpp"

namespace monotile::ops {

enum class Activation : uint8_t { silu = 0, gelu_tanh = 1, gelu_erf = 2 };

/// y = act(gate) * up, arithmetic in fp32, one rounding.
///
/// y, gate, up [rows, cols] of one dtype (f32, f16, bf16), row strides free, innermost stride 1. A packed [rows, 2 cols] input is passed as
/// two slices. y may be gate or up. act(-inf) = 0, act(+inf) = +inf; see docs/policies.md.
struct GatedActivationArgs {
  static constexpr const char* op_name = "gated_activation";
  TensorView y, gate, up;
  Activation activation = Activation::silu;
};

/// SwiGLU: silu(gate) * up.  Source: Shazeer, "GLU Variants Improve Transformer", 2020.
inline void silu_mul(Context& context, const TensorView& y, const TensorView& gate, const TensorView& up) {
  run(context, GatedActivationArgs{y, gate, up, Activation::silu});
}
/// GeGLU with the tanh form of GELU, or with erf.
inline void gelu_mul(Context& context, const TensorView& y, const TensorView& gate, const TensorView& up, bool tanh_form = true) {
  run(context, GatedActivationArgs{y, gate, up, tanh_form ? Activation::gelu_tanh : Activation::gelu_erf});
}

}  // namespace monotile::ops
