#pragma once
// Chained products on the emulated GPUs: the ring of NVIDIA's on 32 lanes, the staged schedule of AMD's on 64.

#include "monotile/lang/backend/emulated/chain_unit.hpp"
#include "monotile/lang/backend/simt/chain.hpp"
#include "monotile/lang/backend/simt/chain_staged.hpp"

namespace monotile::lang::inline MONOTILE_TARGET_NAME {

template <class Cfg, class Body>
MT_FN void chain_loop(Context& ctx, const Body& body) {
  if constexpr (Cfg::kind == schedule::staged) {
    staged_chain<Cfg>(ctx, body);
  } else {
    ring_chain<Cfg>(ctx, body);
  }
}
template <class K, class Params>
void launch_chain(Stream& stream, const Grid&, const Params& params) {
  if constexpr (K::Config::kind == schedule::staged) {
    launch_staged_chain<K>(stream, params);
  } else {
    launch_ring_chain<K>(stream, params);
  }
}

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME
