// Prefill attention of bf16, head dimensions up to 128, masks; compiled once per target.

#include "ops/attention/register_prefill.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

void register_kernels_prefill128_bf16() {
  register_prefill<bfloat16_t, prefill::up_to_128, kernels::SpanMask>(prefill::kMasks);
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
