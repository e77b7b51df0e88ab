#pragma once
// Teams on NVIDIA, sm_90 and later: the programs of a cluster, which reach each other's shared memory.

#include "monotile/lang/backend/cuda/launch.hpp"

namespace monotile::lang::inline MONOTILE_TARGET_NAME {

inline constexpr bool kTeams = kTarget == Target::cuda_sm90;

template <int Turn>
MT_FN team_pairs team_exchange(Context& ctx, int team, sums mine) {
  static_assert(Turn < kTeamTurns, "each exchange has slots of its own");
  sums* const slots = reinterpret_cast<sums*>(ctx.scratch) + Turn * kMostTeam;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  if constexpr (Turn == 0)
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");  // all have started: team_entry
  if (threadIdx.x <
      static_cast<unsigned>(team)) {  // written to the others: whoever reads, reads its own and may leave when it likes
    uint32_t own, rank, there;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    own = static_cast<uint32_t>(__cvta_generic_to_shared(slots + rank));
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(own), "r"(threadIdx.x));
    asm volatile("st.shared::cluster.v2.f32 [%0], {%1, %2};" ::"r"(there), "f"(mine.first), "f"(mine.second)
                 : "memory");
  }
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
  return {slots, team};
}

template <class K, class Params>
__global__ void __launch_bounds__(max_threads_of<K>(), min_blocks_of<K>())
    team_entry(const __grid_constant__ Params p) {
  extern __shared__ __align__(16) unsigned char dynamic_shared[];
  __shared__ __align__(16) unsigned char slots[kSlotBytes];
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.relaxed.aligned;");
  asm volatile("griddepcontrol.launch_dependents;");
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
  Context ctx{static_cast<int64_t>(blockIdx.x), static_cast<int>(blockDim.x), slots, dynamic_shared};
  K::run(ctx, p);
}

/// Programs in teams of K::team(params), each with kTeamScratch bytes of scratch.
template <class K, class Params>
void launch_team(Stream& stream, const Grid& grid, const Params& params) {
  if (grid.programs == 0) return;
  static cuda::Launchable kernel{.entry = reinterpret_cast<const void*>(&team_entry<K, Params>), .waits_itself = true};
  cuda::launch(stream, kernel, grid, &params, K::team(params));
}

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME
