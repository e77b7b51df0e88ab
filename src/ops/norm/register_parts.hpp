#pragma once
// How the norms with more to them are instantiated: several files keep each compile short.

#include "monotile/kernels/norm/layer_norm.hpp"
#include "monotile/kernels/norm/rms_norm_quantise.hpp"
#include "ops/norm/variants.hpp"
#include "ops/register_kernel.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

using namespace monotile::ops;  // NOLINT

template <template <class, class, class, class> class Kernel, class X, class R, uint32_t Layout, class G = void>
void register_norm_layout(const char* name, norm::Types types) {
  using L = norm::layout<Layout>;
  constexpr int kUsual = resident_row_threads<L>();
  // H200: a row of two vectors a lane in 40 registers, so that 48 waves share a multiprocessor (docs/notes/row-operators-h200.md).
  constexpr bool kLight = std::is_same_v<Kernel<X, R, L, G>, kernels::LayerNorm<X, R, L, G>> && L::exact &&
                          L::vectors == 2 && std::is_same_v<G, X> && sizeof(R) == 2;
  constexpr int kResident = kLight              ? 1536
                            : Layout == kBlock2 ? (sizeof(R) == 2 ? 1024 : 512)
                            : L::vectors == 4   ? 512
                            : kUsual < 1024     ? kUsual
                                                : 1024;
  register_bounded<Kernel<X, R, L, G>, Layout == kBlock2 ? 512 : max_row_threads<L>(), kResident>(
      name, norm::variant(types, norm::layout_for<X, G>(Layout)));
}

template <template <class, class, class, class> class Kernel, class X, class R>
void register_norm(const char* name, norm::Types types) {
  if constexpr (lang::kTarget == Target::spirv) {  // few shapes: compiles_on_use in ops/row_tiles.hpp
    register_norm_layout<Kernel, X, R, kRows32>(name, types);
    register_norm_layout<Kernel, X, R, kStream>(name, types);
  } else if constexpr (lang::kHasLanes) {
    register_norm_layout<Kernel, X, R, kExact + kBlock2, X>(name, types);
    register_norm_layout<Kernel, X, R, kExact + kBlock4, X>(name, types);
    if constexpr (!std::is_same_v<X, float>) {
      register_norm_layout<Kernel, X, R, kExact + kBlock2, float>(name, types);
      register_norm_layout<Kernel, X, R, kExact + kBlock4, float>(name, types);
    }
    register_norm_layout<Kernel, X, R, kRows32>(name, types);
    register_norm_layout<Kernel, X, R, kBlock2>(name, types);
    register_norm_layout<Kernel, X, R, kStream>(name, types);
  } else {
    register_norm_layout<Kernel, X, R, 0>(name, types);
    register_norm_layout<Kernel, X, R, norm::kSameGamma, X>(name, types);
  }
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
