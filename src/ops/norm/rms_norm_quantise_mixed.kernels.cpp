// RmsNormQuantise of 16-bit rows with an fp32 residual, compiled once per target.

#include "ops/norm/register_parts.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

void register_kernels_rms_norm_quantise_mixed() {
  register_norm<kernels::RmsNormQuantise, half_t, float>("rms_norm_quantise", norm::f16_f32);
  register_norm<kernels::RmsNormQuantise, bfloat16_t, float>("rms_norm_quantise", norm::bf16_f32);
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
