#pragma once
#include "monotile/dispatch.hpp"
#include "monotile/ops/activation.hpp"

namespace monotile::ops {

extern const Implementation<GatedActivationArgs> gated_activation_reference, gated_activation_portable;
/// The oracle; host memory only, arguments checked.
void gated_activation_reference_run(const GatedActivationArgs& args);

extern const OperatorInfo gated_activation_operator;

}  // namespace monotile::ops
