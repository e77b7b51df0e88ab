#pragma once
// Launching chained products on the emulated sm_90a.

#include "monotile/lang/backend/emulated/sm90/chain_unit.hpp"
#include "monotile/lang/backend/simt/launch_chains.hpp"

namespace monotile::lang::inline MONOTILE_TARGET_NAME {

template <class K, class Params>
void launch_chain(Stream&, const Grid& grid, const Params& params) {
  if (params.total == 0) return;
  Params bound = params;
  K::bind(hopper::box_binder{}, bound);
  hopper::launch_clusters<K>({hopper::place_chain<K>(grid, params), 1}, bound);
}

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME
