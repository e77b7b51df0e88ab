// Products of bf16 by smaller tiles; compiled once per target.

#include "ops/gemm/register_tiles.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

void register_kernels_gemm_small_tiles_bf16() {
  register_tiles<bfloat16_t, tiles::kSquare, tiles::kNarrow, tiles::kSplit>();
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
