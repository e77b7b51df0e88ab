// Products of bf16 by tiles of Hopper with an activation in the epilogue; compiled once per target.

#include "monotile/kernels/gemm/gemm_gated.hpp"
#include "ops/gemm/register_tiles.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

void register_kernels_gemm_gated_square_bf16() { register_gated_tiles<bfloat16_t, tiles::kSquare>(); }

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
