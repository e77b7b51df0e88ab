#pragma once
// Work on tiles that fill the registers of their lanes: one vector after the other, so that nothing of the tile's size comes beside it. Kernels that need it
// include this beside lang.hpp.

#include "monotile/lang/backend/vectors.hpp"
#include "monotile/lang/lang.hpp"
