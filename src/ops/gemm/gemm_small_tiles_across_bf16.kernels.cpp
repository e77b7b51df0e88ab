// More tiles of Hopper for few rows, operands in bf16, compiled once per target.

#include "ops/gemm/register_tiles.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

void register_kernels_gemm_small_tiles_across_bf16() { register_tiles<bfloat16_t, tiles::kFew64Pairs, tiles::kFewHalf64>(); }

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
