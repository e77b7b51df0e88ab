// Products of bf16 by tiles, any alignment; compiled once per target.

#include "ops/gemm/register_tiles.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

void register_kernels_gemm_tiles_bf16() {
  register_tiles<bfloat16_t, tiles::kPlain16, tiles::kRing, tiles::kStaged>();
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
