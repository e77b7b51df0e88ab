// Prefill attention of f16, head dimensions up to 256, masks; compiled once per target.

#include "ops/attention/register_prefill.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

void register_kernels_prefill256_f16() {
  register_prefill<half_t, prefill::up_to_256, kernels::SpanMask>(prefill::kMasks);
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
