// Softmax of long rows, compiled once per target with lanes: elsewhere a row is one program's work.

#include "monotile/kernels/softmax/long_softmax.hpp"
#include "ops/softmax/register_softmax.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

using namespace monotile::ops;  // NOLINT

namespace {

template <class Y, class X, uint32_t Layout>
void register_layout() {
  using L = row_layout<Layout>;
  register_bounded<kernels::SoftmaxChunk<Y, X, L>, 256, 1024>("softmax_chunk",
                                                              variant_of(dtype_of<X>, dtype_of<Y>, Layout));
  register_bounded<kernels::SoftmaxRest<Y, X, L>, 256, 1024>("softmax_rest",
                                                             variant_of(dtype_of<X>, dtype_of<Y>, Layout));
}

template <class Y, class X>
void register_layouts() {
  if constexpr (lang::kHasLanes && lang::kTarget != Target::spirv) {
    register_layout<Y, X, kExact + kBlock2>();
    register_layout<Y, X, kBlock2>();
  }
}

}  // namespace

void register_kernels_long_softmax() {
  each_softmax_type([]<class Y, class X>() { register_layouts<Y, X>(); });
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
