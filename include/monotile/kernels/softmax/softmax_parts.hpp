#pragma once
// What the kernels of softmax do alike.

#include "monotile/lang/lang.hpp"

namespace monotile::kernels {

/// The sign goes with the elements, the rest of the scale with the distance from the largest: nothing is rounded before it is small.
struct SoftmaxScale {
  float sign, scale, scale2;
  static MT_FN SoftmaxScale of(float scale) {
    const float sign = scale < 0.0f ? -1.0f : 1.0f;
    return {sign, scale * sign, scale * sign * 1.44269504f};
  }
};
/// Keeps rows and chunks of -infinity from becoming NaN.
struct finite_or_zero {
  template <class V>
  MT_FN auto operator()(V v) const {
    return lang::select(v == -lang::kInfinity, 0.0f, v);
  }
};

/// What a chunk's sum of powers counts beside the row's largest element; a chunk of -infinity nothing (or NaN), whatever the distance is.
MT_FN float share_of_chunk(float chunk_largest, float chunk_sum, float largest, float scale2) {
  return chunk_largest == -lang::kInfinity ? chunk_sum : chunk_sum * lang::fast_exp2((chunk_largest - largest) * scale2);
}

}  // namespace monotile::kernels
