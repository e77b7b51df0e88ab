#pragma once
// Brings in the matrix words of this translation unit's target.

#include "monotile/lang/backend/backend.hpp"

#if defined(MONOTILE_TARGET_CUDA)
#include "monotile/lang/backend/cuda/launch_tiles.hpp"
#elif defined(MONOTILE_TARGET_HIP)
#include "monotile/lang/backend/hip/launch_tiles.hpp"
#elif defined(MONOTILE_LANE_FIBRES)
#include "monotile/lang/backend/emulated/sm90/launch_tiles.hpp"
#elif defined(MONOTILE_TARGET_EMULATED)
#include "monotile/lang/backend/emulated/launch_tiles.hpp"
#elif defined(MONOTILE_TARGET_SPIRV)
#include "monotile/lang/backend/spirv/launch_tiles.hpp"
#else
#include "monotile/lang/backend/cpu/matrix.hpp"
#endif
