// RmsNormQuantise of rows in f32, compiled once per target.

#include "ops/norm/register_parts.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

void register_kernels_rms_norm_quantise_f32() {
  register_norm<kernels::RmsNormQuantise, float, float>("rms_norm_quantise", norm::f32_f32);
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
