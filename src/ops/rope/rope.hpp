#pragma once
#include "monotile/dispatch.hpp"
#include "monotile/ops/rope.hpp"

namespace monotile::ops {

extern const Implementation<RopeArgs> rope_reference, rope_portable;
/// The oracle; host memory only, arguments checked.
void rope_reference_run(const RopeArgs& args);

extern const OperatorInfo rope_operator;

}  // namespace monotile::ops
