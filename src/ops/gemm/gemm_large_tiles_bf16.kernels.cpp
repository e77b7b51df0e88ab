// Products of bf16 by larger tiles of Hopper; compiled once per target.

#include "ops/gemm/register_tiles.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

void register_kernels_gemm_large_tiles_bf16() {
  register_tiles<bfloat16_t, tiles::kWide, tiles::kBroad>();
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
