#pragma once
// Words for products of matrix tiles (see docs/language.md): smem_tile, copy_async, mma, mainloop, map_cells,
// add_columns, add_cells, store.

#include "monotile/lang/backend/matrix.hpp"
