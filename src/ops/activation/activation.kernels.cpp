// Gated activations, compiled once per target.

#include "monotile/kernels/activation/gated_activation.hpp"
#include "ops/register_kernel.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

using namespace monotile::ops;  // NOLINT

namespace {

template <class X, uint32_t Layout>
void register_layout() {
  using L = row_layout<Layout>;
  register_bounded<kernels::GatedActivation<X, L>, 256, L::exact ? 1280 : 1024>("gated_activation",
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

void register_kernels_activation() {
  register_layouts<float>();
  register_layouts<half_t>();
  register_layouts<bfloat16_t>();
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
