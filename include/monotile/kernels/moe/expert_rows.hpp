#pragma once
// Rows on their way to the experts and back.

#include "monotile/kernels/moe/params.hpp"
#include "monotile/lang/lang.hpp"
#include "monotile/lang/prefetch.hpp"

namespace monotile::kernels {
using namespace lang;  // NOLINT: kernels are written in the language

/// y[position of the token's pairs] = x[token]: each row is read once. Pairs without a position are skipped.
template <class X, class L>
struct Dispatch {
  using Params = ExpertRowsParams<X>;

  template <class Ctx>
  static MT_FN void run(Ctx& ctx, const Params& p) {
    const auto at = chunks_of<L>(ctx, p.rows, p.cols, p.chunks);
    const auto row = load(ctx, p.x, at);
    const int32_t k = p.top_k;
    for (int32_t j = 0; j < k; ++j) {
      const auto pair = at_rows(at, map([=](auto r) { return r * k + j; }, row_index(at)));
      store(ctx, p.y, at_rows(at, load_index(ctx, any_index{p.index, false}, pair)), row);
    }
  }
};

/// y[i] = x[token of pair index[i]]; zeros where there is no pair. Rows from *end on are left alone.
template <class X, class L>
struct Permute {
  using Params = ExpertRowsParams<X>;

  template <class Ctx>
  static MT_FN void run(Ctx& ctx, const Params& p) {
    const auto all = chunks_of<L>(ctx, p.rows, p.cols, p.chunks);
    const int64_t end = p.end == nullptr ? p.rows : *p.end, pairs = p.pairs;
    const int32_t k = p.top_k;
    const auto at = at_rows(all, map([=](auto r) { return r < end ? r : int64_t{-1}; }, row_index(all)));
    const auto source_of = [&](const auto& rows) {
      return at_rows(rows, map([=](auto i) { return i >= 0 && i < pairs ? i / k : int64_t{-1}; },
                               load_index(ctx, any_index{p.index, false}, rows)));
    };
    prefetch_next(ctx, p.x, all, source_of);
    store(ctx, p.y, at, load(ctx, p.x, source_of(at)));
  }
};

/// y[token] = addend[token] + sum over its pairs, in order, of weight * x[position], in fp32.
template <class X, class L>
struct Combine {
  using Params = ExpertRowsParams<X>;

  template <class Ctx>
  static MT_FN void run(Ctx& ctx, const Params& p) {
    const auto at = chunks_of<L>(ctx, p.rows, p.cols, p.chunks);
    auto sum = zeros(ctx, at);
    if (p.addend.data != nullptr) assign(ctx, at, sum, map([](auto a) { return a * 1.0f; }, load(ctx, p.addend, at)));
    const int32_t k = p.top_k;
    const auto pair_of = [=](const auto& rows, int32_t j) {
      return at_rows(rows, map([=](auto r) { return r * k + j; }, row_index(rows)));
    };
    for (int32_t j = 0; j < k; ++j) {
      prefetch_next(ctx, p.x, at, [&](const auto& next) {
        return at_rows(next, load_index(ctx, any_index{p.index, false}, pair_of(next, j)));
      });
    }
    for (int32_t j = 0; j < k; ++j) {
      const auto pair = pair_of(at, j);
      const auto position = load_index(ctx, any_index{p.index, false}, pair);
      const auto weight =
          map([](auto w, auto i) { return i >= 0 ? w : 0.0f; }, load_row_value(ctx, p.weights, pair), position);
      assign(ctx, at, sum,
             map([](auto s, auto v, auto w) { return s + v * w; }, sum, load(ctx, p.x, at_rows(at, position)), weight));
    }
    store(ctx, p.y, at, sum);
  }
};

}  // namespace monotile::kernels
