// Rows to the experts and back, compiled once per target.

#include "monotile/kernels/moe/expert_rows.hpp"
#include "ops/register_kernel.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

using namespace monotile::ops;  // NOLINT

namespace {

template <class X, uint32_t Layout>
void register_layout() {
  using L = row_layout<Layout>;
  constexpr int kResident = L::vectors == 2 && sizeof(X) == 4 ? 1024 : 1536;
  const uint32_t variant = variant_of(dtype_of<X>, Layout);
  register_bounded<kernels::Dispatch<X, L>, 256, kResident>("moe_dispatch", variant);
  register_bounded<kernels::Permute<X, L>, 256, kResident>("moe_permute", variant);
  register_bounded<kernels::Combine<X, L>, 256, L::vectors == 2 ? 1024 : kResident>("moe_combine", variant);
}

template <class X>
void register_layouts() {
  register_layout<X, kRows16>();
  if constexpr (lang::kHasLanes) {
    register_layout<X, kBlock1>();
    register_layout<X, kExact + kBlock1>();
    register_layout<X, kExact + kBlock2>();
  }
}

}  // namespace

void register_kernels_expert_rows() {
  register_layouts<float>();
  register_layouts<half_t>();
  register_layouts<bfloat16_t>();
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
