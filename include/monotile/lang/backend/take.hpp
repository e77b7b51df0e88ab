#pragma once
// Brings in the taking words of this translation unit's target.

#include "monotile/lang/backend/backend.hpp"

#if defined(MONOTILE_TARGET_SIMT)
#include "monotile/lang/backend/simt/take.hpp"
#else
#include "monotile/lang/backend/cpu/take.hpp"
#endif
