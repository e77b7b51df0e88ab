#pragma once
// How gated activation with quantisation is instantiated: two files keep each compile short.

#include "monotile/kernels/quant/quantise.hpp"
#include "ops/register_kernel.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

using namespace monotile::ops;  // NOLINT

template <class X, uint32_t Layout>
void register_gated_layout() {
  using L = row_layout<Layout>;
  // Three programs of 352 lanes have 56 registers a lane: rows of 11,008 columns. H200, 2026-11-30, a trial: 266 us for 16384 of them, 318 with two.
  constexpr bool kLong = Layout == kExact + kBlock4 && sizeof(X) == 2;
  constexpr bool kFew = Layout == kExact + kBlock2;  // a row of up to 2,048 vectors has a multiprocessor for itself
  constexpr int kMost = kLong ? 576 : kFew ? 1024 : max_row_threads<L>();
  constexpr int kUsual = resident_row_threads<L>(sizeof(X));
  constexpr int kResident = kLong ? 1152 : kUsual < 1024 ? kUsual : 1024;  // two rows are in flight
  register_bounded<kernels::Quantise<X, L, true>, kMost, kResident>("gated_quantise", variant_of(dtype_of<X>, Layout));
}

template <class X>
void register_gated() {
  if constexpr (lang::kHasLanes) {
    register_gated_layout<X, kExact + kRows4x4>();
    register_gated_layout<X, kExact + kBlock1>();
    register_gated_layout<X, kExact + kBlock2>();
    register_gated_layout<X, kExact + kBlock4>();
    register_gated_layout<X, kBlock2>();
    register_gated_layout<X, kStream>();
  } else {
    register_gated_layout<X, 0>();
  }
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
