#pragma once
// Taking the largest elements of rows one by one. Kernels that need it include this beside lang.hpp.

#include "monotile/lang/backend/take.hpp"
#include "monotile/lang/lang.hpp"
