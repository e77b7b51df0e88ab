// Softmax with a mask, compiled once per target.

#include "monotile/kernels/softmax/masked_softmax.hpp"
#include "ops/softmax/register_softmax.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

using namespace monotile::ops;  // NOLINT

namespace {

template <class Y, class X, uint32_t Layout>
void register_layout() {
  using L = row_layout<Layout>;
  register_bounded<kernels::MaskedSoftmax<Y, X, L>, max_row_threads<L>(), 1024>(
      "masked_softmax", variant_of(dtype_of<X>, dtype_of<Y>, Layout));
}

template <class Y, class X>
void register_layouts() {
  if constexpr (lang::kHasLanes) {
    register_layout<Y, X, kRows32>();
    register_layout<Y, X, kBlock2>();
    register_layout<Y, X, kStream>();
  } else {
    register_layout<Y, X, 0>();
  }
}

}  // namespace

void register_kernels_masked_softmax() {
  each_softmax_type([]<class Y, class X>() { register_layouts<Y, X>(); });
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
