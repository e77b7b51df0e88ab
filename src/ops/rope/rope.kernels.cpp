// Rotary embedding, compiled once per target.

#include "monotile/kernels/rope/rope.hpp"
#include "ops/register_kernel.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

using namespace monotile::ops;  // NOLINT

namespace {

template <class X, uint32_t Layout>
void register_layout() {
  register_bounded<kernels::Rope<X, head_layout<Layout>>, 128, 1024>("rope", variant_of(dtype_of<X>, Layout));
}

template <class X>
void register_layouts() {
  if constexpr (lang::kHasLanes) {
    register_layout<X, kExactHeads + kHeads4>();
    register_layout<X, kExactHeads + kHeads8>();
    register_layout<X, kExactHeads + kHeads16>();
    register_layout<X, kExactHeads + kHeads32>();
    register_layout<X, kHeads16>();
    register_layout<X, kHeadsStream>();
  } else {
    register_layout<X, 0>();
  }
}

}  // namespace

void register_kernels_rope() {
  register_layouts<float>();
  register_layouts<half_t>();
  register_layouts<bfloat16_t>();
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
