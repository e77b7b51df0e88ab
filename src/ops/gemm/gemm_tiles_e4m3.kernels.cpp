// Products by tiles, operands in fp8 e4m3, compiled once per target.

#include "ops/gemm/register_tiles.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

void register_kernels_gemm_tiles_e4m3() {
  register_tiles<e4m3_t, tiles::kPlain, tiles::kPlain16, tiles::kRing8, tiles::kStaged8>();
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
