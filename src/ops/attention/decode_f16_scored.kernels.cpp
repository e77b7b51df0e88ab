// Decode attention of f16, changed scores; compiled once per target.

#include "ops/attention/register_decode.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

void register_kernels_decode_f16_scored() {
  register_decode<half_t, kernels::ScoredMask>(prefill::kScored);
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
