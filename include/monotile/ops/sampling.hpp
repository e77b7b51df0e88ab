#pragma once
#include "monotile/dispatch.hpp"
#include "monotile/row_status.hpp"

namespace monotile::ops {

/// ids[r] = index of the largest of logits[r]; ties go to the lower index; NaN counts as -inf. A row with no finite or +inf value gives
/// id 0 and status row_no_valid_token.
/// logits [rows, cols] f32, f16, bf16, row stride free; ids [rows] i32; status (optional) [rows] i32.
struct ArgmaxArgs {
  static constexpr const char* op_name = "argmax";
  TensorView ids, logits;
  TensorView status;  ///< optional
};

/// Changes logits in place by what was said before. For each token that the used part of its row's history holds:
///   logit = logit > 0 ? logit / repetition : logit * repetition                      (prompt and generated part)
///   logit = logit - frequency * (times in the generated part) - presence             (generated part only)
/// and then, for each entry of bias_ids, logit[id] += bias (entries of one token add up in their order).
/// logits [rows, cols] f32, f16, bf16, row stride free: one rounding after the penalties and one after the bias; untouched logits keep their
/// bits. history [rows, most] i32, row stride free: the prompt, then what was generated; ids outside [0, cols) are skipped (-1 pads).
/// history_length [rows] i32: entries used (default: all), prompt_length [rows] i32: of those, from the prompt (default 0); both are clamped.
/// repetition (default 1, above 0), presence, frequency (default 0) [rows] f32. bias_ids [rows, n] i32 with bias [rows, n] f32, packed.
/// All but the logits is optional. -inf stays -inf. Source: Keskar et al., CTRL, 2019 (repetition).
struct PenaltiesArgs {
  static constexpr const char* op_name = "apply_penalties";
  TensorView logits;
  TensorView history, history_length, prompt_length;
  TensorView repetition, presence, frequency;
  TensorView bias_ids, bias;

  bool any() const { return history.defined() || bias_ids.defined(); }
};

/// Draws one token per row: penalties and bias, temperature, then top-k, then top-p (on the renormalised rest), then min-p (p >= min_p * p_max);
/// Gumbel-max over what is kept, so the same seed gives the same token on every backend. At least one token is always kept.
/// logits [rows, cols] f32, f16, bf16; ids [rows] i32; temperature, top_p, min_p f32 [rows]; top_k i32 [rows] (<= 0 or > cols: off);
/// seeds, positions i64 [rows] (the random counter is (position, purpose, token id), key the seed). temperature < 1e-5: argmax.
/// top_p >= 1 or <= 0 and min_p <= 0: off. Undefined parameter views mean temperature 1 and all filters off.
/// status as in ArgmaxArgs; a NaN row gives row_has_nan and id 0, other rows are unaffected.
/// penalties: as in PenaltiesArgs (its `logits` stay undefined); where a history or a bias is given the logits are changed in place.
/// Rows above 8,192 columns need a workspace on GPUs (plan.workspace_bytes).
struct SampleArgs {
  static constexpr const char* op_name = "sample";
  TensorView ids, logits;
  TensorView temperature, top_k, top_p, min_p;
  TensorView seeds, positions;
  TensorView status;  ///< optional
  PenaltiesArgs penalties{};
};

/// The k largest of each row in falling order, with their columns; ties go to the lower column, NaN counts as -inf (in `values` too).
/// logits [rows, cols] f32, f16, bf16, row stride free; values [rows, k] f32 and ids [rows, k] i32, packed, 1 <= k <= min(cols, 2048),
/// cols <= 2^24; status [rows] i32, optional: row_has_nan where a row holds a NaN. Exact: the values are those of the row. Needs a workspace
/// (plan.workspace_bytes) for rows above 8,192 columns on GPUs.
struct TopKArgs {
  static constexpr const char* op_name = "top_k";
  TensorView values, ids, logits;
  TensorView status;  ///< optional
};

/// Natural logarithms of softmax(logits): of given tokens, and of the k most likely ones in falling order, ties to the lower id.
/// logits [rows, cols] f32, f16, bf16, row stride free, cols <= 2^24; tokens [rows, n] i32 with logprobs [rows, n] f32, and top_ids [rows, k]
/// i32 with top_logprobs [rows, k] f32, k <= min(cols, 2048): packed, at least one of the two pairs. A token outside [0, cols) gives -inf, NaN
/// counts as -inf (status row_has_nan), a row of -inf gives -inf. status [rows] i32, optional. fp32 arithmetic.
/// Rows above 8,192 columns need a workspace on GPUs (plan.workspace_bytes).
struct LogprobsArgs {
  static constexpr const char* op_name = "logprobs";
  TensorView logprobs, tokens;
  TensorView top_logprobs, top_ids;
  TensorView logits;
  TensorView status;  ///< optional
};

/// Rejection sampling of drafted tokens, so that what comes out is distributed as the target's own samples. For each sequence, in order: draft
/// x with u * q(x) < p(x) stands, u the uniform draw of (seed; position, accept, 0); the first that does not is replaced by a draw from
/// max(p - q, 0), and what follows is dropped; if all stand, one more token is drawn from the target's next distribution.
/// Draws are exponential races, argmax of weight / -ln(u), u of (seed; position, residual or sample, token).
/// target_probs [batch, drafts + 1, cols] f32: p, after all filters (a row with one 1 is greedy decoding). draft_probs [batch, drafts, cols]
/// f32: q that the drafts were really drawn from (after its filters); undefined: the drafts were certain, q = 1 at the draft. Innermost
/// stride 1. Rows need not sum to 1. draft_tokens [batch, drafts] i32, packed; a token outside [0, cols) ends the drafts of its sequence, and
/// the next token is drawn from the target there. seeds, positions [batch] i64: position of the first draft; default 0.
/// tokens [batch, drafts + 1] i32, packed: accepted drafts, the new token, then -1; accepted [batch] i32: drafts that stand; status [batch]
/// i32, optional: row_no_valid_token where the target's row holds nothing above 0 (token 0). NaN counts as 0.
/// Where rounding leaves nothing of p - q, the rejected draft is taken. Needs a workspace (plan.workspace_bytes).
/// Source: Leviathan et al., 2023; Chen et al., 2023.
struct VerifyArgs {
  static constexpr const char* op_name = "speculative_verify";
  TensorView tokens, accepted;
  TensorView target_probs, draft_probs, draft_tokens;
  TensorView seeds, positions;
  TensorView status;  ///< optional
};

inline void argmax(Context& context, const TensorView& ids, const TensorView& logits, const TensorView& status = {}) {
  run(context, ArgmaxArgs{ids, logits, status});
}
inline void top_k(Context& context, const TensorView& values, const TensorView& ids, const TensorView& logits,
                  const TensorView& status = {}) {
  run(context, TopKArgs{values, ids, logits, status});
}
inline void sample(Context& context, const SampleArgs& args) { run(context, args); }
inline void apply_penalties(Context& context, const PenaltiesArgs& args) { run(context, args); }
inline void logprobs(Context& context, const LogprobsArgs& args) { run(context, args); }
inline void speculative_verify(Context& context, const VerifyArgs& args) { run(context, args); }

}  // namespace monotile::ops
