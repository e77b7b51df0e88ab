// Products by tiles whose operands become fp32 as they are packed: on CPU, for every mix of types. Compiled once per target.

#include "ops/gemm/register_tiles.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

void register_kernels_gemm_tiles_f32() { register_tiles<float, tiles::kPlain>(); }

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
