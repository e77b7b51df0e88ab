#pragma once
#include <optional>

#include "monotile/ops/activation.hpp"
#include "monotile/ops/gemm.hpp"

namespace monotile::ops {

/// The feed-forward part of a transformer layer in one call: y = (activation(x gate^T + gate_bias) * (x up^T + up_bias)) down^T + down_bias + residual.
///
/// x [m, k]; gate, up [f, k]; down [n, f]; y, residual [m, n]; gate_bias, up_bias [f]; down_bias [n]: dtypes and strides as in `GemmArgs`, codes (int8,
/// fp8) excepted. hidden, spare [m, f] of the dtype of x are scratch, given by the caller so that nothing is allocated: both are overwritten, and overlap
/// nothing. What is between the products is rounded to that dtype: the gate once, the gated product once (where it is a kernel of its own, the other
/// factor too). Errors as of the products; they name the product's argument.
///
/// Three products; from as many rows on as are multiplied by tiles, the second applies the activation to what it multiplies (`GemmArgs::gate`), and spare
/// is not used. Source: Shazeer, "GLU Variants Improve Transformer", 2020.
struct MlpArgs {
  static constexpr const char* op_name = "mlp";
  TensorView y, x, gate, up, down;
  TensorView gate_bias, up_bias, down_bias;  ///< optional
  TensorView residual;                       ///< optional, may be y
  TensorView hidden, spare;                  ///< scratch
  Activation activation = Activation::silu;  ///< not identity
  std::optional<ProductCast> cast;           ///< absent: `suggested_cast` where it changes the weights, none elsewhere
};
void mlp(Context& context, const MlpArgs& args);

}  // namespace monotile::ops
