// Attention with queries in f16, compiled once per target.

#include "ops/attention/register_attention.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

void register_kernels_attention_f16() {
  register_attention<half_t, half_t>(attention_kernels::f16_f16);
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
