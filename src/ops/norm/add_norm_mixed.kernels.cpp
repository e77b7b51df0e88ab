// Residual add + RMSNorm beside a residual of fp32: apart from the others, since all in one file take too long to compile.

#include "ops/norm/register_norm.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

void register_kernels_add_norm_mixed() {
  register_layouts<half_t, float, true>(norm::f16_f32);
  register_layouts<bfloat16_t, float, true>(norm::bf16_f32);
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
