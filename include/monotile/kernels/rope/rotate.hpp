#pragma once
// The rotation of a pair (a, b) by an angle with cosine c and sine s: fused products are spelled out, so that every kernel gives the same bits.

#include "monotile/lang/lang.hpp"

namespace monotile::kernels {
using namespace lang;  // NOLINT: kernels are written in the language

/// a c - b s
struct rotated_first {
  template <class V>
  MT_FN V operator()(V a, V b, V c, V s) const {
    return fma_of(a, c, -(b * s));
  }
};
/// b c + a s, of (a, b)
struct rotated_second {
  template <class V>
  MT_FN V operator()(V a, V b, V c, V s) const {
    return fma_of(b, c, a * s);
  }
};
/// The same of (b, a): for pairs of neighbours, where the second of a pair comes first.
struct rotated_neighbour {
  template <class V>
  MT_FN V operator()(V b, V a, V c, V s) const {
    return fma_of(b, c, a * s);
  }
};

}  // namespace monotile::kernels
