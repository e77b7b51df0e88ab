// Products of fp32 on matrix instructions that round it to tf32. Compiled once per target.

#include "ops/gemm/register_tiles.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

void register_kernels_gemm_mixed_tf32() { register_tiles<lang::converted<lang::tf32_t>, tiles::kRingTf32>(); }

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
