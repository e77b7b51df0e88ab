// Decode attention of bf16, masks; compiled once per target.

#include "ops/attention/register_decode.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

void register_kernels_decode_bf16() {
  register_decode_start();
  register_decode<bfloat16_t, kernels::RangeMask>(prefill::kMasks);
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
