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

}  // namespace monotile::kernels
