#pragma once
#include <span>

#include "monotile/dispatch.hpp"

namespace monotile::ops {

/// out = softmax(mask(softcap(scale * q k^T))) v for a batch of sequences against dense or paged keys and values.
///
/// q [tokens, heads, dim_qk], out [tokens, heads, dim_v]: one dtype of f32, f16, bf16; outer strides free. Sequence s owns the query rows
/// q_start[s] .. q_start[s+1] - 1 and sees kv_length[s] keys (those of this step included).
/// Paged: key_cache [pages, kv_heads, page_size, dim_qk], value_cache [pages, kv_heads, page_size, dim_v], block_table [sequences, max_pages] i32.
/// Dense: block_table undefined; caches are [kv_tokens, kv_heads, dim] and kv_start [sequences] i32 gives each sequence's first key row.
/// Caches of the dtype of q, of f16 or bf16 under f32, or of codes (f8_e4m3, f8_e5m2, i8) as kv_append writes them: value = code * scale, with
/// key_scale and value_scale f32: [1] or [kv_heads] for all tokens, or, paged, [pages, kv_heads, page_size] (any strides).
/// Scales of slots that hold no key are never read.
/// q may be f8_e4m3 where the caches are: q = code * q_scale, f32 [1] or [heads]; out is then f16 or bf16. With several queries, scales for all or for
/// each head and masks alone, sm_90a multiplies codes and rounds the weights, times 2^8, to e4m3 (error of the result: 0.03 of its norm); everywhere
/// else queries become the dtype of out first.
/// heads is a multiple of kv_heads (GQA); dims from 1 to 256. q_start [sequences + 1], kv_length [sequences] i32.
/// `causal` aligns bottom-right: query i of n sees keys 0 .. i + (kv_length - n). `window` > 0 keeps the last `window` of those.
/// softcap > 0: s <- softcap * tanh(s / softcap). A row without keys gives 0 and log_sum_exp -inf.
/// log_sum_exp (optional) f32 [tokens, heads], natural logarithm, of the scaled scores.
/// Also per (query, key), positions as the causal mask aligns them, in this order: soft-cap, ALiBi, relative bias, masks.
/// `alibi_slopes` f32 [heads]: s <- s + slope * (key - query). `relative_bias` f32 [heads, 2r + 1]: s <- s + bias at
/// key - query, from -r to r, the ends going on. `prefix_length` i32 [sequences]: keys before it are seen by all queries
/// of the sequence, whatever causal and window say. `key_ranges` i32 [sequences, max_kv_length or more, 2]:
/// the query at a position sees keys from the first number to before the second alone, both never falling along the
/// positions (documents: the range of one's own). `sinks` f32 [heads]: one more score in the
/// sum of weights, without a value (log_sum_exp has it in).
/// Statistics and accumulation fp32; on GPUs weights are rounded to the dtype of q where queries and caches have the same 16 bits. Entries of block_table past the used length are never read; a used entry outside [0, pages) is
/// refused on host memory when no status is given, else clamped (status[s] = 1 where `status`, i32 [sequences], is given). Query rows that
/// belong to no sequence are not written.
struct AttentionArgs {
  static constexpr const char* op_name = "attention";
  TensorView out, q, key_cache, value_cache;
  TensorView block_table;  ///< paged only
  TensorView kv_start;     ///< dense only
  TensorView q_start, kv_length;
  TensorView log_sum_exp;  ///< optional
  TensorView status;       ///< optional
  float scale = 0.0f;      ///< 0 means 1 / sqrt(dim_qk)
  float softcap = 0.0f;
  int64_t window = 0;
  bool causal = true;
  int64_t max_query = 1;     ///< bound of q_start[s+1] - q_start[s]; 1 selects decode
  int64_t max_kv_length = 0; ///< bound of kv_length; 0: from the table (max_pages * page_size) or the dense row count
  TensorView prefix_length, key_ranges, alibi_slopes, relative_bias, sinks;  ///< optional
  TensorView tree_mask;  ///< see attention_verify
  TensorView key_scale, value_scale;  ///< caches of codes
  TensorView q_scale;                 ///< queries of codes
};

inline void attention(Context& context, const AttentionArgs& args) { run(context, args); }

/// Attention of drafted tokens of speculative decoding: the queries of a sequence are its drafts, whose keys are the last
/// ones of the sequence, in the same order. A query sees all keys before the drafts and, among the drafts, itself and
/// those that its row of `tree_mask` names (its ancestors).
///
/// `tree_mask` i32 [tokens, words], columns packed: bit j % 32 of word j / 32 stands for draft j of the token's own
/// sequence; words * 32 >= max_query. The bit of the token itself and bits of drafts that do not exist count for nothing.
/// Everything else as in AttentionArgs, and with these limits: causal stays true; kv_length[s] counts the drafts, too;
/// prefix_length, key_ranges, alibi_slopes and relative_bias are refused. `window` counts positions, and a draft stands
/// one behind its parent, whatever its number: it sees keys before the drafts from
/// (kv_length - drafts) + ancestors + 1 - window on; a window below max_query is refused. Throws Error without tree_mask.
void attention_verify(Context& context, const AttentionArgs& args);

/// Writes the rows of `tree_mask` of one sequence: `words` of each draft, its ancestors' bits. parents[i] is the number of
/// the draft that comes before draft i, below i, or -1 where none does. Throws Error for a parent out of order and for
/// more drafts than bits.
void tree_mask_of_parents(std::span<const int32_t> parents, int64_t words, int32_t* rows);

/// Two results of attention over different keys become the result over both: weights e^lse_a and e^lse_b, scaled by their sum.
///
/// out, a, b [tokens, heads, dim] with dim from 1 to 256, each any outer strides; a and b of one dtype of f32, f16, bf16, out of any of them (parts kept in
/// f32 lose nothing on the way). log_sum_exp_a, log_sum_exp_b, and optionally log_sum_exp f32 [tokens, heads], any strides, natural
/// logarithm as attention writes it. In place: out may be a or b, log_sum_exp may be log_sum_exp_a or log_sum_exp_b. A part whose log-sum-exp is -inf counts for nothing, whatever
/// its row holds; where both are, out is 0 and log_sum_exp -inf. NaN in a log-sum-exp gives NaN.
struct MergeStatesArgs {
  static constexpr const char* op_name = "merge_states";
  TensorView out, a, b;
  TensorView log_sum_exp_a, log_sum_exp_b;
  TensorView log_sum_exp;  ///< optional
};

inline void merge_states(Context& context, const MergeStatesArgs& args) { run(context, args); }

}  // namespace monotile::ops
