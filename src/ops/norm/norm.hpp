#pragma once
#include "monotile/dispatch.hpp"
#include "monotile/ops/norm.hpp"

namespace monotile::ops {

extern const Implementation<RmsNormArgs> rms_norm_reference, rms_norm_portable;
/// The oracle; host memory only, arguments checked.
void rms_norm_reference_run(const RmsNormArgs& args);

extern const OperatorInfo rms_norm_operator, add_rms_norm_operator;

}  // namespace monotile::ops
