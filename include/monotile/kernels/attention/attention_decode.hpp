#pragma once
// Attention of one query per sequence: the rows of a tile are the heads that share a kv head, and the keys are cut into
// splits whose bounds follow from the sequence's own length. Each split is the loop of many queries on a few blocks; what
// it found is joined by a second kernel, in an order that follows from the length as well.

#include "monotile/kernels/attention/attention_prefill.hpp"
#include "monotile/lang/chain_config.hpp"
#include "monotile/lang/items.hpp"

namespace monotile::kernels {
using namespace lang;  // NOLINT: kernels are written in the language

struct DecodeTile : PrefillTile {
  int split;
  int first_split, splits;  ///< that the sequence has; none if there is no query
};

/// Joins the splits of a tile in their order, a lane group to each head. For the program that comes after all of them.
template <class T, class L, class Ctx, class Score>
MT_FN void join_splits(Ctx& ctx, const DecodeParams<Score>& p, const DecodeTile& t) {
  constexpr int kAtOnce = 8;                             // splits that are on their way together
  constexpr int kCols = L::lanes_per_row * L::elements;  // of their sums, a constant: less code, which is run once
  constexpr float kLog2e = 1.44269504f, kLn2 = 0.693147181f;
  const int heads = p.q.box_x, first_head = t.group * heads;
  const int64_t first_split =
      (static_cast<int64_t>(t.first_token) * p.q.extent_z * heads + first_head) * p.splits + t.first_split;
  view<T> out;
  out.data = static_cast<T*>(p.out.data) + p.out.offset(0, t.first_token, t.group);
  out.outer_stride = p.out.stride_x;
  out.cols = p.out.cols;
  out.vectors = p.out.vectors;
  view<float> lse;
  lse.data = p.log_sum_exp + t.first_token * p.lse_token_stride + first_head * p.lse_head_stride;
  lse.outer_stride = p.lse_head_stride;

  const auto power = [](auto m, auto most) { return m == -kInfinity ? 0.0f : fast_exp2(m - most); };
  const auto larger = [](auto a, auto b) { return b > a ? b : a; };
  const auto rows = local_rows<L>(ctx, p.out.cols);
  const auto step = static_cast<int>(tile_rows(ctx, rows));
  MT_NO_UNROLL
  for (int base = 0; base < heads; base += step) {
    const auto head = map([=](auto r) { return r + base < heads ? r + base : -1; }, row_index(rows));
    const auto at = at_rows(rows, head);
    auto acc = zeros(ctx, at);
    auto highest = row_fill(at, -kInfinity), total = row_fill(at, 0.0f);
    MT_NO_UNROLL
    for (int first = 0; first < t.splits; first += kAtOnce) {
      const float* const sums = static_cast<const float*>(p.partial.data) + (first_split + first) * kCols;
      const float* const statistics = p.statistics + 2 * (first_split + first);
      decltype(zeros(ctx, at)) here[kAtOnce];
      decltype(row_fill(at, 0.0f)) most[kAtOnce], weights[kAtOnce];
      MT_UNROLL
      for (int i = 0; i < kAtOnce; ++i)
        here[i] = load_sums(ctx, sums + i * kCols, int64_t{p.splits} * kCols, at, first + i < t.splits);
      MT_UNROLL
      for (int i = 0; i < kAtOnce; ++i) {
        const auto found = [=, there = first + i < t.splits, room = int64_t{p.splits}](auto h, int which, float none) {
          return there && h >= 0 ? statistics[2 * (h * room) + 2 * i + which] : none;
        };
        most[i] = map([=](auto h) { return found(h, 0, -kInfinity); }, head);
        weights[i] = map([=](auto h) { return found(h, 1, 0.0f); }, head);
      }
      auto above = highest;
      MT_UNROLL
      for (int i = 0; i < kAtOnce; ++i) above = map(larger, above, most[i]);
      const auto rescale = map(power, highest, above);
      highest = above;
      total = map([](auto a, auto r) { return a * r; }, total, rescale);
      assign(ctx, at, acc, map([](auto a, auto r) { return a * r; }, acc, rescale));
      MT_UNROLL
      for (int i = 0; i < kAtOnce; ++i) {
        const auto share = map(power, most[i], above);
        total = map([](auto a, auto w, auto s) { return a + w * s; }, total, weights[i], share);
        assign(ctx, at, acc, map([](auto a, auto x, auto s) { return a + x * s; }, acc, here[i], share));
      }
    }
    const float* const sinks = p.sinks;
    const auto sink =
        map([=](auto h) { return sinks == nullptr || h < 0 ? -kInfinity : sinks[first_head + h] * kLog2e; }, head);
    const auto most = map(larger, highest, sink), share = map(power, highest, most);
    const auto sum = map([=](auto a, auto s, auto k, auto m) { return a * s + power(k, m); }, total, share, sink, most);
    const auto factor = map([](auto s, auto a) { return a == 0.0f ? 0.0f : fast_divide(s, a); }, share, sum);
    store_joined(ctx, out, at, map([](auto a, auto f) { return a * f; }, acc, factor));
    if (p.log_sum_exp == nullptr) continue;
    store_row_value(ctx, lse, at,
                    map([](auto m, auto s) { return s == 0.0f ? -kInfinity : m * kLn2 + fast_log(s); }, most, sum));
  }
}

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

  /// And what is looked up about them: visit(array, values).
  template <class Visit>
  MT_FN void looked_up(Visit visit) const {
    visit(this->p.kv_length, int64_t{this->p.sequences});
    visit(this->p.q_start, int64_t{this->p.sequences});
    visit(this->p.kv_start, int64_t{this->p.sequences});
    visit(this->p.block_table, this->p.sequences * this->p.table_stride);
  }

  /// Splits of a sequence lie side by side.
  MT_FN DecodeTile tile(int64_t index) const {
    const auto unit = static_cast<int>(index / split_params.splits), sequence = unit / groups();
    return part(tiles(sequence), unit - sequence * groups(), static_cast<int>(index % split_params.splits));
  }
  // For schedules whose programs share out what there is: sequences, their groups of heads, and the splits of each.
  MT_FN int sequences() const { return this->p.sequences; }
  MT_FN int groups() const { return this->p.q.extent_z; }
  /// What all tiles of a sequence have in common. A query that sees no key has one split without any, so that somebody
  /// writes its result.
  MT_FN DecodeTile tiles(int sequence) const {
    DecodeTile t{Base::tile_at(sequence, 0, 0)};
    if (!t.exists) return t;
    const int keys = split_keys(t.length, split_params.least_split);
    const bool any = t.keys.first < t.keys.end;
    t.first_split = any ? t.keys.first / keys : 0;
    t.splits = any ? (t.keys.end - 1) / keys + 1 - t.first_split : 1;
    return t;
  }
  /// One of them.
  MT_FN DecodeTile part(DecodeTile t, int group, int split) const {
    t.group = group;
    t.kv_head = group / this->p.groups_per_kv_head;
    t.split = split;
    t.exists = split >= t.first_split && split < t.first_split + t.splits;
    const int keys = split_keys(t.length, split_params.least_split), first = split * keys;
    t.keys = RangeMask::common(t.keys, {first, first + keys});
    if (t.keys.first >= t.keys.end) t.keys = {0, 0};
    return t;
  }
  /// Counts that programs share, if they take tiles from a queue: the next ticket, and how many splits are done of those
  /// that are joined with `t`'s.
  MT_FN int32_t* tickets() const { return split_params.counts; }
  MT_FN int32_t* arrivals(const DecodeTile& t) const {
    return split_params.counts + DecodeCounts::first_arrival + t.sequence * groups() + t.group;
  }
  template <class Ctx>
  MT_FN void join(Ctx& ctx, const DecodeTile& t) const {
    join_splits<T, blocked<4, 1, Cfg::dc / 4>>(ctx, split_params, t);
  }

  MT_FN int first_block(const DecodeTile& t) const { return t.keys.first / Cfg::bn; }
  MT_FN bool visits(const DecodeTile& t, int block) const { return this->seen(t, block) != Seen::none; }

  /// Sums as they are, and by what they are to be divided.
  template <class Ctx, class State, class Acc>
  MT_FN void finish(Ctx& cx, State& state, Acc& out, const DecodeTile& t) const {
    box_view to = split_params.partial;
    to.data = static_cast<float*>(to.data) + static_cast<int64_t>(t.split) * to.cols;
    const float scale = this->exponent_scale();
    // Where nothing was seen, -inf minus -inf would be NaN.
    const auto share = [=](float m, float most) { return m == most ? 1.0f : weight_exp2(m * scale - most * scale); };
    store_sums(cx, to, box_at{0, t.first_token, t.group, this->rows(t)}, out, state.highest, state.total, share,
               [&](int row, float m, float sum) {
                 const int64_t head = (int64_t{t.first_token} * to.extent_z + t.group) * to.extent_x + row;
                 float* const place = split_params.statistics + 2 * (head * split_params.splits + t.split);
                 place[0] = m == -kInfinity ? m : m * scale;
                 place[1] = sum;
               });
  }
};

/// Joins the splits where no program of `AttentionDecode` does: a program for each (sequence, group of heads).
template <class Cfg, class T, class Score>
struct MergeDecode {
  using Params = DecodeParams<Score>;
  static constexpr int max_threads = 128;

  template <class Ctx>
  static MT_FN void run(Ctx& ctx, const Params& p) {
    const AttentionDecode<Cfg, T, Score> body(p);
    const DecodeTile t = body.tile(ctx.program * p.splits);
    if (t.splits > 0) body.join(ctx, t);
  }
};

/// Sets the counts of an `AttentionDecode` with a queue to zero.
struct StartDecode {
  using Params = DecodeCounts;
  static constexpr int max_threads = 256;
  static constexpr bool after_scratch = true;

  template <class Ctx>
  static MT_FN void run(Ctx& ctx, const Params& p) {
    for_items(ctx, p.size, [=](int i) { p.counts[i] = 0; });
  }
};

}  // namespace monotile::kernels
