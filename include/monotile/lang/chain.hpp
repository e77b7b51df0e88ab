#pragma once
// Words for chained products, softmax between them (see docs/language.md): chain_loop, copy_boxes, map_cells,
// map_cells_at, row_max, row_sum, row_total, map_rows, map_rows_at, scale_rows, each_row, store_rows.

#include "monotile/lang/backend/chain.hpp"
