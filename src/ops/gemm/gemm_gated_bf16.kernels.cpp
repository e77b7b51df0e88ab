// Products of bf16 with an activation in the epilogue; compiled once per target.

#include "monotile/kernels/gemm/gemm_gated.hpp"
#include "ops/gemm/register_tiles.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

void register_kernels_gemm_gated_bf16() {
  register_gated_tiles<bfloat16_t, tiles::kPlain16, tiles::kRing, tiles::kStaged>();
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
