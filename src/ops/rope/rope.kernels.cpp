// Rotary embedding, compiled once per target.

#include "monotile/kernels/rope/rope.hpp"
#include "ops/register_kernel.hpp"
#include "ops/rope/variants.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

using namespace monotile::ops;  // NOLINT

namespace {

template <class X, uint32_t Layout>
void register_layout() {
  register_bounded<kernels::Rope<X, head_layout<Layout>>, 128, 1024>("rope", variant_of(dtype_of<X>, Layout));
}
template <class X, uint32_t Layout>
void register_groups() {
  register_layout<X, kExactHeads + Layout>();
  register_bounded<kernels::Rope<X, head_layout<kExactHeads + Layout>, rope_kernels::heads_of_group(dtype_of<X>)>, 128, 640>(
      "rope", variant_of(dtype_of<X>, rope_kernels::kGroups + Layout));
}

template <class X>
void register_layouts() {
  if constexpr (lang::kHasLanes) {
    register_groups<X, kHeads4>();
    register_groups<X, kHeads8>();
    register_groups<X, kHeads16>();
    register_groups<X, kHeads32>();
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
