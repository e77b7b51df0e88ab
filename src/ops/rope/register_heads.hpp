#pragma once
// How the kernel on heads is instantiated: two files keep each compile short.

#include "monotile/kernels/rope/head_rows.hpp"
#include "ops/register_kernel.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

using namespace monotile::ops;  // NOLINT

template <class X>
void register_heads() {
  register_bounded<kernels::HeadRows<X, head_layout<kHeads16>>, 128, 1024>("head_rows",
                                                                           variant_of(dtype_of<X>, kHeads16));
  if constexpr (lang::kHasLanes && lang::kTarget != Target::spirv) {
    register_bounded<kernels::HeadRows<X, head_layout<kExactHeads + kHeads4>, true>, 128, 1024>(
        "head_rows", variant_of(dtype_of<X>, kExactHeads + kHeads4));
    register_bounded<kernels::HeadRows<X, head_layout<kExactHeads + kHeads8>, true>, 128, 1024>(
        "head_rows", variant_of(dtype_of<X>, kExactHeads + kHeads8));
    register_bounded<kernels::HeadRows<X, head_layout<kExactHeads + kHeads16>, true>, 128, 1024>(
        "head_rows", variant_of(dtype_of<X>, kExactHeads + kHeads16));
  }
  if constexpr (lang::kHasLanes) {
    register_bounded<kernels::HeadRows<X, head_layout<kHeads32>>, 128, 1024>("head_rows",
                                                                             variant_of(dtype_of<X>, kHeads32));
  }
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
