// Products of f16 by larger tiles of Hopper; compiled once per target.

#include "ops/gemm/register_tiles.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

void register_kernels_gemm_large_tiles_f16() {
  register_tiles<half_t, tiles::kWide, tiles::kBroad>();
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
