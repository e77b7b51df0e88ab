// Rotary embedding, compiled once per target.

#include "monotile/kernels/rope/rope.hpp"
#include "ops/register_kernel.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

using namespace monotile::ops;  // NOLINT

namespace {

template <class X, uint32_t Layout = 0>
void register_layouts() {
  if constexpr (Layout == 0 || (lang::kHasLanes && Layout < kHeadLayouts)) {
    register_bounded<kernels::Rope<X, head_layout<Layout>>, 128>("rope", variant_of(dtype_of<X>, Layout));
    register_layouts<X, Layout + 1>();
  }
}

}  // namespace

void register_kernels_rope() {
  register_layouts<float>();
  register_layouts<half_t>();
  register_layouts<bfloat16_t>();
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
