#pragma once
// Brings in the products of this translation unit's target.

#include "monotile/lang/backend/backend.hpp"

#if defined(MONOTILE_TARGET_SIMT)
#include "monotile/lang/backend/simt/dot.hpp"
#else
#include "monotile/lang/backend/cpu/dot.hpp"
#endif
