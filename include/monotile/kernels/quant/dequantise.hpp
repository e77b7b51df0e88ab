#pragma once
// Codes back to values: y = code * scale, or (code - zero point) * scale.

#include "monotile/kernels/quant/params.hpp"
#include "monotile/kernels/quant/scale.hpp"
#include "monotile/lang/prefetch.hpp"

namespace monotile::kernels {
using namespace lang;  // NOLINT: kernels are written in the language

/// One program per chunk of columns of a group of rows of L.
template <class L, bool Int4>
struct Dequantise {
  using Params = DequantiseParams;

  template <class Ctx>
  static MT_FN void run(Ctx& ctx, const Params& p) {
    const auto at = chunks_of<L>(ctx, p.rows, p.cols, p.chunks);
    const auto scale_at = at_rows(at, map(scale_row{p.groups, p.block_rows}, row_index(at)));
    const auto scale = load_row_value(ctx, p.scales, scale_at);
    if constexpr (Int4) {
      auto zero = row_fill(at, 8.0f);
      if (p.zero_points.data != nullptr) {
        zero = map([](auto z) { return static_cast<float>(z); }, load_row_value(ctx, p.zero_points, scale_at));
      }
      store_any(ctx, p.y, at,
                map([](auto q, auto z, auto s) { return (q - z) * s; }, load_nibbles(ctx, p.nibbles, at), zero, scale));
    } else {
      prefetch_next(ctx, p.codes, at, [](const auto& next) { return next; });
      store_any(ctx, p.y, at, map([](auto q, auto s) { return q * s; }, load_codes(ctx, p.codes, at), scale));
    }
  }
};

/// The same from rows of GGUF blocks, which carry their scales.
template <class Blocks, class L>
struct DequantiseBlocks {
  using Params = DequantiseBlocksParams<Blocks>;

  template <class Ctx>
  static MT_FN void run(Ctx& ctx, const Params& p) {
    const auto at = chunks_of<L>(ctx, p.rows, p.cols, p.chunks);
    store_any(ctx, p.y, at, load(ctx, p.codes, at));
  }
};

}  // namespace monotile::kernels
