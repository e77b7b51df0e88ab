#pragma once
// RMSNorm and its fused residual form; also the per-head q/k norm (a norm over the last dimension of [token, head, dim]).

#include "monotile/dispatch.hpp"

namespace monotile::ops {

/// h = x (+ residual, rounded to the residual's dtype);  residual <- h;  y = h / sqrt(mean(h^2) + eps) * (gamma + gamma_offset) + beta.
///
/// Shapes: x, y, residual [..., cols] of rank 1 to 3 with equal extents, any outer strides, innermost stride 1; gamma, beta [cols].
/// dtypes (x, residual, gamma, y): all one of f32, f16, bf16; or x, y in f16/bf16 with gamma in f32; or x and y in f16/bf16 with
/// residual f32 (gamma f32 or the dtype of x); or all f32. beta has the dtype of gamma. y may be x; residual may not overlap x or y.
/// Statistics in fp32. cols from 1 to 2^20.
/// Source: Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019.
struct RmsNormArgs {
  static constexpr const char* op_name = "rms_norm";
  TensorView y;
  TensorView residual;  ///< undefined: no residual (rms_norm); defined: add_rms_norm, updated in place
  TensorView x;
  TensorView gamma;
  TensorView beta;      ///< optional
  float eps = 1e-6f;
  float gamma_offset = 0.0f;  ///< 1 where checkpoints store gamma - 1 (Gemma safetensors)
};

inline void rms_norm(Context& context, const TensorView& y, const TensorView& x, const TensorView& gamma, float eps = 1e-6f,
                     float gamma_offset = 0.0f) {
  run(context, RmsNormArgs{.y = y, .residual = {}, .x = x, .gamma = gamma, .beta = {}, .eps = eps, .gamma_offset = gamma_offset});
}

inline void add_rms_norm(Context& context, const TensorView& y, const TensorView& residual, const TensorView& x,
                         const TensorView& gamma, float eps = 1e-6f, float gamma_offset = 0.0f, const TensorView& beta = {}) {
  run(context, RmsNormArgs{.y = y, .residual = residual, .x = x, .gamma = gamma, .beta = beta, .eps = eps, .gamma_offset = gamma_offset});
}

}  // namespace monotile::ops
