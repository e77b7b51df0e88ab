#pragma once
// Brings in the item words of this translation unit's target.

#include "monotile/lang/backend/backend.hpp"

#if defined(MONOTILE_TARGET_SIMT)
#include "monotile/lang/backend/simt/items.hpp"
#else
#include "monotile/lang/backend/cpu/items.hpp"
#endif
