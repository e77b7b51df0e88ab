#pragma once
#include "monotile/dispatch.hpp"

namespace monotile::ops {

/// How activations enter a product with a block-quantised weight.
enum class ProductCast : uint8_t {
  none = 0,       ///< activations as given, weights unpacked to fp32: fp32 accumulation
  int8_block = 1  ///< activations rounded to int8 in blocks of 32 (scale = max|a| / 127), integer products inside a block
};

/// c = a b^T + bias (+ residual): c [m, n], a [m, k], b [n, k].
///
/// a: f32, f16, bf16; c, residual: f32 or the dtype of a; b: f32, f16, bf16 (f32 or the dtype of a... any mix is accepted), or a GGUF block
/// type (k a multiple of its block length); bias [n] f32 or the dtype of a. Row strides free, innermost stride 1. K = 0 gives bias + residual or 0.
/// fp32 accumulation: |error| <= k 2^-24 sum |a||b| + one output rounding (int8_block adds max|a| / 254 per block).
/// m <= 64 is the vector/skinny case (weights streamed once), chosen by the cost function, never by the caller.
struct GemmArgs {
  static constexpr const char* op_name = "gemm";
  TensorView c, a, b;
  TensorView bias;      ///< optional
  TensorView residual;  ///< optional, may be c
  ProductCast cast = ProductCast::none;
};

inline void gemm(Context& context, const TensorView& c, const TensorView& a, const TensorView& b, ProductCast cast = ProductCast::none) {
  run(context, GemmArgs{c, a, b, {}, {}, cast});
}

}  // namespace monotile::ops
