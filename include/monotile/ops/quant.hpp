#pragma once
// Quantisation of activations and weights, and back. Rounding is to nearest even, codes saturate; see docs/policies.md.

#include "monotile/dispatch.hpp"
#include "monotile/ops/activation.hpp"

namespace monotile::ops {

/// codes = round(x * (1 / scale)), a scale for each block of `block_rows` x `block_cols` elements.
///
/// x [rows, cols] f32, f16 or bf16; codes [rows, cols] f8_e4m3, f8_e5m2 or i8, or int4 as u8 [rows, cols / 2] (column 2j in the low half of byte j);
/// scales [ceil(rows / block_rows), ceil(cols / block_cols)] f32, any strides (so by columns as well). block 0 means the whole extent: (0, 0) per
/// tensor, (1, 0) per token, (1, 128) and (128, 128) per block. Row strides free, innermost stride of x and codes 1.
///   scale = max(largest finite |x| / largest code, 2^-126), 1 where that maximum is 0; largest codes: 448, 57344, 127. With `given_scales` the
///   scales are read, and codes of i8 go down to -128. Both quotients and the product are fp32 operations, rounded once each.
/// int4 (block_rows 1; block_cols even, up to 256, dividing cols): without zero_points code = clamp(round(x / scale), -8, 7) + 8 and scale = max|x| / 7; with
/// zero_points [scales' extents] u8, written: hi = max(x, 0), lo = min(x, 0), scale = hi / 15 - lo / 15, zero = round(-lo / scale),
/// code = clamp(round(x / scale) + zero, 0, 15). Given scales are not for int4.
/// NaN: the NaN code of fp8, 0 in i8, the zero point in int4. rows x groups below 2^31.
/// Source: OCP 8-bit floating point specification, 2023; Dettmers et al., "LLM.int8()", 2022.
struct QuantiseArgs {
  static constexpr const char* op_name = "quantise";
  TensorView codes, scales;
  TensorView zero_points;  ///< int4 only, optional
  TensorView x;
  int64_t block_rows = 1, block_cols = 0;
  bool given_scales = false;
};

inline void quantise(Context& context, const TensorView& codes, const TensorView& scales, const TensorView& x, int64_t block_rows = 1,
                     int64_t block_cols = 0) {
  run(context, QuantiseArgs{codes, scales, {}, x, block_rows, block_cols, false});
}
/// With scales that are there already, such as calibrated ones.
inline void quantise_given(Context& context, const TensorView& codes, const TensorView& scales, const TensorView& x, int64_t block_rows = 0,
                           int64_t block_cols = 0) {
  run(context, QuantiseArgs{codes, scales, {}, x, block_rows, block_cols, true});
}

/// y = code * scale; int4: (code - zero point) * scale, zero point 8 without `zero_points`; GGUF blocks carry their scales.
///
/// y [rows, cols] f32, f16 or bf16; codes, scales, zero_points and blocks as in QuantiseArgs, or codes [rows, cols] of a GGUF block type without
/// scales. The product is fp32, then rounded once to y.
struct DequantiseArgs {
  static constexpr const char* op_name = "dequantise";
  TensorView y, codes;
  TensorView scales;       ///< absent with GGUF blocks
  TensorView zero_points;  ///< int4 only, optional
  int64_t block_rows = 1, block_cols = 0;
};

inline void dequantise(Context& context, const TensorView& y, const TensorView& codes, const TensorView& scales = {}, int64_t block_rows = 1,
                       int64_t block_cols = 0, const TensorView& zero_points = {}) {
  run(context, DequantiseArgs{y, codes, scales, zero_points, block_rows, block_cols});
}

/// codes = quantise(act(gate) * up) in one pass: equals gated_activation followed by quantise to the bit, since the product is rounded to the
/// dtype of gate in between.
///
/// gate, up [rows, cols] of one dtype (f32, f16, bf16), row strides free (a packed [rows, 2 cols] as two slices); codes [rows, cols] f8_e4m3,
/// f8_e5m2 or i8; scales [rows, ceil(cols / block_cols)] f32, any strides, block_cols 0 for one scale a row. With `given_scales` [1, 1] one scale
/// for all is read instead.
struct GatedQuantiseArgs {
  static constexpr const char* op_name = "gated_quantise";
  TensorView codes, scales, gate, up;
  Activation activation = Activation::silu;
  int64_t block_cols = 0;
  bool given_scales = false;
};

/// SwiGLU and quantise, per token or per group of columns.
inline void silu_mul_quantise(Context& context, const TensorView& codes, const TensorView& scales, const TensorView& gate, const TensorView& up,
                              int64_t block_cols = 0) {
  run(context, GatedQuantiseArgs{codes, scales, gate, up, Activation::silu, block_cols, false});
}

}  // namespace monotile::ops
