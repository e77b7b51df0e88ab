// More tiles of Hopper for few rows, operands in fp16, compiled once per target.

#include "ops/gemm/register_tiles.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

void register_kernels_gemm_small_tiles_across_f16() { register_tiles<half_t, tiles::kFew64Pairs, tiles::kFewHalf64>(); }

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
