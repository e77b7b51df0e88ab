#pragma once
// Rows that are not whole aligned vectors, in layouts of pairs of columns (blocked<2, ...>): neighbouring lanes touch neighbouring words, so that such rows
// are read and written in full lines of memory, four bytes a lane at a time. Kernels that are instantiated over such layouts include this beside lang.hpp.

#include "monotile/lang/backend/pairs.hpp"
#include "monotile/lang/lang.hpp"
