// Products that are made of fp32 on CPU, with an activation in the epilogue; compiled once per target.

#include "monotile/kernels/gemm/gemm_gated.hpp"
#include "ops/gemm/register_tiles.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

void register_kernels_gemm_gated_f32() { register_gated_tiles<float, tiles::kPlain>(); }

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
