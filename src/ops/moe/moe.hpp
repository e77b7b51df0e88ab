#pragma once
#include "monotile/dispatch.hpp"
#include "monotile/ops/moe.hpp"

namespace monotile::ops {

extern const Implementation<RouterArgs> router_reference, router_portable;
/// The oracles; host memory only, arguments checked.
void router_reference_run(const RouterArgs& args);

extern const OperatorInfo router_operator;

}  // namespace monotile::ops
