#pragma once
// y[t] = table[ids[t]] * scale.

#include "monotile/kernels/embedding/params.hpp"
#include "monotile/lang/lang.hpp"
#include "monotile/lang/prefetch.hpp"

namespace monotile::kernels {
using namespace lang;  // NOLINT: kernels are written in the language

/// One program per chunk of columns of a token.
template <class Y, class Table, class L>
struct Embedding {
  using Params = EmbeddingParams<Y, Table>;

  template <class Ctx>
  static MT_FN void run(Ctx& ctx, const Params& p) {
    const auto at = chunks_of<L>(ctx, p.tokens, p.cols, p.chunks);
    const int64_t vocabulary = p.vocabulary;
    const float scale = p.scale;
    const auto id = load_index(ctx, p.ids, at);
    if (p.status != nullptr) {
      const auto bad =
          map([=](auto i, auto t) { return i < 0 || i >= vocabulary ? t : int64_t{-1}; }, id, row_index(at));
      store_row_value(ctx, p.status, at_rows(at, bad), map([](auto) { return int32_t{1}; }, id));
    }
    // Rows that do not exist load as zeros.
    const auto row_of_id = [=](const auto& rows, const auto& ids) {
      return at_rows(rows, map([=](auto i) { return i < vocabulary ? i : int64_t{-1}; }, ids));
    };
    prefetch_next(ctx, p.table, at, [&](const auto& next) { return row_of_id(next, load_index(ctx, p.ids, next)); });
    const auto row = row_of_id(at, id);
    store(ctx, p.y, at, map([=](auto v) { return v * scale; }, load(ctx, p.table, row)));
  }
};

}  // namespace monotile::kernels
