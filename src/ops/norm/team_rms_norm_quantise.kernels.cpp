// RMSNorm with quantised output of long rows by teams of programs, compiled once per target that has teams.

#include "monotile/kernels/norm/team_norm.hpp"
#include "ops/norm/variants.hpp"
#include "ops/register_team.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

using namespace monotile::ops;  // NOLINT

namespace {

template <class X, class R, class G>
void register_gamma(norm::Types types) {
  constexpr int kResident =
      sizeof(R) == 2 && sizeof(G) == 2 ? 768 : 512;  // 80 and 128 registers: with 64 and 80 they spill
  register_team<kernels::RmsNormTeam<X, R, team_layout, G, true>, kTeamThreads, kResident>(
      "rms_norm_quantise_team", norm::variant(types, norm::layout_for<X, G>(0)));
}
template <class X, class R>
void register_types(norm::Types types) {
  if constexpr (lang::kTeams) {
    register_gamma<X, R, X>(types);
    if constexpr (!std::is_same_v<X, float>) register_gamma<X, R, float>(types);
  }
}

}  // namespace

void register_kernels_team_rms_norm_quantise() {
  register_types<float, float>(norm::f32_f32);
  register_types<half_t, half_t>(norm::f16_f16);
  register_types<bfloat16_t, bfloat16_t>(norm::bf16_bf16);
  register_types<half_t, float>(norm::f16_f32);
  register_types<bfloat16_t, float>(norm::bf16_f32);
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
