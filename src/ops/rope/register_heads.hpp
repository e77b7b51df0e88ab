#pragma once
// How the kernel on heads is instantiated: two files keep each compile short.

#include "monotile/kernels/rope/head_rows.hpp"
#include "ops/register_kernel.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

using namespace monotile::ops;  // NOLINT

/// Half a head to a lane group. Angles and gamma wait beside the head, which takes up to 72 registers, of fp32 80.
template <class X, uint32_t Layout>
void register_halves() {
  register_bounded<kernels::HeadRows<X, head_layout<kExactHeads + Layout>, true>, 128, sizeof(X) == 4 ? 768 : 896>(
      "head_rows", variant_of(dtype_of<X>, kExactHeads + Layout));
}

template <class X>
void register_heads() {
  register_bounded<kernels::HeadRows<X, head_layout<kHeads16>>, 128, 1024>("head_rows",
                                                                           variant_of(dtype_of<X>, kHeads16));
  if constexpr (lang::kHasLanes && lang::kTarget != Target::spirv) {
    register_halves<X, kHeads4>();
    register_halves<X, kHeads8>();
    register_halves<X, kHeads16>();
  }
  if constexpr (lang::kHasLanes) {
    register_bounded<kernels::HeadRows<X, head_layout<kHeads32>>, 128, 1024>("head_rows",
                                                                             variant_of(dtype_of<X>, kHeads32));
  }
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
