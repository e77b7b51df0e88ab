#pragma once
// How products by tiles are instantiated: shared by gemm_tiles_*.kernels.cpp, several files to keep each compile
// short.

#include <type_traits>

#include "monotile/kernels/gemm/gemm_tiles.hpp"
#include "monotile/lang/converted.hpp"
#include "ops/gemm/tile_configs.hpp"
#include "ops/row_layouts.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

using namespace monotile::ops;  // NOLINT

/// Does this target have what a configuration needs?
constexpr bool builds(lang::schedule kind) {
  switch (kind) {
    case lang::schedule::plain: return !lang::kHasLanes;
    case lang::schedule::ring: return lang::kHasRing;
    case lang::schedule::staged: return lang::kHasMfma;
    default: return lang::kHasWarpgroups;
  }
}

/// Does the target want tiles of this shape? Targets that do not say take all.
template <class Tile>
constexpr bool suits() {
  if constexpr (requires { Tile::suits; }) return Tile::suits;
  return true;
}

/// Has it instructions for operands of this type?
template <class T>
constexpr bool multiplies() {
  return !std::is_same_v<T, lang::converted<lang::tf32_t>> || lang::kHasTf32;
}

/// What the library's own products end with: codes have factors of rows and columns.
template <class T, uint32_t C>
using epilogue_of = std::conditional_t<
    tiles::lies_across(C), std::conditional_t<sizeof(T) == 1, kernels::ScaledAcrossEpilogue, kernels::AcrossEpilogue>,
    std::conditional_t<sizeof(T) == 1, kernels::ScaledEpilogue, kernels::AffineEpilogue>>;

/// By configuration.
template <class T, bool Gated, uint32_t... Configs>
void register_tiles_with() {
  const auto one = []<uint32_t C>() {
    if constexpr (builds(tiles::config_at<C>::kind) && multiplies<T>()) {
      using Epilogue = std::conditional_t<Gated, kernels::GatedEpilogue, epilogue_of<T, C>>;
      using K = kernels::GemmTiles<tiles::config_at<C>, T, Epilogue>;
      using Params = typename K::Params;
      if constexpr (suits<decltype(K::Stage::a)>()) {
        register_kernel(tiles::kernel_name(C, Gated), lang::kTarget, tiles::variant(dtype_of<T>, C),
                        erase<Params>(&lang::launch_tiles<K, Params>));
      }
    }
  };
  (one.template operator()<Configs>(), ...);
}
template <class T, uint32_t... Configs>
void register_tiles() {
  register_tiles_with<T, false, Configs...>();
}
/// With an activation: needs gemm_gated.hpp.
template <class T, uint32_t... Configs>
void register_gated_tiles() {
  register_tiles_with<T, true, Configs...>();
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
