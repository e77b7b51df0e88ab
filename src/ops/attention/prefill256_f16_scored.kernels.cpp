// Prefill attention of f16, head dimensions up to 256, changed scores; compiled once per target.

#include "ops/attention/register_prefill.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

void register_kernels_prefill256_f16_scored() {
  register_prefill<half_t, prefill::up_to_256, kernels::ScoredMask>(prefill::kScored);
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
