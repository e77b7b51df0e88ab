#pragma once
// Teams in the emulator: the waves of all of a team's programs are fibres of one run, whose barriers hold all of them.

#include "monotile/lang/backend/emulated/launch.hpp"

namespace monotile::lang::inline MONOTILE_TARGET_NAME {

inline constexpr bool kTeams = true;

template <int Turn>
inline team_pairs team_exchange(Context& ctx, int team, sums mine) {
  static_assert(Turn < kTeamTurns, "each exchange has slots of its own");
  constexpr int kFirst = Turn * kMostTeam;
  const int rank = static_cast<int>(ctx.program % team);
  unsigned char* const first = ctx.scratch - rank * kTeamScratch;  // scratch of a team lies side by side: run_team
  for (int i = 0; i < team && ctx.first_thread == 0; ++i)
    share(reinterpret_cast<sums*>(first + i * kTeamScratch) + kFirst + rank, mine);
  ctx.barrier();
  return {reinterpret_cast<const sums*>(ctx.scratch) + kFirst, team};
}

template <class K, class Params>
void run_team(int64_t first, int team, const Grid& grid, const Params& params) {
  const size_t size = static_cast<size_t>(team);
  std::vector<unsigned char> slots(size * kSlotBytes + 16, 0xff), scratch(size * kTeamScratch + 16, 0xff);
  const auto aligned = [](std::vector<unsigned char>& v) {
    return reinterpret_cast<unsigned char*>((reinterpret_cast<uintptr_t>(v.data()) + 15) & ~uintptr_t{15});
  };
  unsigned char *const slots16 = aligned(slots), *const scratch16 = aligned(scratch);
  const emulated::WatchedProgram watched(first, slots16, size * kSlotBytes, scratch16, size * kTeamScratch);
  const int waves = grid.threads / kWave;
  emulated::run_waves(waves * team, [&](int wave, void* fibre) {
    const int rank = wave / waves;
    Context ctx{first + rank, grid.threads, slots16 + rank * kSlotBytes,
                scratch16 + static_cast<size_t>(rank) * kTeamScratch};
    ctx.first_thread = wave % waves * kWave;
    ctx.fibre = fibre;
    K::run(ctx, params);
  });
}

template <class K, class Params>
void launch_team(Stream&, const Grid& grid, const Params& params) {
  const int team = K::team(params);
  if (grid.threads % kWave != 0 || team > kMostTeam || grid.programs % team != 0 || grid.scratch_bytes != kTeamScratch)
    throw Error(ErrorCode::internal, "emulated: not whole waves, whole teams and their scratch");
  struct Work {
    const Grid& grid;
    const Params& params;
    int team;
  } work{grid, params, team};
  parallel_for(
      grid.programs / team, 1,
      [](const void* context, int64_t begin, int64_t end, int) {
        const auto& w = *static_cast<const Work*>(context);
        for (int64_t i = begin; i < end; ++i) run_team<K>(i * w.team, w.team, w.grid, w.params);
      },
      &work);
}

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME
