#pragma once
// Words for scalar work on numbered items, for counting and for sorting within a program. Kernels that need them include this beside lang.hpp.

#include "monotile/lang/backend/items.hpp"
#include "monotile/lang/lang.hpp"
