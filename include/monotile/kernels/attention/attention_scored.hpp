#pragma once
// The kernel of rows with a functor of scores.hpp, and sinks: every mask and change of scores where no matrix tiles serve.

#include "monotile/kernels/attention/attention.hpp"
#include "monotile/kernels/attention/scores.hpp"

namespace monotile::kernels {

/// For `Attention<T, KV, L, Rows, FunctorScores<Score>>`.
template <class Score>
struct FunctorScores {
  template <class T, class KV>
  using Params = ScoredParams<T, KV, Score>;
  static constexpr float kLog2e = 1.44269504f;

  template <class P>
  static MT_FN float query_scale(const P& p) {
    return p.scale;  // functors want scores in natural units
  }
  template <class P>
  static MT_FN int position(const P& p, const AttentionWork& w, int64_t row) {
    return static_cast<int>(row / p.group + (w.length - w.query_tokens));
  }
  template <class P>
  static MT_FN KeyRange keys(const P& p, const AttentionWork& w, int64_t first_row, int64_t last_row) {
    const KeySpan span = p.score.keys(static_cast<int>(w.sequence), position(p, w, first_row),
                                      position(p, w, last_row - 1), static_cast<int>(w.length));
    return {span.first < 0 ? 0 : span.first, span.end < w.length ? span.end : w.length};
  }
  /// Rows behind the last one are looked up as the last one: they have no entries in tables.
  template <class P>
  static MT_FN auto look_up(const P& p, const AttentionWork& w, int64_t row) {
    const int64_t r = row < w.query_rows ? row : w.query_rows - 1;
    return p.score.row(QueryAt{static_cast<int>(w.sequence), static_cast<int>(w.kv_head * p.group + r % p.group),
                               position(p, w, r), static_cast<int>(w.length)});
  }
  template <class P, class Row>
  static MT_FN const Row& row(const P&, const AttentionWork&, const Row& looked_up) {
    return looked_up;
  }
  template <class P, class Row>
  static MT_FN bool sees(const P& p, const Row& row, int64_t key) {
    return p.score.sees(row, static_cast<int>(key));
  }
  template <class P, class Row>
  static MT_FN float score(const P& p, float s, const Row& row, int64_t key) {
    if constexpr (Score::changes_scores) s = p.score.score(s, row, static_cast<int>(key));
    return s * kLog2e;
  }
  /// One more score, which has no value.
  template <class Ctx, class P, class At, class Tile, class Value>
  static MT_FN void add_sink(Ctx& ctx, const P& p, const At& at, int64_t row, Tile& result, Value& most, Value& sum) {
    if (p.sinks == nullptr) return;
    const float sink = p.sinks[row % (static_cast<int64_t>(p.kv_heads) * p.group)] * kLog2e;
    const auto above = map([=](auto m) { return m > sink ? m : sink; }, most);
    const auto rescale = map([](auto m, auto a) { return m == -kInfinity ? 0.0f : fast_exp2(m - a); }, most, above);
    sum = map([=](auto s, auto r, auto a) { return s * r + (sink == -kInfinity ? 0.0f : fast_exp2(sink - a)); }, sum,
              rescale, above);
    assign(ctx, at, result, map([](auto x, auto r) { return x * r; }, result, rescale));
    most = above;
  }
};

}  // namespace monotile::kernels
