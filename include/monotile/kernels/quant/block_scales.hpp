#pragma once
// The scale of each block of rows and columns, or the largest magnitude of a part of one.

#include "monotile/kernels/quant/params.hpp"
#include "monotile/kernels/quant/scale.hpp"

namespace monotile::kernels {

/// One program per part of a block: its lane groups walk the rows side by side.
template <class X, class L>
struct BlockScales {
  using Params = BlockScalesParams<X>;

  template <class Ctx>
  static MT_FN void run(Ctx& ctx, const Params& p) {
    const int64_t block = ctx.program / p.parts, part = ctx.program - block * p.parts;
    const int64_t band = block / p.groups, group = block - band * p.groups;
    const int64_t block_end = (band + 1) * p.block_rows < p.rows ? (band + 1) * p.block_rows : p.rows;
    const int64_t first_row = band * p.block_rows + part * p.part_rows;
    const int64_t last_row = first_row + p.part_rows < block_end ? first_row + p.part_rows : block_end;
    const int64_t first_col = group * p.block_cols;
    const int64_t last_col = first_col + p.block_cols < p.cols ? first_col + p.block_cols : p.cols;

    const auto lanes = local_rows<L>(ctx, p.step);
    auto most = zeros(ctx, lanes);
    for (int64_t c = first_col; c < last_col; c += p.step) {
      const auto x = from_column(p.x, c);
      const auto columns = with_cols(lanes, last_col - c < p.step ? last_col - c : p.step);
      for (int64_t r = first_row; r < last_row; r += tile_rows(ctx, lanes)) {
        const auto at =
            at_rows(columns, map([=](auto i) { return r + i < last_row ? r + i : int64_t{-1}; }, row_index(lanes)));
        assign(ctx, at, most,
               map([](auto m, auto v) { return max_of(m, finite_magnitude{}(v)); }, most, load(ctx, x, at)));
      }
    }
    const auto largest = rows_reduce<Max>(ctx, row_reduce<Max>(ctx, lanes, most));
    const auto out = at_rows(first_row_only(lanes), ctx.program);
    if (p.largest_code == 0.0f) {
      store_row_value(ctx, p.out, out, largest);
    } else {
      store_row_value(ctx, p.out, out, map(scale_of_most{p.largest_code}, largest));
    }
  }
};

}  // namespace monotile::kernels
