#pragma once
// RMSNorm and layer norm with their fused forms: residual, quantised output; also the per-head q/k norm (a norm over the last dimension of
// [token, head, dim]) and grouped norms.

#include "monotile/dispatch.hpp"

namespace monotile::ops {

/// h = x (+ residual, rounded to the residual's dtype);  residual <- h;  y = h / sqrt(mean(h^2) + eps) * (gamma + gamma_offset) + beta.
///
/// Shapes: x, y, residual [..., cols] of rank 1 to 3 with equal extents, any outer strides, innermost stride 1; gamma, beta [cols], or
/// [groups, cols] where x is [..., groups, cols]: a gamma for each group of a row.
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

/// y = RMSNorm as above, rounded to the dtype of x; codes = round(y * (1 / scale)), scale = max|y| / largest code for each row. Equals
/// (add_)rms_norm followed by quantise per token to the bit.
///
/// x, residual [rows, cols] as in RmsNormArgs; gamma, beta [cols]; y [rows, cols] of the dtype of x, optional: the normalised row besides its
/// codes; codes [rows, cols] f8_e4m3, f8_e5m2 or i8; scales [rows, 1] f32, or with `given_scales` [1, 1], read. Zeros and NaN as in QuantiseArgs.
struct RmsNormQuantiseArgs {
  static constexpr const char* op_name = "rms_norm_quantise";
  TensorView codes, scales;
  TensorView y;         ///< optional
  TensorView residual;  ///< optional, updated in place
  TensorView x;
  TensorView gamma;
  TensorView beta;  ///< optional
  float eps = 1e-6f;
  float gamma_offset = 0.0f;
  bool given_scales = false;
};

inline void add_rms_norm_quantise(Context& context, const TensorView& codes, const TensorView& scales, const TensorView& residual,
                                  const TensorView& x, const TensorView& gamma, float eps = 1e-6f, float gamma_offset = 0.0f) {
  run(context, RmsNormQuantiseArgs{codes, scales, {}, residual, x, gamma, {}, eps, gamma_offset, false});
}

/// h = x (+ residual, rounded to the residual's dtype);  residual <- h;  y = (h - mean(h)) / sqrt(var(h) + eps) * (gamma + gamma_offset) + beta, with the
/// biased variance.
///
/// Shapes and dtypes as in RmsNormArgs, grouped gamma too. Statistics in fp32 in two passes, the second correcting the mean: a large mean
/// costs no digits. cols from 1 to 2^20.
/// Source: Ba, Kiros and Hinton, "Layer Normalization", 2016.
struct LayerNormArgs {
  static constexpr const char* op_name = "layer_norm";
  TensorView y;
  TensorView residual;  ///< optional, updated in place
  TensorView x;
  TensorView gamma;
  TensorView beta;  ///< optional
  float eps = 1e-5f;
  float gamma_offset = 0.0f;
};

inline void layer_norm(Context& context, const TensorView& y, const TensorView& x, const TensorView& gamma, const TensorView& beta = {},
                       float eps = 1e-5f) {
  run(context, LayerNormArgs{y, {}, x, gamma, beta, eps, 0.0f});
}
inline void add_layer_norm(Context& context, const TensorView& y, const TensorView& residual, const TensorView& x, const TensorView& gamma,
                           const TensorView& beta = {}, float eps = 1e-5f) {
  run(context, LayerNormArgs{y, residual, x, gamma, beta, eps, 0.0f});
}

}  // namespace monotile::ops
