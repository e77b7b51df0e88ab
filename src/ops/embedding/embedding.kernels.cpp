// Embedding lookup, compiled once per target.

#include "monotile/kernels/embedding/embedding.hpp"
#include "ops/register_kernel.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

using namespace monotile::ops;  // NOLINT

namespace {

template <class Table>
void register_outputs(DType table) {
  register_bounded<kernels::Embedding<float, Table, row_layout<kBlock1>>, 256, 2048>("embedding",
                                                                                     variant_of(table, DType::f32, 0));
  register_bounded<kernels::Embedding<half_t, Table, row_layout<kBlock1>>, 256, 2048>("embedding",
                                                                                      variant_of(table, DType::f16, 0));
  register_bounded<kernels::Embedding<bfloat16_t, Table, row_layout<kBlock1>>, 256, 2048>(
      "embedding", variant_of(table, DType::bf16, 0));
}

}  // namespace

void register_kernels_embedding() {
  register_outputs<lang::view<const float>>(DType::f32);
  register_outputs<lang::view<const half_t>>(DType::f16);
  register_outputs<lang::view<const bfloat16_t>>(DType::bf16);
  register_outputs<lang::quant_view<DType::q4_0>>(DType::q4_0);
  register_outputs<lang::quant_view<DType::q5_0>>(DType::q5_0);
  register_outputs<lang::quant_view<DType::q8_0>>(DType::q8_0);
  register_outputs<lang::quant_view<DType::q4_k>>(DType::q4_k);
  register_outputs<lang::quant_view<DType::q6_k>>(DType::q6_k);
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
