#pragma once
// Launching matrix kernels on the emulated sm_90a: the text of the chip's loops.

#include "monotile/lang/backend/emulated/launch.hpp"
#include "monotile/lang/backend/emulated/sm90/wgmma.hpp"
#include "monotile/lang/backend/simt/launch_warpgroups.hpp"

namespace monotile::lang::inline MONOTILE_TARGET_NAME {

inline constexpr bool kHasWarpgroups = true;
inline constexpr bool kHasRing = false, kHasMfma = false, kHasTf32 = false;

namespace hopper {

/// Clusters one after the other on each thread of the host.
template <class K, class Params>
void launch_clusters(const placement& where, const Params& params) {
  const int64_t clusters = where.grid.programs / where.cluster;
  struct Work {
    const placement& where;
    const Params& params;
  } work{where, params};
  parallel_for(
      clusters, 1,
      [](const void* context, int64_t begin, int64_t end, int) {
        const auto& w = *static_cast<const Work*>(context);
        const Grid& grid = w.where.grid;
        for (int64_t i = begin; i < end; ++i) {
          emulated::run_cluster(i * w.where.cluster, grid.programs, w.where.cluster, grid.threads, grid.scratch_bytes,
                                [&](const emulated::LanePlace& at) {
                                  Context ctx{at.program, grid.threads, nullptr, at.scratch};
                                  ctx.first_thread = at.thread;
                                  K::run(ctx, w.params);
                                });
        }
      },
      &work);
}

}  // namespace hopper

template <class K, class Params>
void launch_tiles(Stream&, const Grid& grid, const Params& params) {
  using Cfg = typename K::Config;
  Params bound = params;
  K::bind(hopper::map_binder<Cfg>{}, bound);
  hopper::launch_clusters<K>(hopper::place_tiles<K>(grid, params), bound);
}

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME
