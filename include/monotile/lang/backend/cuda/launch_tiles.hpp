#pragma once
// Launching matrix kernels on NVIDIA: tensor maps are encoded as the kernel's `bind` says, clusters and shared memory
// follow from its configuration.

#include "monotile/lang/backend/cuda/launch.hpp"
#include "monotile/lang/backend/cuda/wgmma.hpp"

namespace monotile::lang::inline MONOTILE_TARGET_NAME::hopper {
using cuda::encode_map;
}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME::hopper

#include "monotile/lang/backend/simt/launch_warpgroups.hpp"

namespace monotile::lang::inline MONOTILE_TARGET_NAME {

/// This target has warpgroup instructions, tensor maps and clusters.
inline constexpr bool kHasWarpgroups = kTarget == Target::cuda_sm90;
inline constexpr bool kHasRing = true, kHasMfma = false;
inline constexpr bool kHasTf32 = true;

namespace hopper {

template <class K, class Params>
__global__ void __launch_bounds__(warpgroup_traits<typename K::Config>::threads, 1)
    warpgroup_entry(const __grid_constant__ Params p) {
  extern __shared__ __align__(16) unsigned char dynamic_shared[];
  Context ctx{static_cast<int64_t>(blockIdx.x), static_cast<int>(blockDim.x), nullptr, dynamic_shared};
  K::run(ctx, p);
}

}  // namespace hopper

/// `grid.programs`: at most that many programs share the tiles (0: one per tile).
template <class K, class Params>
void launch_tiles(Stream& stream, const Grid& grid, const Params& params) {
  using Cfg = typename K::Config;
  if constexpr (Cfg::kind == schedule::ring) {
    launch_ring<K>(stream, grid, params);
  } else {
    Params bound = params;
    K::bind(hopper::map_binder<Cfg>{}, bound);
    const hopper::placement where = hopper::place_tiles<K>(grid, params);
    static cuda::Launchable kernel{.entry = reinterpret_cast<const void*>(&hopper::warpgroup_entry<K, Params>)};
    cuda::launch(stream, kernel, where.grid, &bound, where.cluster);
  }
}

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME
