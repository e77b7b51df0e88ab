#pragma once
// How the norm kernels are instantiated: shared by norm.kernels.cpp and add_norm.kernels.cpp, two files to keep each compile short.

#include "monotile/kernels/norm/rms_norm.hpp"
#include "ops/norm/variants.hpp"
#include "ops/register_kernel.hpp"
#include "ops/row_tiles.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

using namespace monotile::ops;  // NOLINT

template <class X, class R, bool Residual, uint32_t Layout>
void register_layout(norm::Types types) {
  using L = row_layout<Layout>;
  register_bounded<kernels::RmsNorm<X, R, L, Residual>, max_row_threads<L>(), resident_row_threads<L>()>(
      Residual ? "add_rms_norm" : "rms_norm", norm::variant(types, Layout));
}

template <class X, class R, bool Residual>
void register_layouts(norm::Types types) {
  if constexpr (lang::kTarget == Target::spirv) {  // few shapes: compiles_on_use in ops/row_tiles.hpp
    register_layout<X, R, Residual, kRows32>(types);
    register_layout<X, R, Residual, kStream>(types);
  } else if constexpr (lang::kHasLanes) {
    register_layout<X, R, Residual, kExact + kRows16>(types);
    register_layout<X, R, Residual, kExact + kRows32>(types);
    register_layout<X, R, Residual, kExact + kBlock1>(types);
    register_layout<X, R, Residual, kExact + kBlock2>(types);
    register_layout<X, R, Residual, kExact + kStream>(types);
    register_layout<X, R, Residual, kRows32>(types);
    register_layout<X, R, Residual, kBlock2>(types);
    register_layout<X, R, Residual, kStream>(types);
  } else {
    register_layout<X, R, Residual, 0>(types);
  }
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
