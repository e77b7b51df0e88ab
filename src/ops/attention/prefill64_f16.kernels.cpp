// Prefill attention of f16, head dimensions up to 64, masks; compiled once per target.

#include "ops/attention/register_prefill.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

void register_kernels_prefill64_f16() {
  register_prefill<half_t, prefill::up_to_64, kernels::SpanMask>(prefill::kMasks);
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
