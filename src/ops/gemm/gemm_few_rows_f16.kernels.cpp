// Products of few rows of f16, by tiles that lie across the result; compiled once per target.

#include "ops/gemm/register_tiles.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

void register_kernels_gemm_few_rows_f16() {
  register_tiles<half_t, tiles::kFewRing, tiles::kFewStaged, tiles::kFew16, tiles::kFew64, tiles::kFewSplit16,
                 tiles::kFewSplit64>();
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
