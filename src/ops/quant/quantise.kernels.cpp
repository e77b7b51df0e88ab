// Quantisation, compiled once per target.

#include "monotile/kernels/quant/quantise.hpp"
#include "monotile/kernels/quant/block_scales.hpp"
#include "monotile/kernels/quant/quantise_int4.hpp"
#include "ops/register_kernel.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

using namespace monotile::ops;  // NOLINT

namespace {

template <class X, uint32_t Layout>
void register_layout() {
  using L = row_layout<Layout>;
  register_bounded<kernels::Quantise<X, L, false>, max_row_threads<L>(), resident_row_threads<L>(sizeof(X))>(
      "quantise", variant_of(dtype_of<X>, Layout));
}

template <class X>
void register_all() {
  if constexpr (lang::kTarget == Target::spirv) {  // few shapes: compiles_on_use in ops/row_tiles.hpp
    register_layout<X, kRows32>();
    register_layout<X, kStream>();
  } else if constexpr (lang::kHasLanes) {
    register_layout<X, kExact + kRows4x4>();
    register_layout<X, kExact + kRows8x4>();
    register_layout<X, kExact + kRows32x4>();
    register_layout<X, kExact + kBlock4>();
    register_layout<X, kExact + kStream>();
    register_layout<X, kRows32>();
    register_layout<X, kBlock2>();
    register_layout<X, kStream>();
  } else {
    register_layout<X, 0>();
  }
  register_bounded<kernels::BlockScales<X, row_layout<kRows16>>, 256, 1024>("block_scales", variant_of(dtype_of<X>, 0));
  register_bounded<kernels::QuantiseInt4<X, row_layout<kRows16>>, 128, 1024>("quantise_int4",
                                                                             variant_of(dtype_of<X>, kRows16));
  if constexpr (lang::kHasLanes) {
    register_bounded<kernels::QuantiseInt4<X, row_layout<kRows32>>, 128, 1024>("quantise_int4",
                                                                               variant_of(dtype_of<X>, kRows32));
  }
}

}  // namespace

void register_kernels_quantise() {
  register_all<float>();
  register_all<half_t>();
  register_all<bfloat16_t>();
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
