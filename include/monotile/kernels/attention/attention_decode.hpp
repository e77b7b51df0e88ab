#pragma once
// Attention of one query per sequence: the rows of a tile are the heads that share a kv head, and the keys are cut into
// splits whose bounds follow from the sequence's own length. Each split is the loop of many queries on a few blocks; what
// it found is joined by a second kernel, in an order that follows from the length as well.

#include "monotile/kernels/attention/decode_splits.hpp"
#include "monotile/lang/chain_config.hpp"
#include "monotile/lang/items.hpp"

namespace monotile::kernels {
using namespace lang;  // NOLINT: kernels are written in the language

template <class Cfg, class T, class Score, class Stored = T>
struct AttentionDecode : AttentionPrefill<Cfg, T, Score, Stored> {
  using Base = AttentionPrefill<Cfg, T, Score, Stored>;
  using Params = DecodeParams<Score>;
  static_assert(kLeastSplitKeys % Cfg::bn == 0, "splits are whole blocks");

  const Params& split_params;
  MT_FN explicit AttentionDecode(const Params& params) : Base{{params}}, split_params(params) {}

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
  template <class Reader = TableReader>
  MT_FN DecodeTile tiles(int sequence, Reader read = {}) const {
    DecodeTile t{Base::tile_at(sequence, 0, 0, read)};
    if (!t.exists) return t;
    const int keys = split_keys(t.length, split_params.least_split);
    const bool any = t.keys.first < t.keys.end;
    t.first_split = any ? t.keys.first / keys : 0;
    t.splits = any ? (t.keys.end - 1) / keys + 1 - t.first_split : 1;
    return t;
  }
  /// Do the tables say what `t` was made from, all of it right? Only what has one query may: the others are looked up again.
  template <class Reader>
  MT_FN bool stands(int sequence, const DecodeTile& t, Reader read) const {
    const bool dense = this->p.block_table == nullptr;
    const int begins = read(this->p.q_start + sequence), ends = read(this->p.q_start + sequence + 1),
              length = read(this->p.kv_length + sequence), row = dense ? read(this->p.kv_start + sequence) : 0;
    return t.exists & (begins == t.first_token) & (ends == begins + 1) & (length == t.length) & (row == t.first_key_row);
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
  /// Counts that programs share, if they take tiles from a queue (null: those that the target keeps), and which of them
  /// says how many splits are done of those that are joined with `t`'s.
  using Counts = DecodeCounts;
  MT_FN int32_t* counts() const { return split_params.counts; }
  MT_FN int slot() const { return split_params.slot; }
  MT_FN int arrival(const DecodeTile& t) const { return Counts::first_arrival + t.sequence * groups() + t.group; }
  /// Keys of a program's first tile that it may ask for early.
  MT_FN int foreseen() const { return split_params.foreseen; }
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
