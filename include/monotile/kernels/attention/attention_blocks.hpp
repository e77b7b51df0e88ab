#pragma once
// Attention by matrix tiles: which tiles of queries and which blocks of keys there are, and where their rows lie.

#include "monotile/lang/chain.hpp"
#include "monotile/lang/lang.hpp"

// After the language: scores use its mathematics.
#include "monotile/kernels/attention/params.hpp"
#include "monotile/kernels/attention/scores.hpp"

namespace monotile::kernels {
using namespace lang;  // NOLINT: kernels are written in the language

/// A block of queries of some heads that share their keys. Positions are those of `QueryAt`.
struct PrefillTile {
  bool exists;
  int sequence, group, kv_head, tokens;
  int first_token, first_query, length;
  KeySpan keys;       ///< that any of the queries may see
  KeySpan whole;      ///< that all of them see, where the functor says so
  int first_key_row;  ///< dense caches: the row of key 0
};

/// Stored: the element type of the caches, which become T on their way. codes_t where types are known at run time.
template <class Cfg, class T, class Score, class Stored = T>
struct AttentionBlocks {
  using Config = Cfg;
  using element = T;
  using cache_element = Stored;

  const PrefillParams<Score>& p;

  /// Functors may tell what all queries of a tile see, once per tile: copying warps ask for each block.
  static constexpr bool kKnowsWhole = requires(const Score& s) { s.whole(0, 0, 0, 0); };

  MT_FN int cols_a() const { return p.q.cols; }
  MT_FN int cols_c() const { return p.v.cols; }
  MT_FN int rows(const PrefillTile& t) const { return t.tokens * p.q.box_x; }

  // --- which tiles and blocks there are ------------------------------------------------------------------------------
  /// Tile number `index`: sections of heads whose keys stay in the cache; within one the last queries, which see most,
  /// come first.
  MT_FN PrefillTile tile(int64_t index) const {
    const int groups = p.q.extent_z, units = p.sequences * groups, i = static_cast<int>(index);
    const int section = i / (p.tiles * p.section), within = i - section * p.tiles * p.section;
    const int left = units - section * p.section, height = left < p.section ? left : p.section;
    const int down = within / height, unit = section * p.section + within - down * height;
    const int sequence = unit / groups;
    return tile_at(sequence, unit - sequence * groups, (p.tiles - 1 - down) * p.q.box_y);
  }
  /// Of the queries from number `first` on of a sequence.
  template <class Reader = TableReader>
  MT_FN PrefillTile tile_at(int sequence, int group, int first, Reader read = {}) const {
    PrefillTile t{};
    t.sequence = sequence;
    t.group = group;
    t.kv_head = group / p.groups_per_kv_head;
    const bool dense = p.block_table == nullptr;
    // All at once: a trip to memory each, and what is wrong with one is written before the next could be read.
    const int64_t begins = read(p.q_start + sequence), ends = read(p.q_start + sequence + 1),
                  length = read(p.kv_length + sequence), key_row = dense ? read(p.kv_start + sequence) : 0;
    const auto within = [&](int64_t v, int64_t low, int64_t high) {
      return static_cast<int>(clamped(p, sequence, v, low, high, read.reports));
    };
    const int tokens = p.q.extent_y, start = within(begins, 0, tokens), queries = within(ends, start, tokens) - start;
    t.exists = first < queries;
    if (!t.exists) return t;
    if (dense) t.first_key_row = within(key_row, 0, p.k.extent_x);
    const int room = dense ? p.k.extent_x - t.first_key_row : p.max_kv_length;
    t.length = within(length, 0, room < p.max_kv_length ? room : p.max_kv_length);
    t.tokens = queries - first < p.q.box_y ? queries - first : p.q.box_y;
    t.first_token = start + first;
    t.first_query = first + t.length - queries;
    const int last_query = t.first_query + t.tokens - 1;
    t.keys = p.score.keys(t.sequence, t.first_query, last_query, t.length);
    if constexpr (kKnowsWhole) t.whole = p.score.whole(t.sequence, t.first_query, last_query, t.length);
    return t;
  }
  MT_FN int blocks(const PrefillTile& t) const { return t.keys.end > 0 ? (t.keys.end + Cfg::bn - 1) / Cfg::bn : 0; }
  MT_FN Seen seen(const PrefillTile& t, int block) const {
    const int first = block * Cfg::bn, last = first + Cfg::bn - 1;
    if constexpr (kKnowsWhole) {
      if (last < t.keys.first || first >= t.keys.end) return Seen::none;
      return first >= t.whole.first && (last < t.length ? last : t.length - 1) < t.whole.end ? Seen::all : Seen::some;
    }
    return p.score.block({t.sequence, t.first_query, t.first_query + t.tokens - 1, first,
                          last < t.length ? last : t.length - 1, t.length});
  }
  /// The block that is visited after `block`, towards the first key; -1: none is left.
  MT_FN int after(const PrefillTile& t, int block) const {
    for (--block; block >= 0 && (block + 1) * Cfg::bn > t.keys.first; --block) {
      if (seen(t, block) != Seen::none) return block;
    }
    return -1;
  }
  /// Keys of the block that exist: behind them lies what nobody sees.
  MT_FN int rows_of_block(const PrefillTile& t, int block) const {
    return t.length - block * Cfg::bn < Cfg::bn ? t.length - block * Cfg::bn : Cfg::bn;
  }
  /// Are some scores of the block to be hidden?
  MT_FN bool hides(const PrefillTile& t, int block) const {
    return rows_of_block(t, block) < Cfg::bn || partial(t, block);
  }
  /// May some weights of the block be 0 because their keys are not seen?
  MT_FN bool partial(const PrefillTile& t, int block) const { return seen(t, block) == Seen::some; }

  // --- copies ----------------------------------------------------------------------------------------------------------
  template <class Ctx, class Tile>
  MT_FN void load_a(Ctx& cx, Tile& q, const PrefillTile& t) const {
    copy_boxes(cx, q, p.q, [&](int) { return box_at{0, t.first_token, t.group, rows(t)}; });
  }
  template <class Ctx, class Tile>
  MT_FN void load_b(Ctx& cx, Tile& k, const PrefillTile& t, int block) const {
    copy_boxes(cx, k, stored_rows<T, Stored>(p.k, p.k_scales),
               [&](int box) { return cache_box(t, p.k, block * Cfg::bn + box * p.k.box_x); });
  }
  template <class Ctx, class Tile>
  MT_FN void load_c(Ctx& cx, Tile& v, const PrefillTile& t, int block) const {
    copy_boxes(cx, v, stored_rows<T, Stored>(p.v, p.v_scales),
               [&](int box) { return cache_box(t, p.v, block * Cfg::bn + box * p.v.box_x); });
  }
  /// Pages without a key that someone may see are not looked up: their entries may be stale.
  template <class Reader = TableReader>
  MT_FN box_at cache_box(const PrefillTile& t, const box_view& cache, int key, Reader read = {}) const {
    if (key >= t.keys.end || key + cache.box_x <= t.keys.first) return {0, 0, cache.extent_z, 0};
    const int rows = t.length - key < cache.box_x ? t.length - key : cache.box_x;
    if (p.block_table == nullptr) return {t.first_key_row + key, t.kv_head, 0, rows};
    const int page = p.page_shift >= 0 ? key >> p.page_shift : key / p.page_size;
    const int64_t entry = read(p.block_table + (t.sequence * p.table_stride + page));
    const int64_t found = clamped(p, t.sequence, entry, 0, p.pages - 1, read.reports);
    return {key - page * p.page_size, t.kv_head, static_cast<int>(found), rows};
  }
};

}  // namespace monotile::kernels
