#pragma once
// Rows of programs to come, on machines with lanes: other programs hide the latency.

#include "monotile/lang/backend/simt/tile.hpp"

namespace monotile::lang::inline MONOTILE_TARGET_NAME {

template <class View, class L, class F>
MT_FN void prefetch_next(Context&, const View&, const place<L>&, F) {}

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME
