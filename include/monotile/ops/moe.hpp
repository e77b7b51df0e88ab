#pragma once
#include "monotile/dispatch.hpp"
#include "monotile/row_status.hpp"

namespace monotile::ops {

/// How a router turns logits into scores.
enum class RouterScore : uint8_t {
  softmax = 0,  ///< over all experts
  sigmoid = 1,
};

/// Chooses the experts of each token: the top_k largest, in falling order, ties to the lower expert.
///   s = softmax(logits) or sigmoid(logits)
///   u = logits, or s + bias where a bias is given, or s where groups are scored by the sum of two
///   groups > 1: experts in `groups` equal ranges; a group's score is the largest u, or the sum of its two largest (the one, in groups of one); only the
///               `kept_groups` best groups stay (ties to the lower group)
///   experts = the top_k largest of u;  weights = s of these (never s + bias), / their sum if `renormalise`, * scale
/// logits [rows, E] f32, f16, bf16, row stride free, 1 <= E <= 2048; weights [rows, top_k] f32, row stride free; experts [rows, top_k] i32,
/// packed; 1 <= top_k <= E (with groups: <= kept_groups * E / groups); bias [E] f32, f16, bf16, optional; status [rows] i32, optional.
/// A row with NaN (status row_has_nan) or with all logits -inf (row_no_valid_token) takes experts 0 to top_k - 1 with weights scale / top_k.
/// Arithmetic is fp32. Chosen weights that are all 0 are renormalised to scale / top_k. The result of a row does not depend on the other rows.
/// Source: Shazeer et al., 2017 (top-k gating); DeepSeek-V2 and V3 technical reports, 2024 (groups, bias for choosing only).
struct RouterArgs {
  static constexpr const char* op_name = "moe_router";
  TensorView weights, experts, logits;
  TensorView bias;    ///< optional
  TensorView status;  ///< optional
  RouterScore score = RouterScore::softmax;
  bool renormalise = false;
  float scale = 1.0f;
  int32_t groups = 1;       ///< 1: no groups
  int32_t kept_groups = 1;  ///< of `groups`
  int32_t group_sum = 1;    ///< 1 or 2: how many of a group's largest make its score
};

inline void moe_router(Context& context, const RouterArgs& args) { run(context, args); }

}  // namespace monotile::ops
