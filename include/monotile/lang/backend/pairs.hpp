#pragma once
// Brings in what layouts of pairs need on this translation unit's target.

#include "monotile/lang/backend/backend.hpp"

#if defined(MONOTILE_TARGET_SIMT)
#include "monotile/lang/backend/simt/pairs.hpp"
#endif
