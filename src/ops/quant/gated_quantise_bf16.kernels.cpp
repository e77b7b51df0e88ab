// Gated activation and quantisation in one, of bf16; compiled once per target.

#include "ops/quant/register_gated.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

void register_kernels_gated_quantise_bf16() {
  register_gated<bfloat16_t>();
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
