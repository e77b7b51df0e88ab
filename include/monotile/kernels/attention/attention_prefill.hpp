#pragma once
// Attention of many queries by matrix tiles: out = softmax(score(scale q k^T)) v, block of keys by block of keys with a
// running maximum, for any mask and any change of scores that can be said about (query, key). The target decides who
// copies, who multiplies and what overlaps (chain_loop). One source for every machine.

#include "monotile/kernels/attention/attention_blocks.hpp"

namespace monotile::kernels {
using namespace lang;  // NOLINT: kernels are written in the language

/// Per row: the largest score so far (scaled by what goes into the exponent) and this lane's part of the weights' sum.
template <class Rows>
struct PrefillState {
  Rows highest, total;
  Rows first, end;  ///< keys that a row sees, where they are one span: the bits of ints
};

template <class Base>
struct CappedAttention;
template <class Base>
struct SlopedAttention;

template <class Cfg, class T, class Score, class Stored = T>
struct AttentionPrefill : AttentionBlocks<Cfg, T, Score, Stored> {
  using Params = PrefillParams<Score>;
  static constexpr bool wants_registers = Score::changes_scores;  ///< between the products
  static constexpr bool looks_early = !Score::changes_scores;
  static constexpr float kLog2e = 1.44269504f, kLn2 = 0.693147181f;

  using Blocks = AttentionBlocks<Cfg, T, Score, Stored>;
  using Blocks::p;
  using Blocks::rows;

  template <class Ctx>
  static MT_FN void run(Ctx& ctx, const Params& params) {
    chain_loop<Cfg>(ctx, AttentionPrefill{{params}});
  }
  /// On the host, before a launch: which rows are copied into which tiles.
  template <class Binder>
  static void bind(const Binder& binder, Params& p) {
    binder.rows(p.q);
    binder.rows(p.k);
    binder.rows(p.v);
    binder.result(p.out);
  }
  using Counts = TileCounts;
  MT_FN int queue() const { return p.queue; }
  static MT_FN float bits_of(int v) { return __builtin_bit_cast(float, v); }  // row values are floats
  static MT_FN int number_of(float v) { return __builtin_bit_cast(int, v); }
  // --- what happens between the products ---------------------------------------------------------------------------------
  MT_FN QueryAt query(const PrefillTile& t, int row) const {
    const int token = p.q.box_x == 1 ? row : row / p.q.box_x, head = t.group * p.q.box_x + row - token * p.q.box_x;
    return {t.sequence, head, t.first_query + (token < t.tokens ? token : t.tokens - 1), t.length};
  }
  template <class Ctx>
  MT_FN auto begin(Ctx& cx, const PrefillTile&) const {
    PrefillState<typename Ctx::rows> state;
    fill_rows(cx, state.highest, -kInfinity);
    fill_rows(cx, state.total, 0.0f);
    fill_rows(cx, state.first, 0.0f);
    fill_rows(cx, state.end, 0.0f);
    return state;
  }
  /// What rows see, ahead of a block that hides something: for schedules whose `hide_unseen` goes by it.
  template <class Ctx, class State>
  MT_FN void look(Ctx& cx, State& state, const PrefillTile& t, bool hides) const {
    fill_rows(cx, state.first, 0.0f);  // or what was found for a block before would be kept
    fill_rows(cx, state.end, 0.0f);
    if constexpr (requires { p.score.one_span(); }) {
      if (!hides || !p.score.one_span()) return;
      const auto span = [&](int row) { return p.score.span(query(t, row), t.length); };
      state.first = map_rows_at(cx, [&](int row, float) { return bits_of(span(row).first); }, state.first);
      state.end = map_rows_at(cx, [&](int row, float) { return bits_of(span(row).end); }, state.end);
    }
  }
  /// Scores become weights, 2^(score - highest). Gives what the sums so far are to be multiplied by. `hides`: what
  /// `hides` says, a constant where the loop has a path for each.
  template <class Ctx, class State, class Acc, class Hides>
  MT_FN auto weigh(Ctx& cx, State& state, Acc& s, const PrefillTile& t, int block, Hides hides) const {
    return weigh_by(cx, state, s, t, block, hides, exponent_scale());
  }
  /// Weights are 2^(score scale - highest + Raise): for types whose small values are few.
  template <int Raise = 0, class Ctx, class State, class Acc, class Hides>
  MT_FN auto weigh_by(Ctx& cx, State& state, Acc& s, const PrefillTile& t, int block, Hides hides, float scale) const {
    if constexpr (Score::changes_scores) {
      map_cells_at(
          cx, s, [&](int row) { return p.score.row(query(t, row)); },
          [&](float x, const auto& row, int col) { return p.score.score(x * p.scale, row, block * Cfg::bn + col); });
    }
    if (hides) hide_unseen(cx, state, s, t, block);
    return weigh_seen<Raise>(cx, state, s, scale);
  }
  template <class Ctx, class State, class Acc>
  MT_FN void hide_unseen(Ctx& cx, State& state, Acc& s, const PrefillTile& t, int block) const {
    const int first = block * Cfg::bn;
    if constexpr (requires { Ctx::knows_columns; p.score.one_span(); }) {
      if (p.score.one_span()) return keep_spans(cx, s, state.first, state.end, first, -kInfinity);
    }
    map_cells_at(
        cx, s, [&](int row) { return p.score.row(query(t, row)); },
        [&](float x, const auto& row, int col) {
          return ((first + col < t.length) & p.score.sees(row, first + col)) ? x : -kInfinity;  // without branches
        });
  }
  template <int Raise, class Ctx, class State, class Acc>
  MT_FN auto weigh_seen(Ctx& cx, State& state, Acc& s, float scale) const {
    const auto before = state.highest;
    state.highest = row_max(cx, s, before);
    // Rows that have seen nothing: -inf minus -inf would be NaN.
    const auto shift = map_rows([&](float m) { return m == -kInfinity ? 0.0f : m * scale; }, state.highest);
    const auto rescale = map_rows([&](float b, float m) { return weight_exp2(b * scale - m); }, before, shift);
    const auto lowered = map_rows([](float m) { return Raise == 0 ? m : m - Raise; }, shift);
    scale_rows(cx, s, lowered, [&](auto x, float m) { return weight_exp2(x * scale - m); });
    state.total = map_rows([](float a, float r, float x) { return a * r + x; }, state.total, rescale, row_sum(cx, s));
    return rescale;
  }
  /// out = sums / total and the logarithm of the total; a row that saw no key gives 0 and -inf.
  template <class Ctx, class State, class Acc>
  MT_FN void finish(Ctx& cx, State& state, Acc& out, const PrefillTile& t) const {
    finish_by(cx, state, out, t, exponent_scale(), 1.0f);
  }
  /// By what weigh_by was told; `value`: a factor of the values.
  template <int Raise = 0, class Ctx, class State, class Acc>
  MT_FN void finish_by(Ctx& cx, State& state, Acc& out, const PrefillTile& t, float scale, float value) const {
    auto total = row_total(cx, state.total);
    auto highest = map_rows([&](float m) { return m == -kInfinity ? m : m * scale - Raise; }, state.highest);
    if (p.sinks != nullptr) {
      const auto with_sink = map_rows_at(
          cx, [&](int row, float m) { return max_of(m, p.sinks[query(t, row).head] * kLog2e); }, highest);
      const auto rescale =
          map_rows([](float m, float w) { return m == -kInfinity ? 0.0f : weight_exp2(m - w); }, highest, with_sink);
      total = map_rows_at(
          cx,
          [&](int row, float a, float r, float w) {
            const float sink = p.sinks[query(t, row).head] * kLog2e;
            return a * r + (sink == -kInfinity ? 0.0f : weight_exp2(sink - w));
          },
          total, rescale, with_sink);
      scale_rows(cx, out, rescale, [](auto x, float r) { return x * r; });
      highest = with_sink;
    }
    const auto inverse = map_rows([&](float a) { return a == 0.0f ? 0.0f : fast_divide(value, a); }, total);
    scale_rows(cx, out, inverse, [](auto x, float r) { return x * r; });
    store_rows(cx, p.out, box_at{0, t.first_token, t.group, rows(t)}, out);
    if (p.log_sum_exp == nullptr) return;
    const auto logarithm =
        map_rows([](float m, float a) { return a == 0.0f ? -kInfinity : m * kLn2 + fast_log(a); }, highest, total);
    each_row(cx, logarithm, [&](int row, float v) {
      if (row >= rows(t)) return;
      const QueryAt q = query(t, row);
      p.log_sum_exp[(t.first_token + q.position - t.first_query) * p.lse_token_stride + q.head * p.lse_head_stride] = v;
    });
  }
  /// f(a body): this one, or where scores change in one way alone a body that does only that, whose products overlap.
  template <class F>
  MT_FN void each_way(F f) const {
    if constexpr (requires { typename Score::Changes; }) {
      using Changes = typename Score::Changes;
      const Changes changes = p.score.changes();
      if (changes == Changes::cap && p.scale > 0.0f) return f(CappedAttention<AttentionPrefill>{*this});
      if (changes == Changes::slope && p.scale > 0.0f) return f(SlopedAttention<AttentionPrefill>{*this});
    }
    f(*this);
  }
  /// Changed scores are in natural units already.
  MT_FN float exponent_scale() const {
    if constexpr (Score::changes_scores) return kLog2e;
    return p.scale_log2;
  }
};

}  // namespace monotile::kernels

#include "monotile/kernels/attention/one_change.hpp"
