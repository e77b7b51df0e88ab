// Embedding lookup, compiled once per target.

#include "monotile/kernels/embedding/embedding.hpp"
#include "ops/register_kernel.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

using namespace monotile::ops;  // NOLINT

namespace {

template <class Y, class Table, uint32_t Layout, int Resident>
void register_layout(DType table) {
  register_bounded<kernels::Embedding<Y, Table, row_layout<Layout>>, 256, Resident>(
      "embedding", variant_of(table, dtype_of<Y>, Layout));
}
template <class Table>
void register_outputs(DType table) {
  register_layout<float, Table, kBlock1, 2048>(table);
  register_layout<half_t, Table, kBlock1, 2048>(table);
  register_layout<bfloat16_t, Table, kBlock1, 2048>(table);
}
/// Whole aligned vectors of one type.
template <class T>
void register_exact() {
  if constexpr (lang::kHasLanes) {
    using Table = lang::view<const T>;
    register_layout<T, Table, kExact + kBlock1, 2048>(dtype_of<T>);
    register_layout<T, Table, kExact + kBlock2, sizeof(T) == 2 ? 1536 : 1024>(dtype_of<T>);
  }
}

}  // namespace

void register_kernels_embedding() {
  register_outputs<lang::view<const float>>(DType::f32);
  register_outputs<lang::view<const half_t>>(DType::f16);
  register_outputs<lang::view<const bfloat16_t>>(DType::bf16);
  register_exact<float>();
  register_exact<half_t>();
  register_exact<bfloat16_t>();
  register_outputs<lang::quant_view<DType::q4_0>>(DType::q4_0);
  register_outputs<lang::quant_view<DType::q5_0>>(DType::q5_0);
  register_outputs<lang::quant_view<DType::q8_0>>(DType::q8_0);
  register_outputs<lang::quant_view<DType::q4_k>>(DType::q4_k);
  register_outputs<lang::quant_view<DType::q6_k>>(DType::q6_k);
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
