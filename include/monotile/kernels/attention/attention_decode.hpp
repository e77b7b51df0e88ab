#pragma once
// Attention of one query per sequence: the rows of a tile are the heads that share a kv head, and the keys are cut into
// splits whose bounds follow from the sequence's own length. Each split is the loop of many queries on a few blocks; what
// it found is joined by a second kernel, in an order that follows from the length as well.

#include "monotile/kernels/attention/attention_prefill.hpp"
#include "monotile/lang/chain_config.hpp"

namespace monotile::kernels {
using namespace lang;  // NOLINT: kernels are written in the language

struct DecodeTile : PrefillTile {
  int split;
};

template <class Cfg, class T, class Score, class Stored = T>
struct AttentionDecode : AttentionPrefill<Cfg, T, Score, Stored> {
  using Base = AttentionPrefill<Cfg, T, Score, Stored>;
  using Params = DecodeParams<Score>;
  static_assert(kLeastSplitKeys % Cfg::bn == 0, "splits are whole blocks");

  const Params& split_params;
  MT_FN explicit AttentionDecode(const Params& params) : Base{params}, split_params(params) {}

  template <class Ctx>
  static MT_FN void run(Ctx& ctx, const Params& params) {
    chain_loop<Cfg>(ctx, AttentionDecode(params));
  }

  /// On the host, before a launch: which rows are copied into which tiles.
  template <class Binder>
  static void bind(const Binder& binder, Params& p) {
    binder.rows(p.q);
    binder.rows(p.k);
    binder.rows(p.v);
  }
  /// The same for a copy engine that wants to know them early.
  template <class Visit>
  MT_FN void copied_rows(Visit visit) const {
    visit(this->p.q);
    visit(this->p.k);
    visit(this->p.v);
  }

  /// Splits of a sequence lie side by side.
  MT_FN DecodeTile tile(int64_t index) const {
    const int splits = split_params.splits;
    const auto unit = static_cast<int>(index / splits), sequence = unit / groups();
    return tile(sequence, unit - sequence * groups(), static_cast<int>(index - int64_t{unit} * splits));
  }
  MT_FN DecodeTile tile(int sequence, int group, int split) const {
    DecodeTile t{Base::tile_at(sequence, group, 0), split};
    const int keys = split_keys(t.length), first = t.split * keys;
    t.keys = RangeMask::common(t.keys, {first, first + keys});
    t.exists = t.exists && t.keys.first < t.keys.end;
    return t;
  }
  // For schedules whose programs share out what there is: sequences, their groups of heads, and the splits of each.
  MT_FN int sequences() const { return this->p.sequences; }
  MT_FN int groups() const { return this->p.q.extent_z; }
  MT_FN chain_share share(int sequence) const {
    const PrefillTile t = Base::tile_at(sequence, 0, 0);
    if (!t.exists || t.keys.first >= t.keys.end) return {0, 0, 1};
    const int keys = split_keys(t.length);
    return {t.keys.first / keys, (t.keys.end - 1) / keys + 1, keys / Cfg::bn};
  }
  MT_FN int first_block(const DecodeTile& t) const { return t.keys.first / Cfg::bn; }
  MT_FN bool visits(const DecodeTile& t, int block) const { return this->seen(t, block) != Seen::none; }

  /// Waves that saw different keys agree on the largest score. Gives what the sums of this one are to be multiplied by.
  template <class Ctx, class State>
  MT_FN auto agree(Ctx& cx, State& state) const {
    const auto before = state.highest;
    state.highest = max_of_waves(cx, before);
    const float scale = this->exponent_scale();
    // Where nothing was seen, -inf minus -inf would be NaN.
    const auto rescale = map_rows([=](float b, float m) { return b == m ? 1.0f : weight_exp2(b * scale - m * scale); },
                                  before, state.highest);
    state.total = map_rows([](float a, float r) { return a * r; }, state.total, rescale);
    return rescale;
  }
  /// Sums as they are, and by what they are to be divided.
  template <class Ctx, class State, class Acc>
  MT_FN void finish(Ctx& cx, State& state, Acc& out, const DecodeTile& t) const {
    const auto total = row_total(cx, state.total);
    box_view to = split_params.partial;
    to.data = static_cast<float*>(to.data) + static_cast<int64_t>(t.split) * to.cols;
    store_sums(cx, to, box_at{0, t.first_token, t.group, this->rows(t)}, out);
    const int heads = to.extent_x * to.extent_z;
    const auto place = [&](int row) {
      const int64_t head = static_cast<int64_t>(t.first_token) * heads + t.group * to.extent_x + row;
      return split_params.statistics + 2 * (head * split_params.splits + t.split);
    };
    each_row(cx, state.highest, [&](int row, float m) {
      if (row < this->rows(t)) place(row)[0] = m == -kInfinity ? m : m * this->exponent_scale();
    });
    each_row(cx, total, [&](int row, float sum) {
      if (row < this->rows(t)) place(row)[1] = sum;
    });
  }
};

/// Joins the splits of a (sequence, head): lane groups take every few of them, and are joined in the order of their rows.
template <class Cfg, class T, class L, class Score>
struct MergeDecode {
  using Params = DecodeParams<Score>;
  static constexpr int max_threads = 128;
  static constexpr bool after_scratch = true;
  static constexpr float kLog2e = 1.44269504f, kLn2 = 0.693147181f;

  template <class Ctx>
  static MT_FN void run(Ctx& ctx, const Params& p) {
    const AttentionPrefill<Cfg, T, Score> body{p};
    const int per_group = p.q.box_x;
    const int64_t unit = ctx.program / per_group;
    const auto x = static_cast<int>(ctx.program - unit * per_group);
    const PrefillTile t = body.tile(unit);
    if (!t.exists) return;
    const int head = t.group * per_group + x, keys = split_keys(t.length);
    const int64_t row = static_cast<int64_t>(t.first_token) * per_group * p.q.extent_z + head;
    const int64_t first = t.keys.first / keys, end = t.keys.first < t.keys.end ? (t.keys.end + keys - 1) / keys : first;

    view<const float> sums;
    sums.data = static_cast<const float*>(p.partial.data) + row * p.splits * p.partial.cols;
    sums.outer_stride = sums.cols = p.partial.cols;
    sums.vectors = p.partial.vectors;
    const float* const statistics = p.statistics + 2 * row * p.splits;

    const auto at = local_rows<L>(ctx, p.partial.cols);
    auto acc = zeros(ctx, at);
    auto highest = row_fill(at, -kInfinity), total = row_fill(at, 0.0f);
    const int64_t step = tile_rows(ctx, at);
    for (int64_t base = first; base < end; base += step) {
      const auto split = map([=](auto r) { return r + base < end ? r + base : -1; }, row_index(at));
      const auto here = load(ctx, sums, at_rows(at, split));
      const auto most = map([=](auto s) { return s < 0 ? -kInfinity : statistics[2 * s]; }, split);
      const auto sum = map([=](auto s) { return s < 0 ? 0.0f : statistics[2 * s + 1]; }, split);
      const auto above = map([](auto a, auto b) { return b > a ? b : a; }, highest, most);
      // Where nothing was seen yet, -inf minus -inf would be NaN.
      const auto rescale = map([](auto a, auto b) { return a == b ? 1.0f : fast_exp2(a - b); }, highest, above);
      const auto share = map([](auto m, auto b) { return m == -kInfinity ? 0.0f : fast_exp2(m - b); }, most, above);
      total = map([](auto a, auto r, auto s, auto w) { return a * r + s * w; }, total, rescale, sum, share);
      assign(ctx, at, acc,
             map([](auto a, auto r, auto s, auto w) { return a * r + s * w; }, acc, rescale, here, share));
      highest = above;
    }

    const float sink = p.sinks == nullptr ? -kInfinity : p.sinks[head] * kLog2e;
    const auto most = map([=](auto m) { return m > sink ? m : sink; }, rows_reduce<Max>(ctx, highest));
    const auto share = map([](auto m, auto b) { return m == -kInfinity ? 0.0f : fast_exp2(m - b); }, highest, most);
    const auto sum = map([=](auto a, auto m) { return sink == -kInfinity ? a : a + fast_exp2(sink - m); },
                         rows_reduce<Sum>(ctx, map([](auto a, auto s) { return a * s; }, total, share)), most);
    const auto inverse = map([](auto s) { return s == 0.0f ? 0.0f : 1.0f / s; }, sum);
    const auto result = col_reduce<Sum>(ctx, at, eval(ctx, at, map([](auto a, auto s) { return a * s; }, acc, share)));
    const auto only = at_rows(first_row_only(at), int64_t{0});
    view<T> out;
    out.data = static_cast<T*>(p.out.data) + p.out.offset(x, t.first_token, t.group);
    out.cols = p.out.cols;
    out.vectors = p.out.vectors;
    store(ctx, out, only, map([](auto a, auto i) { return a * i; }, result, inverse));
    if (p.log_sum_exp == nullptr) return;
    float* const lse = p.log_sum_exp + t.first_token * p.lse_token_stride + head * p.lse_head_stride;
    store_row_value(ctx, lse, only,
                    map([](auto m, auto s) { return s == 0.0f ? -kInfinity : m * kLn2 + fast_log(s); }, most, sum));
  }
};

}  // namespace monotile::kernels
