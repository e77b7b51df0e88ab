#pragma once
// Chained products on the emulated GPUs: the path of waves.

#include "monotile/lang/backend/emulated/chain_unit.hpp"
#include "monotile/lang/backend/simt/chain.hpp"

namespace monotile::lang::inline MONOTILE_TARGET_NAME {

template <class Cfg, class Body>
MT_FN void chain_loop(Context& ctx, const Body& body) {
  ring_chain<Cfg>(ctx, body);
}
template <class K, class Params>
void launch_chain(Stream& stream, const Grid&, const Params& params) {
  launch_ring_chain<K>(stream, params);
}

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME
