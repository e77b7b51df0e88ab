#pragma once
// Words for products of rows (see docs/language.md): each_dot_block, add_columns, add_cells, store_cells,
// store_int8_blocks.

#include "monotile/lang/backend/dot.hpp"
#include "monotile/lang/block_rows.hpp"

namespace monotile::lang::inline MONOTILE_TARGET_NAME {

/// finish(block, sums) for what a program has of a product, whose sums are the dots of rows of a and b. With `block_rows`, on targets that have them, a
/// program may have several blocks.
template <class L, int MT, class Ctx, class Shape, class A, class W, class F>
requires(!__is_same(L, block_rows)) MT_FN void each_dot_block(Ctx& ctx, const Shape& shape, const A& a, const W& b, F finish) {
  const auto block = dot_block_of<L, MT>(ctx, shape);
  auto sums = row_dots(ctx, block, a, b);
  finish(block, sums);
}

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME
