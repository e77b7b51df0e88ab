#pragma once
// How the products are instantiated: shared by gemm*.kernels.cpp, several files to keep each compile short.

#include "monotile/kernels/gemm/row_dots.hpp"
#include "ops/gemm/variants.hpp"
#include "ops/register_kernel.hpp"
#include "ops/row_layouts.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

using namespace monotile::ops;  // NOLINT

/// 32 lanes share a row of b, eight elements each per step.
using DotLayout = lang::blocked<8, 1, 32>;

template <class A, class W, int MT>
void register_dots(dots::Activations activations, DType b) {
  using Params = kernels::RowDotsParams<A, W>;
  register_kernel("gemm.row_dots", lang::kTarget, dots::variant(activations, b, MT),
                  erase<Params>(&lang::launch<kernels::RowDots<A, W, DotLayout, MT>, Params>));
}

template <class A, class W>
void register_dots_of(dots::Activations activations, DType b) {
  register_dots<A, W, 1>(activations, b);
  register_dots<A, W, dots::kManyRows>(activations, b);
}

/// All kinds of activations. On CPU 16-bit ones are converted to fp32 beforehand: once, instead of once per group of
/// rows of b.
template <class W>
void register_weights(DType b) {
  register_dots_of<lang::view<const float>, W>(dots::as_f32, b);
  if constexpr (lang::kHasLanes) {
    register_dots_of<lang::view<const half_t>, W>(dots::as_f16, b);
    register_dots_of<lang::view<const bfloat16_t>, W>(dots::as_bf16, b);
  }
  if constexpr (requires { W::block_bytes; }) register_dots_of<lang::int8_rows, W>(dots::as_int8, b);
}

/// By matrix instructions: a row of a, or eight. Two programs on a multiprocessor, 128 registers a lane.
template <class T, DType Q>
void register_blocks(dots::Activations activations) {
  const auto one = [&]<int MT>() {
    register_bounded<kernels::BlockDots<lang::view<const T>, lang::quant_view<Q>, lang::block_rows, MT>, lang::block_rows::lanes,
                     lang::block_rows::lanes * lang::block_rows::programs_at_once>("gemm.block_dots", dots::variant(activations, Q, MT));
  };
  one.template operator()<1>();
  one.template operator()<dots::kManyRows>();
}
template <class T, DType... Q>
void register_all_blocks(dots::Activations activations) {
  if constexpr (lang::kHasBlockRows) (register_blocks<T, Q>(activations), ...);
}
template <class T>
void register_block_dots(dots::Activations activations) {
  register_all_blocks<T, DType::q4_0, DType::q5_0, DType::q8_0, DType::q4_k, DType::q6_k>(activations);
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
