// Softmax, compiled once per target.

#include "monotile/kernels/softmax/softmax.hpp"
#include "ops/softmax/register_softmax.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

using namespace monotile::ops;  // NOLINT

namespace {

template <class Y, class X, uint32_t Layout>
void register_layout() {
  using L = row_layout<Layout>;
  constexpr int kMost = L::streaming ? 1024 : max_row_threads<L>();
  register_bounded<kernels::Softmax<Y, X, L>, kMost, L::streaming ? 1024 : resident_row_threads<L>(sizeof(X))>(
      "softmax", variant_of(dtype_of<X>, dtype_of<Y>, Layout));
}
template <class Y, class X, uint32_t Layout>
void register_staged() {
  using K = kernels::Softmax<Y, X, row_layout<Layout>, true>;
  constexpr int kResident = row_layout<Layout>::exact && sizeof(X) == 2 ? 1536 : 1024;
  register_bounded<K, 512, kResident>("softmax_staged", variant_of(dtype_of<X>, dtype_of<Y>, Layout));
}

template <class Y, class X>
void register_layouts() {
  if constexpr (lang::kTarget == Target::spirv) {  // few shapes: compiles_on_use in ops/row_tiles.hpp
    register_layout<Y, X, kRows32>();
    register_layout<Y, X, kWide>();
    register_staged<Y, X, kStream>();
  } else if constexpr (lang::kHasLanes) {
    register_layout<Y, X, kExact + kRows4x4>();
    register_layout<Y, X, kExact + kRows8x4>();
    register_layout<Y, X, kExact + kRows32x4>();
    register_layout<Y, X, kExact + kBlock4>();
    register_staged<Y, X, kExact + kStream>();
    register_layout<Y, X, kRows32>();
    register_layout<Y, X, kBlock2>();
    register_staged<Y, X, kStream>();
  } else {
    register_layout<Y, X, 0>();
  }
}

}  // namespace

void register_kernels_softmax() {
  each_softmax_type([]<class Y, class X>() { register_layouts<Y, X>(); });
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
