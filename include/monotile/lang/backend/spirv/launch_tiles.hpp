#pragma once
// Matrix kernels through OpenCL: the tiles and callbacks of the ring, with one stage and an instruction of scalar arithmetic. Copies are done when they are
// asked for; what the ring hides behind products is the device compiler's and its caches' business here.

#include "monotile/lang/backend/spirv/launch.hpp"
#include "monotile/lang/backend/spirv/mma.hpp"

// The ring stands on the matrix unit and the copies of mma.hpp.
#include "monotile/lang/backend/simt/ring.hpp"

namespace monotile::lang::inline MONOTILE_TARGET_NAME {

inline constexpr bool kHasWarpgroups = false;
inline constexpr bool kHasRing = true, kHasMfma = false;
inline constexpr bool kHasTf32 = false;

template <class Cfg, class Stage, class Load, class Compute, class Finish>
MT_FN void mainloop(Context& ctx, const tile_space& space, Load load, Compute compute, Finish finish) {
  Stage& stage = *reinterpret_cast<Stage*>((reinterpret_cast<uintptr_t>(ctx.scratch) + 1023) & ~uintptr_t{1023});
  auto cx = ring_context_of<Cfg, Stage>(ctx, space);
  const tile_coord t = tile_at<Cfg>(space, static_cast<int>(ctx.program));
  ring_acc_for<Cfg, Stage> acc;
  clear(cx, acc, t);
  for (int k = 0; k < space.k; ++k) {
    ctx.barrier();  // all waves have left the stage
    load(cx, stage, t, k);
    ctx.barrier();
    compute(cx, acc, stage);
  }
  finish(cx, acc, t);
}

template <class K, class Params>
void launch_tiles(Stream& stream, const Grid&, const Params& params) {
  using Cfg = typename K::Config;
  const Grid grid{tile_count<Cfg>(params.tiles), ring_waves<Cfg> * kWave, sizeof(typename K::Stage) + 1024};
  launch<ring_kernel<K>>(stream, grid, params);
}

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME
