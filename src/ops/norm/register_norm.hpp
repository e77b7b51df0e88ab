#pragma once
// How the norm kernels are instantiated: shared by norm.kernels.cpp and add_norm.kernels.cpp, two files to keep each compile short.

#include "monotile/kernels/norm/rms_norm.hpp"
#include "ops/norm/variants.hpp"
#include "ops/row_tiles.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

using namespace monotile::ops;  // NOLINT

template <class X, class R, uint32_t Layout, bool Residual>
struct BoundedRmsNorm : kernels::RmsNorm<X, R, row_layout<Layout>, Residual> {
  static constexpr int max_threads = max_row_threads<row_layout<Layout>>();
};

template <class X, class R, bool Residual, uint32_t Layout = 0>
void register_layouts(norm::Types types) {
  if constexpr (Layout < (lang::kHasLanes ? static_cast<uint32_t>(kRowLayouts) : 1u)) {
    using Params = kernels::RmsNormParams<X, R>;
    register_kernel(Residual ? "add_rms_norm" : "rms_norm", lang::kTarget, norm::variant(types, Layout),
                    erase<Params>(&lang::launch<BoundedRmsNorm<X, R, Layout, Residual>, Params>));
    register_layouts<X, R, Residual, Layout + 1>(types);
  }
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
