#pragma once
// Teams: neighbouring programs that work on one row and tell each other what they found. Kernels that need it include this beside lang.hpp; where
// `kTeams` is false (or a row wants a larger team) the host takes two launches instead.

#include "monotile/lang/backend/team.hpp"
#include "monotile/lang/lang.hpp"

namespace monotile::lang::inline MONOTILE_TARGET_NAME {

/// The sum of what each program of the team has, added up in their order, and the largest. They are the exchange number `Turn` of their kernel.
template <int Turn>
MT_FN sums team_sum(Context& ctx, int team, sums mine) {
  const team_pairs all = team_exchange<Turn>(ctx, team, mine);
  sums total = all(0);
  for (int i = 1; i < all.count; ++i) total = total + all(i);
  return total;
}
template <int Turn>
MT_FN float team_max(Context& ctx, int team, float mine) {
  const team_pairs all = team_exchange<Turn>(ctx, team, sums{mine, 0.0f});
  float most = all(0).first;
  for (int i = 1; i < all.count; ++i) most = max_of(most, all(i).first);
  return most;
}

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME
