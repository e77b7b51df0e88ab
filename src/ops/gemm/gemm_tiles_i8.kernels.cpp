// Products of int8 by tiles, on CPU: one of the lengths of steps suits each target. Compiled once per target.

#include "ops/gemm/register_tiles.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

void register_kernels_gemm_tiles_i8() { register_tiles<int8_t, tiles::kPlain, tiles::kPlain16, tiles::kPlain8>(); }

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
