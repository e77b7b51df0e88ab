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

}  // namespace monotile::kernels
