#pragma once
#include "monotile/dispatch.hpp"
#include "monotile/ops/sampling.hpp"

namespace monotile::ops {

extern const Implementation<ArgmaxArgs> argmax_reference, argmax_portable;
extern const Implementation<SampleArgs> sample_reference, sample_portable;
/// The oracles; host memory only, arguments checked.
void argmax_reference_run(const ArgmaxArgs& args);
void sample_reference_run(const SampleArgs& args);

extern const OperatorInfo argmax_operator, sample_operator;

}  // namespace monotile::ops
