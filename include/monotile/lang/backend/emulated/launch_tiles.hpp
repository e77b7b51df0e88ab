#pragma once
// Launching matrix kernels on the emulated GPUs: the ring of NVIDIA's on 32 lanes, the staged schedule of AMD's on 64.

#include "monotile/lang/backend/emulated/launch.hpp"
#include "monotile/lang/backend/emulated/mma.hpp"
#include "monotile/lang/backend/simt/ring.hpp"

namespace monotile::lang::inline MONOTILE_TARGET_NAME {

inline constexpr bool kHasWarpgroups = false;
inline constexpr bool kHasRing = kWave == 32, kHasMfma = kWave == 64;
inline constexpr bool kHasTf32 = kWave == 32;

template <class Cfg, class Stage, class Load, class Compute, class Finish>
MT_FN void mainloop(Context& ctx, const tile_space& space, Load load, Compute compute, Finish finish) {
  if constexpr (Cfg::kind == schedule::staged) {
    staged_mainloop<Cfg, Stage>(ctx, space, load, compute, finish);
  } else {
    ring_mainloop<Cfg, Stage>(ctx, space, load, compute, finish);
  }
}

template <class K, class Params>
void launch_tiles(Stream& stream, const Grid& grid, const Params& params) {
  launch_ring<K>(stream, grid, params);
}

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME
