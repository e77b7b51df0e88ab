#pragma once
// Launching matrix kernels on AMD: the staged schedule.

#include "monotile/lang/backend/hip/launch.hpp"
#include "monotile/lang/backend/hip/mma.hpp"
#include "monotile/lang/backend/simt/ring.hpp"

namespace monotile::lang::inline MONOTILE_TARGET_NAME {

inline constexpr bool kHasWarpgroups = false;
inline constexpr bool kHasRing = false, kHasMfma = arch::matrices != hip::arch::matrix::none;
inline constexpr bool kHasTf32 = false;

template <class Cfg, class Stage, class Load, class Compute, class Finish>
MT_FN void mainloop(Context& ctx, const tile_space& space, Load load, Compute compute, Finish finish) {
  static_assert(Cfg::kind == schedule::staged);
  staged_mainloop<Cfg, Stage>(ctx, space, load, compute, finish);
}

template <class K, class Params>
void launch_tiles(Stream& stream, const Grid& grid, const Params& params) {
  using Cfg = typename K::Config;
  static_assert(ring_scratch_bytes<Cfg, typename K::Stage> + kSlotBytes <= arch::lds_bytes, "LDS of a program");
  launch_ring<K>(stream, grid, params);
}

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME
