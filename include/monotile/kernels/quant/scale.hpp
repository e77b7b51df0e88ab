#pragma once
// From magnitudes to scales, as functors: shared by everything that quantises.

#include "monotile/lang/lang.hpp"

namespace monotile::kernels {
using namespace lang;  // NOLINT: kernels are written in the language

/// |v| where it is a finite number, else 0: infinities saturate and NaN has a code of its own, so neither may choose the scale.
struct finite_magnitude {
  static constexpr bool zero_unless_finite = true;
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
/// The row of scales for row (row of x, group): `block_rows` rows of x share the scales of their band.
struct scale_row {
  uint32_t groups, block_rows;
  MT_FN int64_t operator()(int64_t row) const {
    const uint32_t index = static_cast<uint32_t>(row), x_row = index / groups;
    const uint32_t band = x_row / block_rows, group = index - x_row * groups;
    return static_cast<int64_t>(band) * groups + group;
  }
};
struct inverse_of {
  MT_FN float operator()(float scale) const { return 1.0f / scale; }
};

}  // namespace monotile::kernels
