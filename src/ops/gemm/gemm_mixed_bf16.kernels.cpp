// Products whose operands become bf16 as they are copied: GGUF weights and fp32 on matrix instructions. Compiled once per target.

#include "ops/gemm/register_tiles.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

void register_kernels_gemm_mixed_bf16() {
  register_tiles<lang::converted<bfloat16_t>, tiles::kRingMixed, tiles::kStagedMixed>();
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
