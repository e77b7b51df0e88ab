// Products by smaller tiles of Hopper, operands in fp8 e5m2, compiled once per target.

#include "ops/gemm/register_tiles.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

void register_kernels_gemm_small_tiles_e5m2() {
  register_tiles<e5m2_t, tiles::kSquare8>();
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
