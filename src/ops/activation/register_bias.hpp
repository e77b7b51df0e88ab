#pragma once
// How bias, activation and residual in one are instantiated: two files keep each compile short.

#include "monotile/kernels/activation/bias_activation.hpp"
#include "ops/register_kernel.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

using namespace monotile::ops;  // NOLINT

template <class X, uint32_t Layout>
void register_bias_layout() {
  constexpr int kResident = Layout != kExact + kBlock2 ? 1024 : sizeof(X) == 2 ? 1280 : 768;
  register_bounded<kernels::BiasActivation<X, row_layout<Layout>>, 256, kResident>("bias_activation",
                                                                                   variant_of(dtype_of<X>, Layout));
}

template <class X>
void register_bias() {
  register_bias_layout<X, kRows16>();
  if constexpr (lang::kHasLanes) {
    register_bias_layout<X, kBlock1>();
    register_bias_layout<X, kExact + kBlock1>();
    register_bias_layout<X, kExact + kBlock2>();
  }
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
