// Bias, activation and residual in one, compiled once per target.

#include "monotile/kernels/activation/bias_activation.hpp"
#include "ops/register_kernel.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

using namespace monotile::ops;  // NOLINT

namespace {

template <class X, uint32_t Layout>
void register_layout() {
  register_bounded<kernels::BiasActivation<X, row_layout<Layout>>, 256, 1024>("bias_activation",
                                                                              variant_of(dtype_of<X>, Layout));
}

template <class X>
void register_layouts() {
  register_layout<X, kRows16>();
  if constexpr (lang::kHasLanes) {
    register_layout<X, kBlock1>();
    register_layout<X, kExact + kBlock1>();
  }
}

}  // namespace

void register_kernels_bias_activation() {
  register_layouts<float>();
  register_layouts<half_t>();
  register_layouts<bfloat16_t>();
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
