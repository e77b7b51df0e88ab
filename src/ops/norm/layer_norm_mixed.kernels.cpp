// LayerNorm of 16-bit rows with an fp32 residual, compiled once per target.

#include "ops/norm/register_parts.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

void register_kernels_layer_norm_mixed() {
  register_norm<kernels::LayerNorm, half_t, float>("layer_norm", norm::f16_f32);
  register_norm<kernels::LayerNorm, bfloat16_t, float>("layer_norm", norm::bf16_f32);
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
