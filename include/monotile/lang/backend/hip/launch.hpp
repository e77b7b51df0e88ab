#pragma once
// Launching on AMD: one work-group per program.

#include <cstdint>

#include "monotile/lang/backend/hip/primitives.hpp"
#include "monotile/lang/backend/offload.hpp"
#include "monotile/lang/backend/simt/launch_common.hpp"

namespace monotile::lang::inline MONOTILE_TARGET_NAME {

/// Waves that should fit on a SIMD at once, from `Kernel::resident_threads` (optional): lanes of a compute unit.
template <class K>
constexpr int waves_per_simd_of() {
  if constexpr (requires { K::resident_threads; }) {
    const int waves = K::resident_threads / kWave / arch::simds;
    return waves < 1 ? 1 : waves < arch::waves_per_simd ? waves : arch::waves_per_simd;
  }
  return 1;
}

template <class K, class Params>
MT_KERNEL __attribute__((amdgpu_flat_work_group_size(kWave, max_threads_of<K>()),
                         amdgpu_waves_per_eu(waves_per_simd_of<K>()))) void
entry(const Params p) {
#if defined(__HIP_DEVICE_COMPILE__)
  extern __attribute__((shared)) words4 dynamic_shared[];
  static __attribute__((shared)) words4 slots[kSlotBytes / 16];
  Context ctx{static_cast<int64_t>(__builtin_amdgcn_workgroup_id_x()),
              static_cast<int>(__builtin_amdgcn_workgroup_size_x()), reinterpret_cast<unsigned char*>(slots),
              reinterpret_cast<unsigned char*>(dynamic_shared)};
  K::run(ctx, p);
#endif
}

template <class K, class Params>
void launch(Stream& stream, const Grid& grid, const Params& params) {
  if (grid.programs == 0) return;
  const offload::Launch description{grid.programs, grid.threads, grid.scratch_bytes, &params, sizeof(Params)};
  MT_LAUNCH_KERNEL(stream, description, entry<K, Params>);
}

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME
