// Products of few rows by tiles that lie across, operands in int8, compiled once per target.

#include "ops/gemm/register_tiles.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

void register_kernels_gemm_few_rows_i8() {
  register_tiles<int8_t, tiles::kFewRing8, tiles::kFewStaged8>();
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
