// Products by tiles of Hopper of which only tuning and benchmarks choose: b shared or not, warpgroups that start apart, operands in fp8 e4m3, compiled once per target.

#include "ops/gemm/register_tiles.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

void register_kernels_gemm_paired_tiles_e4m3() {
  register_tiles<e4m3_t, tiles::kWidePairs8, tiles::kSquareAlone8, tiles::kWideLate8, tiles::kSquareLate8>();
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
