// Residual add + RMSNorm, compiled once per target: rows and residual of one type.

#include "ops/norm/register_norm.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

void register_kernels_add_norm() {
  register_layouts<float, float, true>(norm::f32_f32);
  register_layouts<half_t, half_t, true>(norm::f16_f16);
  register_layouts<bfloat16_t, bfloat16_t, true>(norm::bf16_bf16);
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
