// Products whose operands become bf16 as they are copied, with an activation in the epilogue; compiled once per target.

#include "monotile/kernels/gemm/gemm_gated.hpp"
#include "ops/gemm/register_tiles.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

void register_kernels_gemm_gated_mixed() {
  register_gated_tiles<lang::converted<bfloat16_t>, tiles::kRingMixed, tiles::kStagedMixed>();
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
