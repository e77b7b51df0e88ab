#pragma once
// Launching chained products on NVIDIA: maps of the rows are encoded as the kernel's `bind` says.

#include "monotile/lang/backend/cuda/chain_unit.hpp"
#include "monotile/lang/backend/simt/launch_chains.hpp"

namespace monotile::lang::inline MONOTILE_TARGET_NAME {

namespace hopper {

template <class K, class Params>
__global__ void __launch_bounds__(chain_threads<typename K::Config>(), K::Config::programs)
    chain_entry(const __grid_constant__ Params p) {
  extern __shared__ __align__(16) unsigned char dynamic_shared[];
  Context ctx{static_cast<int64_t>(blockIdx.x), static_cast<int>(blockDim.x), nullptr, dynamic_shared};
  K::run(ctx, p);
}

}  // namespace hopper

/// `grid.programs`: at most that many programs share the tiles, times those that fit on a multiprocessor.
template <class K, class Params>
void launch_chain(Stream& stream, const Grid& grid, const Params& params) {
  using Cfg = typename K::Config;
  if constexpr (Cfg::kind == schedule::ring) {
    launch_ring_chain<K>(stream, params);
  } else {
    if (params.total == 0) return;
    Params bound = params;
    K::bind(hopper::box_binder{}, bound);
    const Grid launched = hopper::place_chain<K>(grid, params);
    static cuda::Launchable kernel{.entry = reinterpret_cast<const void*>(&hopper::chain_entry<K, Params>),
                                   .waits_itself = Cfg::kind == schedule::stream};
    cuda::launch(stream, kernel, launched, &bound);
  }
}

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME
