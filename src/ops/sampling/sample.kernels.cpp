// Sampling from fp32 logits, compiled once per target.

#include "ops/sampling/register_sample.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

void register_kernels_sample() { register_sample<float>(); }

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
