#pragma once
// Words for products of rows (see docs/language.md): dot_block_of, row_dots, add_columns, add_cells, store_cells,
// store_int8_blocks.

#include "monotile/lang/backend/dot.hpp"
#include "monotile/lang/block_rows.hpp"
