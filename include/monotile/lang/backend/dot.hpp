#pragma once
// Brings in the products of this translation unit's target.

#include "monotile/lang/backend/backend.hpp"

#if defined(MONOTILE_TARGET_CUDA)
#include "monotile/lang/backend/cuda/mma.hpp"
#include "monotile/lang/backend/simt/block_dots.hpp"
#elif defined(MONOTILE_TARGET_EMULATED) && !defined(MONOTILE_LANE_FIBRES)
#include "monotile/lang/backend/emulated/launch.hpp"
#include "monotile/lang/backend/emulated/mma.hpp"
#include "monotile/lang/backend/simt/block_dots.hpp"
#elif defined(MONOTILE_TARGET_SIMT)
#include "monotile/lang/backend/simt/dot.hpp"
#else
#include "monotile/lang/backend/cpu/dot.hpp"
#endif

namespace monotile::lang::inline MONOTILE_TARGET_NAME {

/// This target has `row_dots` with block_rows.
#if defined(MONOTILE_TARGET_CUDA) || (defined(MONOTILE_TARGET_EMULATED) && !defined(MONOTILE_LANE_FIBRES))
inline constexpr bool kHasBlockRows = kWave == 32;
#else
inline constexpr bool kHasBlockRows = false;
#endif

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME
