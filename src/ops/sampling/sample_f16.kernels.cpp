// Sampling from logits of f16, compiled once per target.

#include "ops/sampling/register_sample.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

void register_kernels_sample_f16() {
  register_sample<half_t>();
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
