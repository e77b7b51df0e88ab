#pragma once
// Chained products on AMD: the staged schedule.

#include "monotile/lang/backend/hip/chain_unit.hpp"
#include "monotile/lang/backend/simt/chain_staged.hpp"

namespace monotile::lang::inline MONOTILE_TARGET_NAME {

template <class Cfg, class Body>
MT_FN void chain_loop(Context& ctx, const Body& body) {
  static_assert(Cfg::kind == schedule::staged);
  staged_chain<Cfg>(ctx, body);
}
template <class K, class Params>
void launch_chain(Stream& stream, const Grid&, const Params& params) {
  static_assert((staged_chain_bytes<K> + kSlotBytes) * K::Config::programs <= arch::lds_bytes,
                "LDS of the programs of a compute unit");
  launch_staged_chain<K>(stream, params);
}

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME
