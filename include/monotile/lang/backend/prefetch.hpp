#pragma once
// Brings in the words that look ahead of this translation unit's target.

#include "monotile/lang/backend/backend.hpp"

#if defined(MONOTILE_TARGET_SIMT)
#include "monotile/lang/backend/simt/prefetch.hpp"
#else
#include "monotile/lang/backend/cpu/prefetch.hpp"
#endif
