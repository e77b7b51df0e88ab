#pragma once
// Launching matrix kernels on NVIDIA: tensor maps are encoded as the kernel's `bind` says, clusters and shared memory
// follow from its configuration.

#include "monotile/lang/backend/cuda/launch.hpp"
#include "monotile/lang/backend/cuda/warpgroups.hpp"

namespace monotile::lang::inline MONOTILE_TARGET_NAME {

/// This target has warpgroup instructions, tensor maps and clusters.
inline constexpr bool kHasWarpgroups = kTarget == Target::cuda_sm90;
inline constexpr bool kHasRing = true, kHasMfma = false;

template <class Cfg, class Stage, class Load, class Compute, class Finish>
MT_DEVICE void mainloop(Context& ctx, const tile_space& space, Load load, Compute compute, Finish finish) {
  if constexpr (Cfg::kind == schedule::ring) {
    ring_mainloop<Cfg, Stage>(ctx, space, load, compute, finish);
  } else if constexpr (Cfg::kind == schedule::split) {
    split_mainloop<Cfg, Stage>(ctx, space, load, compute, finish);
  } else {
    warpgroup_mainloop<Cfg, Stage>(ctx, space, load, compute, finish);
  }
}

namespace hopper {

/// Given to a kernel's `bind`: which matrix is copied into which kind of tile.
template <class Cfg>
struct map_binder {
  template <class T, int R, int C, along A>
  void operand(matrix_view& v, const smem_tile<T, R, C, A>*) const {
    cuda::encode_map(v, A == along::n ? R / Cfg::cluster : R);
  }
  void result(matrix_view& v) const {
    if (v.vectors && v.dtype != DType::f32) cuda::encode_map(v, 16);
  }
};

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
    using Stage = typename K::Stage;
    constexpr bool kSplit = Cfg::kind == schedule::split;
    constexpr size_t kBytes = (kSplit ? sizeof(split_memory<Cfg, Stage>) : sizeof(warpgroup_memory<Cfg, Stage>)) + 1024;
    static_assert(kBytes <= 227 * 1024, "shared memory of a program on sm_90");
    const int cluster = kSplit ? params.tiles.split : Cfg::cluster;
    int64_t clusters = tile_count<Cfg>(params.tiles);
    if (!kSplit && grid.programs > 0) {
      clusters = clusters < grid.programs / cluster ? clusters : grid.programs / cluster;
    }
    const Grid launched{clusters * cluster, warpgroup_traits<Cfg>::threads, kBytes};
    static cuda::Launchable kernel{.entry = reinterpret_cast<const void*>(&hopper::warpgroup_entry<K, Params>)};
    cuda::launch(stream, kernel, launched, &bound, cluster);
  }
}

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME
