#pragma once
// What the sampling kernels are given: filled by the host, passed by value.

#include "monotile/lang/view.hpp"

namespace monotile::kernels {

template <class X>
struct ArgmaxParams {
  lang::view<const X> logits;
  int32_t* ids;
  int32_t* status;  ///< may be null
  int64_t rows, cols;
};

/// One entry per row in each array; null: the parameter is off (temperature 1, seed and position 0).
template <class X>
struct SampleParams {
  lang::view<const X> logits;
  int32_t* ids;
  int32_t* status;
  const float *temperature, *top_p, *min_p;
  const int32_t* top_k;
  const int64_t *seeds, *positions;
  int64_t rows, cols;
};

}  // namespace monotile::kernels
