// Softmax, compiled once per target.

#include "monotile/kernels/softmax/softmax.hpp"
#include "ops/register_kernel.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

using namespace monotile::ops;  // NOLINT

namespace {

template <class Y, class X, uint32_t Layout = 0>
void register_layouts() {
  if constexpr (Layout == 0 || (lang::kHasLanes && Layout < kRowLayouts)) {
    using L = row_layout<Layout>;
    register_bounded<kernels::Softmax<Y, X, L>, max_row_threads<L>()>("softmax", variant_of(dtype_of<X>, dtype_of<Y>, Layout));
    register_layouts<Y, X, Layout + 1>();
  }
}

}  // namespace

void register_kernels_softmax() {
  register_layouts<float, float>();
  register_layouts<half_t, half_t>();
  register_layouts<bfloat16_t, bfloat16_t>();
  register_layouts<float, half_t>();
  register_layouts<float, bfloat16_t>();
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
