// Sampling from logits of 16 bits, compiled once per target.

#include "ops/sampling/register_sample.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

void register_kernels_sample_half() {
  register_sample<half_t>();
  register_sample<bfloat16_t>();
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
