// RmsNormQuantise of rows in bf16, compiled once per target.

#include "ops/norm/register_parts.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

void register_kernels_rms_norm_quantise_bf16() {
  register_norm<kernels::RmsNormQuantise, bfloat16_t, bfloat16_t>("rms_norm_quantise", norm::bf16_bf16);
  register_norm<kernels::RmsNormQuantise, bfloat16_t, float>("rms_norm_quantise", norm::bf16_f32);
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
