// Attention with queries in bf16, compiled once per target.

#include "ops/attention/register_attention.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

void register_kernels_attention_bf16() {
  register_attention<bfloat16_t, bfloat16_t>(attention_kernels::bf16_bf16);
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
