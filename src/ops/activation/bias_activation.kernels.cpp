// Bias, activation and residual in one, of f32 and f16; compiled once per target.

#include "ops/activation/register_bias.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

void register_kernels_bias_activation() {
  register_bias<float>();
  register_bias<half_t>();
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
