// Attention with queries in f32 and caches of codes (fp8, int8), compiled once per target.

#include "ops/attention/register_attention.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

void register_kernels_attention_f32_codes() {
  register_attention<float, kernels::codes_t>(attention_kernels::f32_codes);
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
