#pragma once
// Gated activations.

#include "monotile/dispatch.hpp"

namespace monotile::ops {

/// relu2: max(x, 0)^2. identity: bias and residual alone.
enum class Activation : uint8_t { silu = 0, gelu_tanh = 1, gelu_erf = 2, relu2 = 3, identity = 4 };

/// y = act(gate) * up, arithmetic in fp32, one rounding.
///
/// y, gate, up [rows, cols] of one dtype (f32, f16, bf16), row strides free, innermost stride 1. A packed [rows, 2 cols] input is passed as
/// two slices. y may be gate or up. act(-inf) = 0, act(+inf) = +inf; see docs/policies.md.
struct GatedActivationArgs {
  static constexpr const char* op_name = "gated_activation";
  TensorView y, gate, up;
  Activation activation = Activation::silu;  ///< not identity
};

/// SwiGLU: silu(gate) * up.  Source: Shazeer, "GLU Variants Improve Transformer", 2020.
inline void silu_mul(Context& context, const TensorView& y, const TensorView& gate, const TensorView& up) {
  run(context, GatedActivationArgs{y, gate, up, Activation::silu});
}
/// GeGLU with the tanh form of GELU, or with erf.
inline void gelu_mul(Context& context, const TensorView& y, const TensorView& gate, const TensorView& up, bool tanh_form = true) {
  run(context, GatedActivationArgs{y, gate, up, tanh_form ? Activation::gelu_tanh : Activation::gelu_erf});
}

/// The same from one packed input [rows, 2 cols]: the gates, then the ups.
inline void gated_activation_packed(Context& context, const TensorView& y, const TensorView& packed, Activation activation = Activation::silu) {
  const int64_t cols = packed.dim(-1) / 2;
  run(context, GatedActivationArgs{y, packed.slice(1, 0, cols), packed.slice(1, cols, 2 * cols), activation});
}

/// y = act(x + bias) + residual, arithmetic in fp32, one rounding.
///
/// y, x, residual (optional) [rows, cols] of one dtype (f32, f16, bf16), row strides free, innermost stride 1; bias [cols] (optional) of that dtype or f32. y may be
/// x or the residual. Limits and NaN as in GatedActivationArgs; relu2: So et al., "Primer", 2021.
struct BiasActivationArgs {
  static constexpr const char* op_name = "bias_activation";
  TensorView y, x;
  TensorView bias, residual;  ///< optional
  Activation activation = Activation::gelu_tanh;
};
inline void bias_activation(Context& context, const TensorView& y, const TensorView& x, Activation activation, const TensorView& bias = {},
                            const TensorView& residual = {}) {
  run(context, BiasActivationArgs{y, x, bias, residual, activation});
}

}  // namespace monotile::ops
