// Products with plain weights, and the casts of activations; compiled once per target.

#include "ops/gemm/register_dots.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

namespace {

template <class T>
void register_casts(dots::Activations from) {
  using Params = kernels::CastRowsParams<T>;
  register_kernel("gemm.to_int8", lang::kTarget, from,
                  erase<Params>(&lang::launch<kernels::RowsToInt8<T, DotLayout>, Params>));
  if constexpr (!lang::kHasLanes) {
    register_kernel("gemm.to_float", lang::kTarget, from,
                    erase<Params>(&lang::launch<kernels::RowsToFloat<T, DotLayout>, Params>));
  }
}

}  // namespace

void register_kernels_gemm() {
  register_weights<lang::view<const float>>(DType::f32);
  register_weights<lang::view<const half_t>>(DType::f16);
  register_weights<lang::view<const bfloat16_t>>(DType::bf16);
  register_casts<float>(dots::as_f32);
  register_casts<half_t>(dots::as_f16);
  register_casts<bfloat16_t>(dots::as_bf16);
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
