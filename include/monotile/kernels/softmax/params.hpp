#pragma once
// What the softmax kernel is given: filled by the host, passed by value.

#include "monotile/lang/view.hpp"

namespace monotile::kernels {

template <class Y, class X>
struct SoftmaxParams {
  lang::view<Y> y;
  lang::view<const X> x;
  int64_t rows, cols;
  float scale;
  bool log;
  lang::any_view mask;    ///< u8: what is 0 hides; others are added
  int64_t chunks;         ///< long rows: programs side by side along one
  float *largest, *sums;  ///< of each chunk: workspace
};

}  // namespace monotile::kernels
