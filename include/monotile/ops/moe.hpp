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

/// Rows that `sorted` must hold for any routing of `pairs` pairs to `experts` experts in blocks of `block` rows.
constexpr int64_t moe_align_capacity(int64_t pairs, int64_t experts, int64_t block) {
  const int64_t used = pairs < experts ? pairs : experts;  // experts that can have pairs at all
  return (pairs + used * (block - 1)) / block * block;
}

/// Sorts (token, rank) pairs by expert, in order of their pair number token * top_k + rank; each expert's share is padded to whole blocks.
/// experts [tokens, top_k] i32, packed: those in [first_expert, first_expert + E) count, all others are somewhere else (expert parallelism,
/// -1) and get position -1. E = counts.dim(0), 1 to 2048.
///   sorted [capacity] i32       pair numbers; tokens * top_k in padding and past the end. capacity: a multiple of `block`, at least
///                               moe_align_capacity(tokens * top_k, E, block)
///   positions [tokens, top_k] i32, packed   where in `sorted` each pair is
///   offsets [E + 1] i32         where each expert's share starts; the last one: where all end
///   counts [E] i32              pairs of each expert, without padding
///   block_experts [capacity / block] i32, optional   the expert of each block, -1 past the end
/// 1 <= block <= 65536; tokens * top_k < 2^30. Integers only: the same everywhere, every time. More than 4,096 pairs need a workspace
/// (plan.workspace_bytes).
struct AlignArgs {
  static constexpr const char* op_name = "moe_align";
  TensorView sorted, positions, offsets, counts;
  TensorView block_experts;  ///< optional
  TensorView experts;
  int64_t block = 1;
  int32_t first_expert = 0;
};

/// y[positions[t, j]] = x[t] for every pair with a position of 0 or more: each token's row is read once and written to its experts' rows.
/// x [tokens, cols], y [places, cols] of one dtype (f32, f16, bf16), row strides free; positions [tokens, top_k] i32, packed. Other rows of y
/// (padding) are not touched. Positions must be distinct and below `places`: they are moe_align's. Bits are kept (16-bit NaN may be quieted).
struct DispatchArgs {
  static constexpr const char* op_name = "moe_dispatch";
  TensorView y, x, positions;
};

/// y[i] = x[sorted[i] / top_k]; rows whose entry is no pair (at least tokens * top_k) become zeros: the gathering form of moe_dispatch, which
/// also clears padding. y [capacity, cols], x [tokens, cols] of one dtype (f32, f16, bf16); sorted [capacity] i32. Rows from `end[0]` on are
/// left alone; end [1] i32, optional: the last of moe_align's offsets.
struct PermuteArgs {
  static constexpr const char* op_name = "moe_permute";
  TensorView y, x, sorted;
  TensorView end;  ///< optional
  int64_t top_k = 1;
};

/// y[t] = addend[t] + sum over j of weights[t, j] * x[positions[t, j]], in fp32 in order of j, rounded once; pairs with position -1 are left
/// out. x [places, cols], y and addend (optional; may be y) [tokens, cols] of one dtype (f32, f16, bf16), row strides free; weights
/// [tokens, top_k] f32 and positions [tokens, top_k] i32, packed. A token without pairs gives its addend, or zeros. Rows of x that no position
/// names are never read.
struct CombineArgs {
  static constexpr const char* op_name = "moe_combine";
  TensorView y, x, weights, positions;
  TensorView addend;  ///< optional
};

/// moe_router, moe_align of its experts and moe_dispatch in one call: the same kernels in the same order, three launches (four above 4,096
/// pairs), so the results are those of the three calls to the bit. align.experts stays undefined: the router's are meant. x and y as in
/// DispatchArgs, with align.positions; both undefined: routing and sorting only. Needs a workspace above 4,096 pairs (plan.workspace_bytes).
struct RouteArgs {
  static constexpr const char* op_name = "moe_route";
  RouterArgs router;
  AlignArgs align;
  TensorView y, x;  ///< optional, together
};

inline void moe_router(Context& context, const RouterArgs& args) { run(context, args); }
inline void moe_align(Context& context, const AlignArgs& args) { run(context, args); }
inline void moe_dispatch(Context& context, const DispatchArgs& args) { run(context, args); }
inline void moe_permute(Context& context, const PermuteArgs& args) { run(context, args); }
inline void moe_combine(Context& context, const CombineArgs& args) { run(context, args); }
inline void moe_route(Context& context, const RouteArgs& args) { run(context, args); }

}  // namespace monotile::ops
