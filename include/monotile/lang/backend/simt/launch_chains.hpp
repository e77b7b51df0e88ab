#pragma once
// How kernels of chained products are spread, on sm_90a and the emulated one. The backend's chain_unit.hpp comes first.

#include "monotile/lang/backend/simt/chain_stream.hpp"
#include "monotile/lang/backend/simt/chain_turned.hpp"
#include "monotile/lang/backend/simt/chain_warpgroups.hpp"

namespace monotile::lang::inline MONOTILE_TARGET_NAME {

template <class Cfg, class Body>
MT_DEVICE void chain_loop(Context& ctx, const Body& body) {
  if constexpr (Cfg::kind == schedule::ring) {
    ring_chain<Cfg>(ctx, body);
  } else if constexpr (Cfg::kind == schedule::stream) {
    stream_chain<Cfg>(ctx, body);
  } else if constexpr (Cfg::kind == schedule::turned) {
    turned_chain<Cfg>(ctx, body, body.p.total);
  } else {
    warpgroup_chain<Cfg>(ctx, body, body.p.total);
  }
}

namespace hopper {

struct box_binder {
  void rows(box_view& v) const { encode_map(v, v.box_x, v.box_y); }
  void result(box_view& v) const {
    if (v.vectors && v.cols % 8 == 0 && 16 % v.box_x == 0) encode_map(v, v.box_x, 16 / v.box_x);
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
  else if constexpr (Cfg::kind == schedule::turned)
    return sizeof(turned_chain_memory<Cfg, T, tile_of_chain<K>>) + 1024;
  else
    return sizeof(warpgroup_chain_memory<Cfg, T, tile_of_chain<K>>) + 1024;
}

/// `grid.programs`: at most that many programs share the tiles, times those that fit on a multiprocessor.
template <class K, class Params>
Grid place_chain(const Grid& grid, const Params& params) {
  constexpr size_t kBytes = chain_bytes<K>();
  constexpr int kPrograms = K::Config::programs;
  static_assert((kBytes + 1024) * kPrograms <= 228 * 1024, "shared memory of a multiprocessor of sm_90");
  const int64_t most = grid.programs * kPrograms;
  return {params.total < most ? params.total : most, chain_threads<typename K::Config>(), kBytes};
}

}  // namespace hopper

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME
