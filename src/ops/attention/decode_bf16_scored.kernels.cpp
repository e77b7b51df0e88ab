// Decode attention of bf16, changed scores; compiled once per target.

#include "ops/attention/register_decode.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

void register_kernels_decode_bf16_scored() {
  register_decode<bfloat16_t, kernels::ScoredMask>(prefill::kScored);
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
