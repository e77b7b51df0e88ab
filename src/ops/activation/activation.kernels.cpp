// Gated activations, compiled once per target.

#include "monotile/kernels/activation/gated_activation.hpp"
#include "ops/register_kernel.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

using namespace monotile::ops;  // NOLINT

namespace {

template <class X, uint32_t Layout>
void register_layout() {
  using L = row_layout<Layout>;
  // H200, 2026-11-30, 16384 x 11008 fp16: 247.9 us with 2,048 lanes resident, 272.6 with 1,280.
  constexpr int kResident = !L::exact ? 1024 : sizeof(X) == 2 ? 2048 : 1280;
  register_bounded<kernels::GatedActivation<X, L>, 256, kResident>("gated_activation", variant_of(dtype_of<X>, Layout));
}

template <class X>
void register_layouts() {
  register_layout<X, kRows16>();
  if constexpr (lang::kHasLanes) {
    register_layout<X, kBlock1>();
    register_layout<X, kExact + kBlock1>();
  }
}

}  // namespace

void register_kernels_activation() {
  register_layouts<float>();
  register_layouts<half_t>();
  register_layouts<bfloat16_t>();
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
