#pragma once
// Softmax of rows too long for one program: their chunks first, then the results. How a row is cut depends on its length alone.

#include "monotile/kernels/softmax/params.hpp"
#include "monotile/kernels/softmax/softmax_parts.hpp"
#include "monotile/lang/items.hpp"

namespace monotile::kernels {
using namespace lang;  // NOLINT: kernels are written in the language

/// One program per chunk: its largest element, and the sum of the powers of the distances from it.
template <class Y, class X, class L>
struct SoftmaxChunk {
  using Params = SoftmaxParams<Y, X>;

  template <class Ctx>
  static MT_FN void run(Ctx& ctx, const Params& p) {
    const SoftmaxScale s = SoftmaxScale::of(p.scale);
    const auto at = chunks_of<L>(ctx, p.rows, p.cols, p.chunks);
    const auto x = eval(ctx, at, load(ctx, p.x, at));
    const auto largest = row_reduce<Max>(ctx, at, map([=](auto v) { return v * s.sign; }, x));
    const auto sum = row_reduce<Sum>(
        ctx, at,
        map([=](auto v, auto m) { return fast_exp2((v * s.sign - m) * s.scale2); }, x, map(finite_or_zero{}, largest)));
    const auto here = at_rows(at, program_of(ctx));
    store_row_value(ctx, p.largest, here, largest);
    store_row_value(ctx, p.sums, here, sum);
  }
};

/// One program per chunk: the results, from what all chunks of the row have left.
template <class Y, class X, class L>
struct SoftmaxRest {
  using Params = SoftmaxParams<Y, X>;

  template <class Ctx>
  static MT_FN void run(Ctx& ctx, const Params& p) {
    const SoftmaxScale s = SoftmaxScale::of(p.scale);
    const auto at = chunks_of<L>(ctx, p.rows, p.cols, p.chunks);
    const auto x = eval(ctx, at, load(ctx, p.x, at));
    const int64_t first = uniform(row_index(at)) * p.chunks;
    const int32_t chunks = static_cast<int32_t>(p.chunks);
    const float *const largests = p.largest + first, *const sums = p.sums + first;
    const float largest = finite_or_zero{}(fold_items<Max>(ctx, chunks, [=](int32_t i) { return largests[i]; }));
    const float sum = fold_items<Sum>(ctx, chunks, [=](int32_t i) { return share_of_chunk(largests[i], sums[i], largest, s.scale2); });
    if (p.log) {
      const float offset = sum == 0.0f ? 0.0f : fast_log(sum);
      store(ctx, p.y, at, map([=](auto v) { return (v * s.sign - largest) * s.scale - offset; }, x));
    } else {
      const float inverse = sum == 0.0f ? 0.0f : 1.0f / sum;
      store(ctx, p.y, at, map([=](auto v) { return fast_exp2((v * s.sign - largest) * s.scale2) * inverse; }, x));
    }
  }
};

}  // namespace monotile::kernels
