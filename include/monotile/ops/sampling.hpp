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

/// Draws one token per row: temperature, then top-k, then top-p (on the renormalised rest), then min-p (p >= min_p * p_max); Gumbel-max over
/// what is kept, so the same seed gives the same token on every backend. At least one token is always kept.
/// logits [rows, cols] f32, f16, bf16; ids [rows] i32; temperature, top_p, min_p f32 [rows]; top_k i32 [rows] (<= 0 or > cols: off);
/// seeds, positions i64 [rows] (the random counter is (position, purpose, token id), key the seed). temperature < 1e-5: argmax.
/// top_p >= 1 or <= 0 and min_p <= 0: off. Undefined parameter views mean temperature 1 and all filters off.
/// status as in ArgmaxArgs; a NaN row gives row_has_nan and id 0, other rows are unaffected.
struct SampleArgs {
  static constexpr const char* op_name = "sample";
  TensorView ids, logits;
  TensorView temperature, top_k, top_p, min_p;
  TensorView seeds, positions;
  TensorView status;  ///< optional
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

inline void argmax(Context& context, const TensorView& ids, const TensorView& logits, const TensorView& status = {}) {
  run(context, ArgmaxArgs{ids, logits, status});
}
inline void top_k(Context& context, const TensorView& values, const TensorView& ids, const TensorView& logits,
                  const TensorView& status = {}) {
  run(context, TopKArgs{values, ids, logits, status});
}
inline void sample(Context& context, const SampleArgs& args) { run(context, args); }

}  // namespace monotile::ops
