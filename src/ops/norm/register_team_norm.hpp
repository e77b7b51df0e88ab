#pragma once
// How norms of long rows by teams of programs are instantiated: a file for each, to keep each compile short.

#include "monotile/kernels/norm/team_norm.hpp"
#include "ops/norm/variants.hpp"
#include "ops/register_team.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

using namespace monotile::ops;  // NOLINT

/// `WideGammaIsWide`: with an fp32 gamma beside 16-bit rows a lane needs as many registers as with fp32 rows.
template <template <class, class, class> class Kernel, bool WideGammaIsWide, class X, class R, class G>
void register_team_gamma(const char* name, norm::Types types) {
  constexpr bool kNarrow = sizeof(R) == 2 && (!WideGammaIsWide || sizeof(G) == 2);
  constexpr int kResident = kNarrow ? 768 : 512;  // 80 and 128 registers: with 64 and 80 they spill
  register_team<Kernel<X, R, G>, kTeamThreads, kResident>(name, norm::variant(types, norm::layout_for<X, G>(0)));
}
template <template <class, class, class> class Kernel, bool WideGammaIsWide, class X, class R>
void register_team_types(const char* name, norm::Types types) {
  if constexpr (lang::kTeams) {
    register_team_gamma<Kernel, WideGammaIsWide, X, R, X>(name, types);
    if constexpr (!std::is_same_v<X, float>) register_team_gamma<Kernel, WideGammaIsWide, X, R, float>(name, types);
  }
}
/// Kernel<x, residual, gamma> for all of these that norms take.
template <template <class, class, class> class Kernel, bool WideGammaIsWide = false>
void register_team_norm(const char* name) {
  register_team_types<Kernel, WideGammaIsWide, float, float>(name, norm::f32_f32);
  register_team_types<Kernel, WideGammaIsWide, half_t, half_t>(name, norm::f16_f16);
  register_team_types<Kernel, WideGammaIsWide, bfloat16_t, bfloat16_t>(name, norm::bf16_bf16);
  register_team_types<Kernel, WideGammaIsWide, half_t, float>(name, norm::f16_f32);
  register_team_types<Kernel, WideGammaIsWide, bfloat16_t, float>(name, norm::bf16_f32);
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
