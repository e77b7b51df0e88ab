#pragma once
// Launching chained products on NVIDIA: maps of the rows are encoded as the kernel's `bind` says.

#include "monotile/lang/backend/cuda/chain_stream.hpp"
#include "monotile/lang/backend/cuda/chain_warpgroups.hpp"

namespace monotile::lang::inline MONOTILE_TARGET_NAME {

template <class Cfg, class Body>
MT_DEVICE void chain_loop(Context& ctx, const Body& body) {
  if constexpr (Cfg::kind == schedule::ring) {
    ring_chain<Cfg>(ctx, body);
  } else if constexpr (Cfg::kind == schedule::stream) {
    stream_chain<Cfg>(ctx, body);
  } else {
    warpgroup_chain<Cfg>(ctx, body, body.p.total);
  }
}

namespace hopper {

struct box_binder {
  void rows(box_view& v) const { cuda::encode_map(v, v.box_x, v.box_y); }
  void result(box_view& v) const {
    if (v.vectors && v.cols % 8 == 0 && 16 % v.box_x == 0) cuda::encode_map(v, v.box_x, 16 / v.box_x);
  }
};

/// Of a chain of the schedule that is not the ring.
template <class Cfg>
constexpr int chain_threads() {
  if constexpr (Cfg::kind == schedule::stream)
    return stream_chain_traits<Cfg>::threads;
  else
    return warpgroup_chain_traits<Cfg>::threads;
}
template <class K>
constexpr size_t chain_bytes() {
  using Cfg = typename K::Config;
  using T = typename K::element;
  if constexpr (Cfg::kind == schedule::stream)
    return sizeof(stream_chain_memory<Cfg, T, tile_of_chain<K>>) + 1024;
  else
    return sizeof(warpgroup_chain_memory<Cfg, T, tile_of_chain<K>>) + 1024;
}

template <class K, class Params>
__global__ void __launch_bounds__(chain_threads<typename K::Config>(), 1)
    chain_entry(const __grid_constant__ Params p) {
  extern __shared__ __align__(16) unsigned char dynamic_shared[];
  Context ctx{static_cast<int64_t>(blockIdx.x), static_cast<int>(blockDim.x), nullptr, dynamic_shared};
  K::run(ctx, p);
}

}  // namespace hopper

/// `grid.programs`: at most that many programs share the tiles.
template <class K, class Params>
void launch_chain(Stream& stream, const Grid& grid, const Params& params) {
  using Cfg = typename K::Config;
  if constexpr (Cfg::kind == schedule::ring) {
    launch_ring_chain<K>(stream, params);
  } else {
    if (params.total == 0) return;
    Params bound = params;
    K::bind(hopper::box_binder{}, bound);
    constexpr size_t kBytes = hopper::chain_bytes<K>();
    static_assert(kBytes <= 227 * 1024, "shared memory of a program on sm_90");
    const Grid launched{params.total < grid.programs ? params.total : grid.programs, hopper::chain_threads<Cfg>(), kBytes};
    static cuda::Launchable kernel{.entry = reinterpret_cast<const void*>(&hopper::chain_entry<K, Params>),
                                   .waits_itself = Cfg::kind == schedule::stream};
    cuda::launch(stream, kernel, launched, &bound);
  }
}

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME
