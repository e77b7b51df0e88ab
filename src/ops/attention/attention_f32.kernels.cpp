// Attention in f32, compiled once per target.

#include "ops/attention/register_attention.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

void register_kernels_attention_f32() {
  register_attention<float, float>(attention_kernels::f32_f32);
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
