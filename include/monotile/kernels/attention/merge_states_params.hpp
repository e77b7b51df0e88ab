#pragma once
// What the kernel that joins parts of attention is given: filled by the host, passed by value.

#include "monotile/lang/view.hpp"

namespace monotile::kernels {

/// Rows are (token, head).
struct MergeStatesParams {
  struct State {
    lang::any_view out;
    lang::view<float> log_sum_exp;
  };
  State a, b, merged;
  int64_t rows, cols;
};

}  // namespace monotile::kernels
