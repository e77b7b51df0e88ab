#pragma once
// Attention whose scores change in one way alone, in few enough instructions to overlap: what `AttentionPrefill::each_way`
// gives in its own place. Included by it.

#include "monotile/kernels/attention/attention_prefill.hpp"
#include "monotile/lang/chain_config.hpp"

namespace monotile::kernels {
using namespace lang;  // NOLINT: kernels are written in the language

/// Scores by a soft-cap alone: cap tanh(score / cap), in powers of 2 from the start.
template <class Base>
struct CappedAttention : Base {
  static constexpr bool wants_registers = false;
  using Base::kLog2e;
  using Base::p;

  template <class Ctx, class State, class Acc, class Hides>
  MT_FN auto weigh(Ctx& cx, State& state, Acc& s, const PrefillTile& t, int block, Hides hides) const {
    const float inner = p.scale * p.score.softcap_inverse, cap = p.score.softcap * kLog2e;
    const auto capped = [=](float x) { return cap * near_tanh(x * inner); };
    if constexpr (!__is_same(Hides, known<false>)) {
      map_cells(cx, s, capped);
      if (hides) this->hide_unseen(cx, state, s, t, block);
      return this->template weigh_seen<0>(cx, state, s, 1.0f);
    } else {
      // A cap keeps the order of scores: the largest is found before it, and its subtraction is part of the last
      // multiplication. Up to half the cap a polynomial does (a relative error of 2.3e-5, even over [0, 1/2]); for a wave
      // with a larger score tanh, which takes two more exponentials.
      constexpr float kWithin = 0.5f, c0 = 0.999977517f, c1 = -0.331692801f, c2 = 0.1152139f;
      auto highest = state.highest;
      fill_rows(cx, highest, -kInfinity);
      highest = row_max(cx, s, highest);
      const bool beyond = any_beyond(cx, s, kWithin / inner);
      settle(cx);  // a branch follows
      const auto before = state.highest;
      state.highest = map_rows([&](float b, float x) { return max_of(b, capped(x)); }, before, highest);
      const auto rescale = map_rows([](float b, float m) { return weight_exp2(b - m); }, before, state.highest);
      if (beyond) {
        scale_rows(cx, s, state.highest, [&](float x, float m) { return weight_exp2(capped(x) - m); });
      } else {
        const float square = inner * inner, first = cap * inner;
        const float p0 = c0 * first, p1 = c1 * first * square, p2 = c2 * first * square * square;
        scale_rows(cx, s, state.highest, [=](float x, float m) {
          const float y = x * x;
          return weight_exp2(fma_of(x, fma_of(fma_of(p2, y, p1), y, p0), -m));
        });
      }
      state.total = map_rows([](float a, float r, float x) { return a * r + x; }, state.total, rescale, row_sum(cx, s));
      return rescale;
    }
  }
  template <class Ctx, class State, class Acc>
  MT_FN void finish(Ctx& cx, State& state, Acc& out, const PrefillTile& t) const {
    this->finish_by(cx, state, out, t, 1.0f, 1.0f);
  }
};

template <class Rows>
struct SlopedState : PrefillState<Rows> {
  Rows slope;     ///< in units of the unscaled score
  Rows position;  ///< the bits of an int
};
/// Scores that change by a slope times the distance to their key alone (ALiBi): one multiplication for a score. It adds what
/// depends on the column within the block; the rest of the distance is the same for all that a lane has of a row.
template <class Base>
struct SlopedAttention : Base {
  static constexpr bool wants_registers = false;
  using Base::p;

  template <class Ctx>
  MT_FN auto begin(Ctx& cx, const PrefillTile& t) const {
    SlopedState<typename Ctx::rows> state{Base::begin(cx, t)};
    fill_rows(cx, state.slope, 0.0f);
    if (p.score.slopes != nullptr) {
      state.slope = map_rows_at(
          cx, [&](int row, float) { return p.score.slopes[this->query(t, row).head] / p.scale; }, state.slope);
    }
    state.position = map_rows_at(
        cx, [&](int row, float) { return Base::bits_of(this->query(t, row).position); }, state.slope);
    return state;
  }
  template <class Ctx, class State, class Acc, class Hides>
  MT_FN auto weigh(Ctx& cx, State& state, Acc& s, const PrefillTile& t, int block, Hides hides) const {
    const float scale = p.scale_log2;
    map_cells_from(
        cx, s, [](int, int, float slope) { return slope; },
        [](float x, float slope, int further) { return fma_of(slope, static_cast<float>(further), x); }, state.slope);
    if (hides) this->hide_unseen(cx, state, s, t, block);
    const auto start = map_rows_from(
        cx,
        [&](int col, float slope, float position) {
          return slope * static_cast<float>(block * Base::Config::bn + col - Base::number_of(position));
        },
        state.slope, state.position);
    const auto before = state.highest;
    auto none = before;
    fill_rows(cx, none, -kInfinity);
    const auto own = map_rows([](float x, float begun) { return x + begun; }, lane_max(cx, s, none), start);
    state.highest = map_rows([](float x, float y) { return max_of(x, y); }, before, largest_of_lanes(cx, own));
    const auto shift = map_rows([&](float m) { return m == -kInfinity ? 0.0f : m * scale; }, state.highest);
    const auto rescale = map_rows([&](float b, float m) { return weight_exp2(b * scale - m); }, before, shift);
    const auto lowered = map_rows([&](float m, float begun) { return m - begun * scale; }, shift, start);
    scale_rows(cx, s, lowered, [&](float x, float m) { return weight_exp2(x * scale - m); });
    state.total = map_rows([](float a, float r, float x) { return a * r + x; }, state.total, rescale, row_sum(cx, s));
    return rescale;
  }
  template <class Ctx, class State, class Acc>
  MT_FN void finish(Ctx& cx, State& state, Acc& out, const PrefillTile& t) const {
    this->finish_by(cx, state, out, t, p.scale_log2, 1.0f);
  }
};

}  // namespace monotile::kernels
