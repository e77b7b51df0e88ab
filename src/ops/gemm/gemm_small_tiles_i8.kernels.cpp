// Products by smaller tiles of Hopper, operands in int8, compiled once per target.

#include "ops/gemm/register_tiles.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

void register_kernels_gemm_small_tiles_i8() {
  register_tiles<int8_t, tiles::kSquareInts, tiles::kNarrowInts, tiles::kSplit8>();
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
