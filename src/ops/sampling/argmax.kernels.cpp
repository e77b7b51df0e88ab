// Argmax, compiled once per target.

#include "monotile/kernels/sampling/argmax.hpp"
#include "ops/register_kernel.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

using namespace monotile::ops;  // NOLINT

namespace {

template <class X, uint32_t Layout>
void register_layout() {
  register_bounded<kernels::Argmax<X, row_layout<Layout>>, row_layout<Layout>::streaming ? 1024 : 512, 1024>(
      "argmax", variant_of(dtype_of<X>, Layout));
}

template <class X>
void register_layouts() {
  register_layout<X, kBlock1>();
  if constexpr (lang::kHasLanes) register_layout<X, kBlock2>();
  if constexpr (lang::kTarget == Target::spirv) {
    register_layout<X, kWide>();
  } else if constexpr (lang::kHasLanes) {
    register_bounded<kernels::ArgmaxChunk<X, row_layout<kBlock2>>, 256, 1024>("argmax_chunk",
                                                                              variant_of(dtype_of<X>, kBlock2));
    register_bounded<kernels::ArgmaxChunk<X, row_layout<kExact + kBlock2>>, 256, 1024>(
        "argmax_chunk", variant_of(dtype_of<X>, kExact + kBlock2));
    register_bounded<kernels::ArgmaxRow<X, row_layout<kBlock1>>, 64, 512>("argmax_row", variant_of(dtype_of<X>, 0));
  }
}

}  // namespace

void register_kernels_argmax() {
  register_layouts<float>();
  register_layouts<half_t>();
  register_layouts<bfloat16_t>();
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
