// Attention with queries in f32 and caches of 16 bits, compiled once per target.

#include "ops/attention/register_attention.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

void register_kernels_attention_f32_half() {
  register_attention<float, half_t>(attention_kernels::f32_f16);
  register_attention<float, bfloat16_t>(attention_kernels::f32_bf16);
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
