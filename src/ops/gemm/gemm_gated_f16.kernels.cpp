// Products of f16 with an activation in the epilogue; compiled once per target.

#include "monotile/kernels/gemm/gemm_gated.hpp"
#include "ops/gemm/register_tiles.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

void register_kernels_gemm_gated_f16() { register_gated_tiles<half_t, tiles::kRing, tiles::kStaged>(); }

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
