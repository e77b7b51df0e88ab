#pragma once
// Launching chained products on the emulated sm_90a.

#include <algorithm>
#include <iterator>

#include "monotile/lang/backend/emulated/sm90/chain_unit.hpp"
#include "monotile/lang/backend/simt/launch_chains.hpp"

namespace monotile::lang::inline MONOTILE_TARGET_NAME {

template <class K, class Params>
void launch_chain(Stream&, const Grid& grid, const Params& params) {
  if (params.total == 0) return;
  Params bound = params;
  K::bind(hopper::box_binder{}, bound);
  try {
    hopper::launch_clusters<K>({hopper::place_chain<K>(grid, params), 1}, bound);
  } catch (...) {  // a planted mistake was found: what is counted starts from zeros again
    if constexpr (requires { typename K::Counts; })
      std::fill(std::begin(kept_counts<typename K::Counts>), std::end(kept_counts<typename K::Counts>), 0);
    throw;
  }
}

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME
