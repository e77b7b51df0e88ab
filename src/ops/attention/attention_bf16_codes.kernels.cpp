// Attention with queries in bf16 and caches of codes (fp8, int8), compiled once per target.

#include "ops/attention/register_attention.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

void register_kernels_attention_bf16_codes() {
  register_attention<bfloat16_t, kernels::codes_t>(attention_kernels::bf16_codes);
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
