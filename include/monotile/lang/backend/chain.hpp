#pragma once
// Brings in the words for chained products of this translation unit's target.

#include "monotile/lang/backend/matrix.hpp"

#if defined(MONOTILE_TARGET_CUDA)
#include "monotile/lang/backend/cuda/launch_chain.hpp"
#elif defined(MONOTILE_TARGET_HIP)
#include "monotile/lang/backend/hip/launch_chain.hpp"
#elif defined(MONOTILE_LANE_FIBRES)
#include "monotile/lang/backend/emulated/sm90/launch_chain.hpp"
#elif defined(MONOTILE_TARGET_EMULATED)
#include "monotile/lang/backend/emulated/launch_chain.hpp"
#elif defined(MONOTILE_TARGET_CPU)
#include "monotile/lang/backend/cpu/chain.hpp"
#else  // not there yet: kernels still compile, and are not registered
namespace monotile::lang::inline MONOTILE_TARGET_NAME {
inline constexpr bool kHasChains = false;
MT_FN float weight_exp2(float x) { return fast_exp2(x); }
template <class K, class Params>
void launch_chain(Stream& stream, const Grid& grid, const Params& params);
}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME
#endif
