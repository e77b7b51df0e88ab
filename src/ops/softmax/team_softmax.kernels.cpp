// Softmax of long rows by teams of programs, compiled once per target that has teams.

#include "monotile/kernels/softmax/team_softmax.hpp"
#include "ops/register_team.hpp"
#include "ops/softmax/register_softmax.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

using namespace monotile::ops;  // NOLINT

namespace {

template <class Y, class X>
void register_softmax_team() {
  if constexpr (lang::kTeams && sizeof(X) == 2) {
    // Four programs of 256 lanes share a multiprocessor: 128 KB of a row on chip there, with 32 registers of elements a lane.
    register_team<kernels::SoftmaxTeam<Y, X, team_layout>, kTeamThreads, 1024>("softmax_team",
                                                                               variant_of(dtype_of<X>, dtype_of<Y>, 0));
  }
}

}  // namespace

void register_kernels_team_softmax() {
  each_softmax_type([]<class Y, class X>() { register_softmax_team<Y, X>(); });
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
