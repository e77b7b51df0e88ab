// Decode attention of f16, masks; compiled once per target.

#include "ops/attention/register_decode.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

void register_kernels_decode_f16() {
  register_decode<half_t, kernels::RangeMask>(prefill::kMasks);
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
