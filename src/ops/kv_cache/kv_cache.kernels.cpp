// Cache append, compiled once per target.

#include <type_traits>

#include "monotile/kernels/kv_cache/kv_append.hpp"
#include "ops/register_kernel.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

using namespace monotile::ops;  // NOLINT

namespace {

template <class X, class C, uint32_t Layout>
void register_layouts() {
  register_bounded<kernels::KvAppend<X, C, head_layout<Layout>>, 128, 1536>(
      "kv_append", variant_of(dtype_of<X>, dtype_of<C>, lang::kHasLanes ? Layout : 0));
  // Exact layouts: rows that move as they are.
  if constexpr (lang::kHasLanes && lang::kTarget != Target::spirv && std::is_same_v<X, C> && Layout < kHeadsStream)
    register_bounded<kernels::KvAppend<X, C, head_layout<kExactHeads + Layout>>, 128, sizeof(X) == 4 ? 1536 : 2048>(
        "kv_append", variant_of(dtype_of<X>, dtype_of<C>, kExactHeads + Layout));
  if constexpr (lang::kHasLanes && Layout + 1 < kHeadLayouts) register_layouts<X, C, Layout + 1>();
}

template <class X>
void register_caches() {
  register_layouts<X, float, kHeads8>();
  register_layouts<X, half_t, kHeads8>();
  register_layouts<X, bfloat16_t, kHeads8>();
}

}  // namespace

void register_kernels_kv_cache() {
  register_caches<float>();
  register_caches<half_t>();
  register_caches<bfloat16_t>();
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
