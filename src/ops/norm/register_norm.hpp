#pragma once
// How the norm kernels are instantiated: shared by norm.kernels.cpp and add_norm.kernels.cpp, two files to keep each compile short.

#include "monotile/kernels/norm/rms_norm.hpp"
#include "ops/norm/variants.hpp"
#include "ops/register_kernel.hpp"
#include "ops/row_layouts.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

using namespace monotile::ops;  // NOLINT

template <class X, class R, bool Residual, uint32_t Layout, class G = void>
void register_layout(norm::Types types) {
  using L = norm::layout<Layout>;
  // Twice as many loads wait for a residual, or for gamma in fp32.
  constexpr int kResident = Layout == kBlock2 ? (sizeof(R) == 2 ? 1024 : 512)
                            : L::vectors == 4 && (Residual || !std::is_same_v<G, X>)
                                ? 512
                                : resident_row_threads<L>(sizeof(R));
  register_bounded<kernels::RmsNorm<X, R, L, Residual, G>, Layout == kBlock2 ? 512 : max_row_threads<L>(), kResident>(
      Residual ? "add_rms_norm" : "rms_norm", norm::variant(types, norm::layout_for<X, G>(Layout)));
}

template <class X, class R, bool Residual>
void register_layouts(norm::Types types) {
  if constexpr (lang::kTarget == Target::spirv) {  // few shapes: compiles_on_use in ops/row_layouts.hpp
    register_layout<X, R, Residual, kRows32>(types);
    register_layout<X, R, Residual, kStream>(types);
  } else if constexpr (lang::kHasLanes) {
    register_layout<X, R, Residual, kExact + kRows16, X>(types);
    register_layout<X, R, Residual, kExact + kRows32, X>(types);
    register_layout<X, R, Residual, kExact + kBlock2, X>(types);
    register_layout<X, R, Residual, kExact + kBlock4, X>(types);
    register_layout<X, R, Residual, kExact + kStream, X>(types);
    if constexpr (!std::is_same_v<X, float>) {
      register_layout<X, R, Residual, kExact + kBlock2, float>(types);
      register_layout<X, R, Residual, kExact + kBlock4, float>(types);
    }
    register_layout<X, R, Residual, kRows32>(types);
    register_layout<X, R, Residual, kBlock2>(types);
    register_layout<X, R, Residual, kStream>(types);
  } else {
    register_layout<X, R, Residual, 0>(types);
  }
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
