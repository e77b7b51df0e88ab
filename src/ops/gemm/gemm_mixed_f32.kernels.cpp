// Products whose operands become fp32 as they are copied: every mix of types and every form on GPUs. Compiled once per target.

#include "ops/gemm/register_tiles.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

void register_kernels_gemm_mixed_f32() { register_tiles<lang::converted<float>, tiles::kRingF32, tiles::kStagedF32>(); }

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
