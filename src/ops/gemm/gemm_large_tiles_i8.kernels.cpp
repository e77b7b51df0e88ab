// Products by larger tiles of Hopper, operands in int8, compiled once per target.

#include "ops/gemm/register_tiles.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

void register_kernels_gemm_large_tiles_i8() {
  register_tiles<int8_t, tiles::kWideInts>();
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
