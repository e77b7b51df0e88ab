// RmsNormQuantise with a residual of the type of x, compiled once per target.

#include "ops/norm/register_parts.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

void register_kernels_rms_norm_quantise() {
  register_norm<kernels::RmsNormQuantise, float, float>("rms_norm_quantise", norm::f32_f32);
  register_norm<kernels::RmsNormQuantise, half_t, half_t>("rms_norm_quantise", norm::f16_f16);
  register_norm<kernels::RmsNormQuantise, bfloat16_t, bfloat16_t>("rms_norm_quantise", norm::bf16_bf16);
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
