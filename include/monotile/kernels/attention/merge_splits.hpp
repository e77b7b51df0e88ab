#pragma once
// The second half of attention by rows where the keys of a query are in splits.

#include "monotile/kernels/attention/attention.hpp"

namespace monotile::kernels {

/// Joins the splits of each (token, head) in order of their keys.
template <class T, class KV, class L>
struct MergeSplits {
  using Params = AttentionParams<T, KV>;
  static constexpr int max_threads = 128;

  template <class Ctx>
  static MT_FN void run(Ctx& ctx, const Params& p) {
    const AttentionWork w = attention_work(p, ctx.program, 1);
    if (w.first_row >= w.query_rows) return;
    const int64_t row = query_row(p, w, w.first_row);
    const auto at = local_rows<L>(ctx, p.dim_v);
    auto acc = zeros(ctx, at);
    auto highest = row_fill(at, -kInfinity);
    auto total = row_fill(at, 0.0f);
    const int64_t splits = p.partial_splits(w.length);
    for (int64_t s = 0; s < splits; ++s) {
      const float* slot = p.partial + (row * p.merge_splits + s) * (p.dim_v + 2);
      const float m = slot[0], t = slot[1];
      const auto above = map([=](auto h) { return h > m ? h : m; }, highest);
      const auto rescale = map([](auto a, auto b) { return a == b ? 1.0f : fast_exp2(a - b); }, highest, above);
      const auto share = map([=](auto b) { return m == -kInfinity ? 0.0f : fast_exp2(m - b); }, above);
      total = map([=](auto a, auto r, auto x) { return a * r + x * t; }, total, rescale, share);
      const view<const float> values{slot + 2, 0, 0, p.dim_v};
      assign(ctx, at, acc,
             map([](auto a, auto r, auto x, auto v) { return a * r + x * v; }, acc, rescale, share,
                 load(ctx, values, at_rows(at, int64_t{0}))));
      highest = above;
    }
    Attention<T, KV, L, 1>::finish(ctx, p, first_row_only(at), row, acc, highest, total);
  }
};

}  // namespace monotile::kernels
