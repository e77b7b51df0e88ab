// Sampling from logits of bf16, compiled once per target.

#include "ops/sampling/register_sample.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

void register_kernels_sample_bf16() {
  register_sample<bfloat16_t>();
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
