#pragma once
#include "monotile/dispatch.hpp"

namespace monotile::ops {

/// y = softmax(scale * x + mask) over the last dimension, or its logarithm.
///
/// x, y [rows, cols], each f32, f16 or bf16 (y: the dtype of x, or f32), row strides free, innermost stride 1; cols from 1 to 2^20. y may be x
/// where dtypes agree. mask [rows, cols] or [1, cols] (optional, row stride free): f32, f16 or bf16, added in fp32, or u8, where 0 hides the
/// element. Maximum and sum in fp32. A row that is all -inf gives zeros (log form: -inf).
struct SoftmaxArgs {
  static constexpr const char* op_name = "softmax";
  TensorView y, x;
  float scale = 1.0f;
  bool log = false;
  TensorView mask;  ///< optional
};

inline void softmax(Context& context, const TensorView& y, const TensorView& x, float scale = 1.0f, const TensorView& mask = {}) {
  run(context, SoftmaxArgs{y, x, scale, false, mask});
}
inline void log_softmax(Context& context, const TensorView& y, const TensorView& x, float scale = 1.0f, const TensorView& mask = {}) {
  run(context, SoftmaxArgs{y, x, scale, true, mask});
}

}  // namespace monotile::ops
