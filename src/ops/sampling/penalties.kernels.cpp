// Penalties and biases, compiled once per target.

#include "monotile/kernels/sampling/penalties.hpp"
#include "ops/register_kernel.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

using namespace monotile::ops;  // NOLINT

namespace {

template <class X>
void register_penalties() {
  register_bounded<kernels::Penalise<X>, 256, 768>("apply_penalties", variant_of(dtype_of<X>, 0));
  if constexpr (lang::kHasLanes)
    register_bounded<kernels::PenaliseFew<X>, 1024, 1024>("apply_penalties", variant_of(dtype_of<X>, 1));
}

}  // namespace

void register_kernels_penalties() {
  register_penalties<float>();
  register_penalties<half_t>();
  register_penalties<bfloat16_t>();
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
