#pragma once
// How kernels of warpgroups are spread, on sm_90a and the emulated one. The backend's encode_map comes first.

#include "monotile/lang/backend/simt/warpgroups.hpp"

namespace monotile::lang::inline MONOTILE_TARGET_NAME {

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
    encode_map(v, A == along::n ? R / Cfg::cluster : R);
  }
  void result(matrix_view& v) const {
    if (v.vectors && dtype_info(v.dtype).block_bytes == 2) encode_map(v, 16);
  }
};

/// What a launch asks for.
struct placement {
  Grid grid;
  int cluster;
};
/// `grid.programs`: at most that many programs share the tiles (0: one per tile).
template <class K, class Params>
placement place_tiles(const Grid& grid, const Params& params) {
  using Cfg = typename K::Config;
  using Stage = typename K::Stage;
  constexpr bool kSplit = Cfg::kind == schedule::split;
  constexpr size_t kBytes = (kSplit ? sizeof(split_memory<Cfg, Stage>) : sizeof(warpgroup_memory<Cfg, Stage>)) + 1024;
  static_assert(kBytes <= 227 * 1024, "shared memory of a program on sm_90");
  const int cluster = kSplit ? params.tiles.split : Cfg::cluster;
  int64_t clusters = tile_count<Cfg>(params.tiles);
  if (!kSplit && grid.programs > 0) {
    clusters = clusters < grid.programs / cluster ? clusters : grid.programs / cluster;
  }
  return {Grid{clusters * cluster, warpgroup_traits<Cfg>::threads, kBytes}, cluster};
}

}  // namespace hopper

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME
