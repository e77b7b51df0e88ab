// Bias, activation and residual in one, of bf16; compiled once per target.

#include "ops/activation/register_bias.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

void register_kernels_bias_activation_bf16() {
  register_bias<bfloat16_t>();
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
