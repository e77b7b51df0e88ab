// Products of few rows of f16 with GGUF blocks by matrix instructions; compiled once per target that has them.

#include "ops/gemm/register_dots.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

void register_kernels_gemm_block_dots_f16() { register_block_dots<half_t>(dots::as_f16); }

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
