#pragma once
// Running the waves of a program as fibres: each runs until it reaches a barrier or its end, then the next one does.

#include <string>
#include <vector>

#include "monotile/lang/backend/emulated/fibre.hpp"
#include "monotile/lang/backend/emulated/primitives.hpp"
#include "monotile/lang/backend/simt/launch_common.hpp"
#include "runtime/kernels.hpp"
#include "runtime/thread_pool.hpp"

namespace monotile::lang::inline MONOTILE_TARGET_NAME {

inline void misaligned_access(const void* p) { emulated::fail_misaligned(p); }
inline void Context::barrier() const {
  if constexpr (kLanes == 1) {
    emulated::program_barrier();
  } else if (fibre != nullptr) {
    emulated::wait_at_barrier(fibre);
  }
}

template <class K, class Params>
void run_program(int64_t program, const Grid& grid, const Params& params) {
  alignas(16) unsigned char slots[kSlotBytes];
  std::memset(slots, 0xff, sizeof slots);  // NaN: a read before a write shows
  std::vector<unsigned char> scratch(grid.scratch_bytes + 16, 0xff);
  auto* const scratch16 =
      reinterpret_cast<unsigned char*>((reinterpret_cast<uintptr_t>(scratch.data()) + 15) & ~uintptr_t{15});
  const emulated::WatchedProgram watched(program, slots, sizeof slots, scratch16, grid.scratch_bytes);
  const int waves = grid.threads / kWave;
  if (waves <= 1) {
    Context ctx{program, grid.threads, slots, scratch16};
    K::run(ctx, params);
    return;
  }
  emulated::run_waves(waves, [&](int wave, void* fibre) {
    Context ctx{program, grid.threads, slots, scratch16};
    ctx.first_thread = wave * kWave;
    ctx.fibre = fibre;
    K::run(ctx, params);
  });
}

template <class K, class Params>
void launch(Stream&, const Grid& grid, const Params& params) {
  if (grid.threads % kWave != 0)
    throw Error(ErrorCode::internal, "emulated: the threads of a program are not whole waves");
  struct Work {
    const Grid& grid;
    const Params& params;
  } work{grid, params};
  parallel_for(
      grid.programs, 1,
      [](const void* context, int64_t begin, int64_t end, int) {
        const auto& w = *static_cast<const Work*>(context);
        for (int64_t i = begin; i < end; ++i) run_program<K>(i, w.grid, w.params);
      },
      &work);
}

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME
