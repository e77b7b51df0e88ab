// The router, compiled once per target.

#include "monotile/kernels/moe/router.hpp"
#include "ops/moe/variants.hpp"
#include "ops/register_kernel.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

using namespace monotile::ops;  // NOLINT

namespace {

template <class X, uint32_t Layout>
void register_layout() {
  constexpr int kResident = Layout == kExperts512 ? 512 : 1024;  // twice the experts a lane: twice the registers
  register_bounded<kernels::Router<X, router_layout<Layout>>, 256, kResident>("moe_router",
                                                                              variant_of(dtype_of<X>, Layout));
}

template <class X>
void register_layouts() {
  register_layout<X, kExperts128>();
  if constexpr (lang::kHasLanes) {
    register_layout<X, kExperts256>();
    register_layout<X, kExperts512>();
    register_layout<X, lang::kTarget == Target::spirv ? kExpertsWave : kExpertsBlock>();
  }
}

}  // namespace

void register_kernels_router() {
  register_layouts<float>();
  register_layouts<half_t>();
  register_layouts<bfloat16_t>();
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
