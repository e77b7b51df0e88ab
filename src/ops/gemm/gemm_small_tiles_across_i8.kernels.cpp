// Products of few rows by tiles of Hopper that lie across, operands in int8, compiled once per target.

#include "ops/gemm/register_tiles.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

void register_kernels_gemm_small_tiles_across_i8() {
  register_tiles<int8_t, tiles::kFew16Ints, tiles::kFew64Ints, tiles::kFewSplit16Ints, tiles::kFewSplit64Ints>();
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
