#pragma once
#include "monotile/dispatch.hpp"
#include "monotile/ops/moe.hpp"

namespace monotile::ops {

extern const Implementation<RouterArgs> router_reference, router_portable;
extern const Implementation<AlignArgs> align_reference, align_portable;
extern const Implementation<DispatchArgs> dispatch_reference, dispatch_portable;
extern const Implementation<PermuteArgs> permute_reference, permute_portable;
extern const Implementation<CombineArgs> combine_reference, combine_portable;
extern const Implementation<RouteArgs> route_reference, route_portable;
/// The oracles; host memory only, arguments checked.
void router_reference_run(const RouterArgs& args);
void align_reference_run(const AlignArgs& args);
void dispatch_reference_run(const DispatchArgs& args);
void permute_reference_run(const PermuteArgs& args);
void combine_reference_run(const CombineArgs& args);
void route_reference_run(const RouteArgs& args);

/// The parts of a routing call.
inline AlignArgs align_part(const RouteArgs& args) {
  AlignArgs part = args.align;
  part.experts = args.router.experts;
  return part;
}
inline DispatchArgs dispatch_part(const RouteArgs& args) { return {args.y, args.x, args.align.positions}; }

extern const OperatorInfo router_operator, align_operator, dispatch_operator, permute_operator, combine_operator,
    route_operator;

}  // namespace monotile::ops
