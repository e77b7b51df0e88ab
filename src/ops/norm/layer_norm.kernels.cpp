// LayerNorm with a residual of the type of x, compiled once per target.

#include "ops/norm/register_parts.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

void register_kernels_layer_norm() {
  register_norm<kernels::LayerNorm, float, float>("layer_norm", norm::f32_f32);
  register_norm<kernels::LayerNorm, half_t, half_t>("layer_norm", norm::f16_f16);
  register_norm<kernels::LayerNorm, bfloat16_t, bfloat16_t>("layer_norm", norm::bf16_bf16);
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
