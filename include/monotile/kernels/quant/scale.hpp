#pragma once
// From magnitudes to scales, as functors: shared by everything that quantises.

#include "monotile/lang/lang.hpp"

namespace monotile::kernels {
using namespace lang;  // NOLINT: kernels are written in the language

/// |v| where it is a finite number, else 0: infinities saturate and NaN has a code of its own, so neither may choose the scale.
struct finite_magnitude {
  template <class V>
  MT_FN V operator()(V v) const {
    const V a = abs_of(v);
    return select(a < kInfinity, a, 0.0f);
  }
};

/// The scale that puts `most` on the largest code. 1 for zeros; never so small that its inverse overflows.
struct scale_of_most {
  float largest_code;
  MT_FN float operator()(float most) const {
    const float scale = most / largest_code;
    return most == 0.0f ? 1.0f : scale < 0x1p-126f ? 0x1p-126f : scale;
  }
};
struct inverse_of {
  MT_FN float operator()(float scale) const { return 1.0f / scale; }
};

}  // namespace monotile::kernels
