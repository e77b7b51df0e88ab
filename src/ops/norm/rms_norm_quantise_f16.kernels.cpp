// RmsNormQuantise of rows in f16, compiled once per target.

#include "ops/norm/register_parts.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

void register_kernels_rms_norm_quantise_f16() {
  register_norm<kernels::RmsNormQuantise, half_t, half_t>("rms_norm_quantise", norm::f16_f16);
  register_norm<kernels::RmsNormQuantise, half_t, float>("rms_norm_quantise", norm::f16_f32);
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
