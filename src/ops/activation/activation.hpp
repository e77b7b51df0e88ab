#pragma once
#include "monotile/dispatch.hpp"
#include "monotile/ops/activation.hpp"

namespace monotile::ops {

extern const Implementation<GatedActivationArgs> gated_activation_reference, gated_activation_portable;
extern const Implementation<BiasActivationArgs> bias_activation_reference, bias_activation_portable;
/// An activation with its limits at the infinities, in fp64.
double activation_of(Activation activation, double x);
void bias_activation_reference_run(const BiasActivationArgs& args);
/// The oracle; host memory only, arguments checked.
void gated_activation_reference_run(const GatedActivationArgs& args);

extern const OperatorInfo gated_activation_operator, bias_activation_operator;

}  // namespace monotile::ops
