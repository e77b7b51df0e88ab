// Gated activation and quantisation in one, of f32 and f16; compiled once per target.

#include "ops/quant/register_gated.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

void register_kernels_gated_quantise() {
  register_gated<float>();
  register_gated<half_t>();
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
