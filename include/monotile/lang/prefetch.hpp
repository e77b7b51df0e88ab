#pragma once
// Rows that programs to come will read, where a machine runs one program after the other. Kernels on short rows, or on rows by index, include this beside
// lang.hpp.

#include "monotile/lang/backend/prefetch.hpp"
#include "monotile/lang/lang.hpp"
