// Sampling, compiled once per target.

#include "monotile/kernels/sampling/sample.hpp"
#include "ops/register_kernel.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

using namespace monotile::ops;  // NOLINT

namespace {

template <class X, uint32_t Layout>
void register_layout() {
  register_bounded<kernels::Sample<X, row_layout<Layout>>, 512, 512>("sample", variant_of(dtype_of<X>, Layout));
}

template <class X>
void register_layouts() {
  register_layout<X, kBlock1>();
  if constexpr (lang::kHasLanes) {
    register_layout<X, kBlock2>();
    register_layout<X, kStream>();
  }
}

}  // namespace

void register_kernels_sample() {
  register_layouts<float>();
  register_layouts<half_t>();
  register_layouts<bfloat16_t>();
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
