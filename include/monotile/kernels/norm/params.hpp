#pragma once
// What the norm kernels are given: filled by the host, passed by value.

#include "monotile/lang/view.hpp"

namespace monotile::kernels {

template <class X, class R>
struct RmsNormParams {
  lang::view<X> y, x;
  lang::view<R> residual;
  lang::any_vector gamma, beta;
  int64_t rows, cols;
  float eps, gamma_offset;
};

/// RMSNorm with all its extras, and layer norm. Pieces whose data is null are absent.
template <class X, class R>
struct NormParams {
  lang::view<X> y, x;
  lang::view<R> residual;
  lang::any_view gamma, beta;  ///< a row per group; rows repeat
  lang::any_view codes;
  lang::view<float> scales;
  int64_t rows, cols;
  float eps, gamma_offset;
  float largest_code;
  bool given;      ///< the scale is read, not chosen
  int64_t chunks;  ///< long rows: programs side by side along one
};

}  // namespace monotile::kernels
