#pragma once
#include "monotile/dispatch.hpp"
#include "monotile/ops/softmax.hpp"

namespace monotile::ops {

extern const Implementation<SoftmaxArgs> softmax_reference, softmax_portable, softmax_masked;
/// The oracle; host memory only, arguments checked.
void softmax_reference_run(const SoftmaxArgs& args);

extern const OperatorInfo softmax_operator;

}  // namespace monotile::ops
