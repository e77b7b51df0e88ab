#pragma once
// Brings in the team words of this translation unit's target.

#include "monotile/lang/backend/backend.hpp"
#include "monotile/lang/reduction.hpp"

namespace monotile::lang::inline MONOTILE_TARGET_NAME {

/// Most programs of a team: what every multiprocessor that has clusters grants.
inline constexpr int kMostTeam = 8;
/// Exchanges of a kernel, each with slots of its own: none waits until an earlier one has been read.
inline constexpr int kTeamTurns = 2;
/// Bytes of scratch that a team's programs keep for each other, at the start of theirs.
inline constexpr size_t kTeamScratch = kTeamTurns * kMostTeam * sizeof(sums);
static_assert(kTeamScratch == 128, "what hosts pass");

/// A pair from each program, in the order of the programs: all(i).
struct team_pairs {
  const sums* slots;
  int count;

  MT_FN sums operator()(int i) const {
#if defined(MONOTILE_TARGET_EMULATED)
    emulated::note_read(slots + i, sizeof(sums));
#endif
    return slots[i];
  }
};

/// What every program of the team brings: the kernel's exchange number `Turn` (0 first, each of them once), by all lanes.
template <int Turn = 0>
MT_FN team_pairs team_exchange(Context& ctx, int team, sums mine);

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME

#if defined(MONOTILE_TARGET_CUDA)
#include "monotile/lang/backend/cuda/team.hpp"
#elif defined(MONOTILE_TARGET_EMULATED)
#include "monotile/lang/backend/emulated/team.hpp"
#else
namespace monotile::lang::inline MONOTILE_TARGET_NAME {
inline constexpr bool kTeams = false;
template <class K, class Params>
void launch_team(Stream& stream, const Grid& grid, const Params& params);  // not here
}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME
#endif
