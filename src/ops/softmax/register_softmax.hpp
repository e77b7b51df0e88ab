#pragma once
// For the softmax kernels: the dtypes that all of them take.

#include "ops/register_kernel.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

/// Calls `f` for every (result, input).
template <class F>
void each_softmax_type(F f) {
  f.template operator()<float, float>();
  f.template operator()<half_t, half_t>();
  f.template operator()<bfloat16_t, bfloat16_t>();
  f.template operator()<float, half_t>();
  f.template operator()<float, bfloat16_t>();
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
