#pragma once
// c[m, n] = sum_k a[m, k] b[n, k] + bias[n] + residual[m, n] as dots of rows: each program takes rows of b, reads
// (and unpacks) them once and multiplies them with up to MT rows of a. What bounds it is reading b, so it serves any
// weight type at small m. BlockDots does it by matrix instructions, for blocks on targets that have them.

#include "monotile/kernels/gemm/params.hpp"
#include "monotile/lang/dot.hpp"
#include "monotile/lang/lang.hpp"

namespace monotile::kernels {
using namespace lang;  // NOLINT: kernels are written in the language

template <class A, class W, class L, int MT>
struct RowDots {
  using Params = RowDotsParams<A, W>;
  static constexpr int max_threads = 256;

  template <class Ctx>
  static MT_FN void run(Ctx& ctx, const Params& p) {
    const auto block = dot_block_of<L, MT>(ctx, p.shape);
    auto sums = row_dots(ctx, block, p.a, p.b);
    if (p.bias.data != nullptr) add_columns(ctx, block, sums, p.bias);
    if (p.residual.data != nullptr) add_cells(ctx, block, sums, p.residual);
    store_cells(ctx, block, p.c, sums);
  }
};

/// The same for L = block_rows: programs stay, and finish some rows of b after the other.
template <class A, class W, class L, int MT>
struct BlockDots {
  using Params = RowDotsParams<A, W>;

  template <class Ctx>
  static MT_FN void run(Ctx& ctx, const Params& p) {
    each_dot_block<L, MT>(ctx, p.shape, p.a, p.b, [&](const auto& block, auto& sums) {
      if (p.bias.data != nullptr) add_columns(ctx, block, sums, p.bias);
      if (p.residual.data != nullptr) add_cells(ctx, block, sums, p.residual);
      store_cells(ctx, block, p.c, sums);
    });
  }
};

/// Activations rounded to int8 in blocks of 32, once per product.
template <class T, class L>
struct RowsToInt8 {
  using Params = CastRowsParams<T>;

  template <class Ctx>
  static MT_FN void run(Ctx& ctx, const Params& p) {
    const auto row = rows_of<L>(ctx, p.rows, p.cols);
    store_int8_blocks(ctx, p.to_int8, row, p.from);
  }
};

/// Activations as fp32, for targets whose products only read that.
template <class T, class L>
struct RowsToFloat {
  using Params = CastRowsParams<T>;

  template <class Ctx>
  static MT_FN void run(Ctx& ctx, const Params& p) {
    const auto row = rows_of<L>(ctx, p.rows, p.cols);
    store(ctx, p.to_float, row, load(ctx, p.from, row));
  }
};

}  // namespace monotile::kernels
