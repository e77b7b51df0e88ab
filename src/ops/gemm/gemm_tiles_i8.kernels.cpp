// Products by tiles, operands in int8, compiled once per target: on CPU one of the lengths of steps suits each.

#include "ops/gemm/register_tiles.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

void register_kernels_gemm_tiles_i8() {
  register_tiles<int8_t, tiles::kPlain, tiles::kPlain16, tiles::kPlain8, tiles::kRing8, tiles::kStaged8>();
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
