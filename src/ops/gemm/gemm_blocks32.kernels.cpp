// Products with GGUF blocks of 32 elements; compiled once per target.

#include "ops/gemm/register_dots.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

void register_kernels_gemm_blocks32() {
  register_weights<lang::quant_view<DType::q4_0>>(DType::q4_0);
  register_weights<lang::quant_view<DType::q5_0>>(DType::q5_0);
  register_weights<lang::quant_view<DType::q8_0>>(DType::q8_0);
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
