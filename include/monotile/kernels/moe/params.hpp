#pragma once
// What the mixture-of-experts kernels are given: filled by the host, passed by value.

#include "monotile/lang/view.hpp"

namespace monotile::kernels {

struct RouterChoice {
  lang::any_vector bias;  ///< over experts; data null: none
  float* weights;
  int64_t weights_stride;
  int32_t* experts;
  int32_t* status;  ///< may be null
  int64_t rows, num_experts;
  int32_t top_k;
  int32_t groups, kept_groups, group_sum;  ///< groups 1: no limit
  float scale, share;  ///< share: scale / top_k
  bool sigmoid, renormalise;
  bool by_score;  ///< choose by score (plus bias) instead of by logit
};
template <class X>
struct RouterParams {
  lang::view<const X> logits;
  RouterChoice choice;
};

/// Pairs are (token, rank): token * top_k + rank.
struct AlignParams {
  const int32_t* experts;  ///< of each pair
  int32_t* counts;         ///< [num_experts], may be null
  int32_t* offsets;        ///< [num_experts + 1]
  int32_t* sorted;         ///< [capacity]: pairs; `pairs` where there is none
  int32_t* positions;      ///< [pairs]: into `sorted`; -1: the expert is elsewhere
  int32_t* block_experts;  ///< [capacity / block], may be null; -1 past the end
  int32_t* partial;        ///< [chunks, num_experts]: workspace
  int32_t pairs, capacity, num_experts, first_expert, block;
  int32_t chunks, chunk_pairs;
  int32_t sharers;  ///< lanes that add up the chunks of one expert; twice as many counters of all experts lie in scratch
};

/// Rows that go to the places of their pairs, come from them, or are summed from them.
template <class X>
struct ExpertRowsParams {
  lang::view<const X> x;
  lang::view<X> y;
  lang::view<const X> addend;  ///< data null: none
  const int32_t* index;        ///< dispatch, combine: [rows, top_k] positions; permute: [rows] pairs
  const int32_t* end;          ///< permute: number of rows that count, may be null
  const float* weights;        ///< combine: [rows, top_k], packed
  int64_t rows, cols, chunks, pairs;
  int32_t top_k;
};

}  // namespace monotile::kernels
