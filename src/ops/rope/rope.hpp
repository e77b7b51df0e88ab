#pragma once
#include "monotile/dispatch.hpp"
#include "monotile/ops/rope.hpp"

namespace monotile::ops {

extern const Implementation<RopeArgs> rope_reference, rope_portable;
extern const Implementation<NormRopeAppendArgs> norm_rope_append_reference, norm_rope_append_portable;
/// The oracle; host memory only, arguments checked.
void rope_reference_run(const RopeArgs& args);
void norm_rope_append_reference_run(const NormRopeAppendArgs& args);

extern const OperatorInfo rope_operator, norm_rope_append_operator;

}  // namespace monotile::ops
