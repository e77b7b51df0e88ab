#pragma once
// Rows that lie anywhere to rows that start on 16 bytes, bit for bit: what copy engines and vector loads want of operands.

#include "monotile/kernels/gemm/params.hpp"
#include "monotile/lang/lang.hpp"

namespace monotile::kernels {
using namespace lang;  // NOLINT: kernels are written in the language

/// One program per chunk of columns of a group of rows of L.
template <class T, class L>
struct PackRows {
  using Params = PackRowsParams<T>;

  template <class Ctx>
  static MT_FN void run(Ctx& ctx, const Params& p) {
    const auto row = chunks_of<L>(ctx, p.rows, p.cols, p.chunks);
    store(ctx, p.to, row, load(ctx, p.from, row));
  }
};

}  // namespace monotile::kernels
