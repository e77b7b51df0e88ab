#pragma once
// Brings in the backend of this translation unit's target.

#include "monotile/lang/backend/target.hpp"

#if defined(MONOTILE_TARGET_CUDA)
#include "monotile/lang/backend/cuda/primitives.hpp"
#include "monotile/lang/backend/simt/tile.hpp"
#include "monotile/lang/backend/cuda/launch.hpp"
#elif defined(MONOTILE_TARGET_HIP)
#include "monotile/lang/backend/hip/primitives.hpp"
#include "monotile/lang/backend/simt/tile.hpp"
#include "monotile/lang/backend/hip/launch.hpp"
#elif defined(MONOTILE_TARGET_EMULATED)
#include "monotile/lang/backend/emulated/primitives.hpp"
#include "monotile/lang/backend/simt/tile.hpp"
#include "monotile/lang/backend/emulated/launch.hpp"
#elif defined(MONOTILE_TARGET_SPIRV)
#include "monotile/lang/backend/spirv/primitives.hpp"
#include "monotile/lang/backend/simt/tile.hpp"
#include "monotile/lang/backend/spirv/launch.hpp"
#elif defined(MONOTILE_TARGET_CPU)
#include "monotile/lang/backend/cpu/tile.hpp"
#include "monotile/lang/backend/cpu/launch.hpp"
#else
#error "kernels are compiled for a target: set MONOTILE_TARGET_CPU, MONOTILE_TARGET_EMULATED, MONOTILE_TARGET_CUDA, MONOTILE_TARGET_HIP or MONOTILE_TARGET_SPIRV"
#endif
