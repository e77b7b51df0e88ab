// Quantisation of long rows by teams of programs, compiled once per target that has teams.

#include "monotile/kernels/quant/team_quantise.hpp"
#include "ops/register_team.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

using namespace monotile::ops;  // NOLINT

namespace {

template <class X>
void register_type() {
  if constexpr (lang::kTeams) {
    constexpr int kPlain = sizeof(X) == 2 ? 1024 : 512, kGated = 512;  // 64 and 128 registers: none spills
    register_team<kernels::QuantiseTeam<X, team_layout, false>, kTeamThreads, kPlain>("quantise_team",
                                                                                      variant_of(dtype_of<X>, 0));
    register_team<kernels::QuantiseTeam<X, team_layout, true>, kTeamThreads, kGated>("gated_quantise_team",
                                                                                     variant_of(dtype_of<X>, 0));
  }
}

}  // namespace

void register_kernels_team_quantise() {
  register_type<float>();
  register_type<half_t>();
  register_type<bfloat16_t>();
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
