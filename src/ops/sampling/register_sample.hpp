#pragma once
// For sample*.kernels.cpp: the sampling kernel over the row layouts.

#include "monotile/kernels/sampling/sample.hpp"
#include "ops/register_kernel.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

using namespace monotile::ops;  // NOLINT

template <class X, uint32_t Layout>
void register_sample_layout() {
  register_bounded<kernels::Sample<X, row_layout<Layout>>, 512, 512>("sample", variant_of(dtype_of<X>, Layout));
}

template <class X>
void register_sample() {
  register_sample_layout<X, kBlock1>();
  if constexpr (lang::kHasLanes) {
    register_sample_layout<X, kBlock2>();
    register_sample_layout<X, kStream>();
  }
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
