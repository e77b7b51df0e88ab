// Attention with queries in f16 and caches of codes (fp8, int8), compiled once per target.

#include "ops/attention/register_attention.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

void register_kernels_attention_f16_codes() {
  register_attention<half_t, kernels::codes_t>(attention_kernels::f16_codes);
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
