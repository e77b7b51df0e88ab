#pragma once
// What the mixture-of-experts kernels are given: filled by the host, passed by value.

#include "monotile/lang/view.hpp"

namespace monotile::kernels {

template <class X>
struct RouterParams {
  lang::view<const X> logits;
  lang::any_vector bias;  ///< over experts; data null: none
  lang::view<float> weights;
  int32_t* experts;
  int32_t* status;  ///< may be null
  int64_t rows, num_experts;
  int32_t top_k;
  int32_t groups, kept_groups, group_sum;  ///< groups 1: no limit
  float scale;
  bool sigmoid, renormalise;
  bool by_score;  ///< choose by score (plus bias) instead of by logit
};

}  // namespace monotile::kernels
