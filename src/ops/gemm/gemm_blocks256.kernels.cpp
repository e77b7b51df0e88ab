// Products with GGUF blocks of 256 elements; compiled once per target.

#include "ops/gemm/register_dots.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

void register_kernels_gemm_blocks256() {
  register_weights<lang::quant_view<DType::q4_k>>(DType::q4_k);
  register_weights<lang::quant_view<DType::q6_k>>(DType::q6_k);
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
