// Softmax of long rows by teams of programs, compiled once per target that has teams.

#include "monotile/kernels/softmax/team_softmax.hpp"
#include "ops/register_team.hpp"
#include "ops/softmax/register_softmax.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

using namespace monotile::ops;  // NOLINT

namespace {

/// Of teams of two, for the longest rows (portable.cpp).
constexpr int kMostThreads = 1024;

template <class Y, class X>
void register_softmax_team() {
  if constexpr (lang::kTeams && sizeof(X) == 2) {
    // 1,024 lanes to a multiprocessor, in programs of any size: 128 KB of rows on chip there, 32 registers of elements a lane.
    register_team<kernels::SoftmaxTeam<Y, X, team_layout>, kMostThreads, 1024>(
        "softmax_team", variant_of(dtype_of<X>, dtype_of<Y>, 0));
  }
}

}  // namespace

void register_kernels_team_softmax() {
  each_softmax_type([]<class Y, class X>() { register_softmax_team<Y, X>(); });
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
