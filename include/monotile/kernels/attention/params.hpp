#pragma once
// What the attention kernels are given: filled by the host, passed by value.

#include "monotile/lang/box_view.hpp"
#include "monotile/lang/view.hpp"

namespace monotile::kernels {

/// Keys of one split: a constant, so that the order of a row's sums depends on its length alone.
inline constexpr int64_t kSplitKeys = 512;

/// Stands for the element type of a cache of codes (fp8 or int8, known at run time): value = code * scale of its row.
struct codes_t {};
struct CodeRows {
  lang::any_view codes;
  lang::view<const float> scales;  ///< rows as those of the codes; strides of 0 where rows share one
};
template <class KV>
struct cache_rows {
  using type = lang::view<KV>;
};
template <>
struct cache_rows<codes_t> {
  using type = CodeRows;
};

template <class T, class KV>
struct AttentionParams {
  using cache = KV;
  lang::view<T> q, out;       ///< rows (token, head)
  typename cache_rows<KV>::type k, v;  ///< rows (page, offset) of kv head 0, or dense rows
  int64_t k_head_stride, v_head_stride;
  int64_t k_scale_head_stride, v_scale_head_stride;  ///< caches of codes
  const int32_t* block_table;  ///< nullptr: dense
  const int32_t* kv_start;     ///< dense only
  const int32_t* q_start;
  const int32_t* kv_length;
  float* log_sum_exp;          ///< may be nullptr
  int64_t lse_token_stride, lse_head_stride;
  int32_t* status;             ///< may be nullptr
  float* partial;              ///< splits > 1: [token * heads + head][split][maximum, sum, dim_v values]
  int64_t table_stride;
  int64_t window;              ///< 0: none
  int64_t max_kv_length;       ///< longer lengths are cut to it
  float scale_log2;            ///< scale * log2(e)
  float softcap, softcap_inverse;  ///< in the unit of the scores times log2(e); 0: none
  int32_t sequences, kv_heads, group;  ///< group: query heads per kv head
  int32_t tiles;               ///< query tiles per (sequence, kv head)
  int32_t splits;              ///< of the keys; 1 in the kernel that merges them
  int32_t merge_splits;        ///< what `partial` was laid out for
  int32_t page_size, pages;
  int64_t tokens;              ///< of q
  int64_t dense_rows;          ///< of a dense cache
  int32_t dim_qk, dim_v;
  bool causal;

  /// Splits that hold keys of a sequence of this length.
  MT_FN int64_t partial_splits(int64_t length) const {
    const int64_t n = (length + kSplitKeys - 1) / kSplitKeys;
    return n < merge_splits ? n : merge_splits;
  }
};

/// For `Attention` with a functor, which takes the place of causal, window and softcap.
template <class T, class KV, class Score>
struct ScoredParams : AttentionParams<T, KV> {
  Score score;
  float scale;         ///< of the scores
  const float* sinks;  ///< per head: a score without a value; may be nullptr
};

/// How a table on the device is read. Schedules have others: for hints, of which nothing is reported.
struct TableReader {
  static constexpr bool reports = true;
  MT_FN int operator()(const int32_t* entry) const { return *entry; }
};
/// v within [low, high]; tables on the device are clamped, and the sequence's status says so if it is to be reported.
template <class P>
MT_FN int64_t clamped(const P& p, int64_t sequence, int64_t v, int64_t low, int64_t high, bool reports = true) {
  if (v >= low && v <= high) return v;
  if (reports && p.status != nullptr) p.status[sequence] = 1;
  return v < low ? low : high;
}

/// Counts of a launch whose programs take tiles of queries from a queue: the next ticket, and how many programs have had
/// their last one. Who counts to the end leaves zeros behind.
struct TileCounts {
  static constexpr int ticket = 0, finished = 1;
  static constexpr int slots = 64, slot_size = 32;  ///< of those that a target keeps; a line each
};

/// For `AttentionPrefill`. A tile takes `q.box_x` neighbouring heads of `q.box_y` tokens.
template <class Score>
struct PrefillParams {
  lang::box_view q, out;       ///< (head within its group, token, group of heads)
  lang::box_view k, v;         ///< (row of its page, kv head, page); dense: one page
  lang::row_scales k_scales, v_scales;  ///< caches of codes
  const int32_t* block_table;  ///< nullptr: dense
  const int32_t* kv_start;     ///< dense only
  const int32_t* q_start;
  const int32_t* kv_length;
  const float* sinks;          ///< per head: a score without a value; may be nullptr
  float* log_sum_exp;          ///< may be nullptr
  int64_t lse_token_stride, lse_head_stride;
  int32_t* status;             ///< may be nullptr
  int64_t table_stride;
  int32_t sequences, groups_per_kv_head;
  int32_t tiles;               ///< per sequence and group of heads: from the bound of queries
  int32_t section;             ///< (sequence, group) pairs that are worked on at one time: their keys share the cache
  int32_t total;               ///< tiles x sequences x groups
  int32_t page_size, pages;
  int32_t page_shift;          ///< page_size is 2 to its power; -1: it is not
  int32_t max_kv_length;       ///< longer lengths are cut to it
  int32_t queue = -1;          ///< where programs take tiles by tickets: the slot of their counts; -1: by their numbers
  float scale, scale_log2;     ///< of the scores; times log2(e)
  Score score;
};

/// For `AttentionCodes`. Scales: one, or one for each head of queries and of the caches; a stride of 0 where heads share it.
template <class Score>
struct CodedParams : PrefillParams<Score> {
  const float *q_scale, *k_scale, *v_scale;
  int32_t q_scale_stride, k_scale_stride, v_scale_stride;
};

/// Keys of a split of one query's keys: a function of the sequence's length alone, so that the order of its sums is too.
/// Few enough for one sequence of 4,096 keys and 8 kv heads to fill a machine, many enough for sums to be little beside
/// keys; long sequences have `kMostSplits`. `least`: the shortest split of a kernel.
inline constexpr int kLeastSplitKeys = 256, kMostSplits = 64;
MT_FN constexpr int split_keys(int length, int least = kLeastSplitKeys) {
  if (length <= least * kMostSplits) return least;
  return ((length - 1) / kMostSplits / least + 1) * least;
}
/// The most splits that a length up to `bound` can have.
MT_FN constexpr int most_splits(int bound, int least = kLeastSplitKeys) {
  const int n = bound < 1 ? 1 : (bound - 1) / least + 1;
  return n < kMostSplits ? n : kMostSplits;
}

/// For `AttentionDecode` and `MergeDecode`: one token to a tile, all its heads of a kv head or an even part of them.
template <class Score>
struct DecodeParams : PrefillParams<Score> {
  lang::box_view partial;  ///< fp32 sums, rows (head within its group, token, group) of split 0; splits lie side by side
  float* statistics;       ///< [token][head][split][largest score in base 2, sum of weights]
  int32_t splits;          ///< room per (token, head)
  int32_t least_split;     ///< keys
  int32_t* counts;         ///< where programs share tiles by a queue: `DecodeCounts`, zeros at the start; nullptr: `slot`
  int32_t slot;            ///< the counts that a target keeps for itself, zeros between launches
  int32_t foreseen;        ///< keys of its first tile that a program may ask for before it knows whether they change
};

/// Counts of a launch whose programs take tiles from a queue: the next ticket, how many programs have taken their last
/// one, and how many splits of each (sequence, group of heads) are done, apart so that they are not waited for together.
/// Who counts to the end leaves a zero behind.
struct DecodeCounts {
  static constexpr int ticket = 0, finished = 1, first_arrival = 32;
  static constexpr int slots = 64, slot_size = 512;  ///< of those that a target keeps: for short calls, where a launch more is seen
  int32_t* counts;
  int32_t size;
};

}  // namespace monotile::kernels
