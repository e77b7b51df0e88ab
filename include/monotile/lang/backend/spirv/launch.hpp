#pragma once
// Launching through OpenCL: one work-group per program, one work-item per wave.

#include "monotile/lang/backend/offload.hpp"
#include "monotile/lang/backend/spirv/primitives.hpp"
#include "monotile/lang/backend/simt/launch_common.hpp"

namespace monotile::lang::inline MONOTILE_TARGET_NAME {

/// Local memory is an argument: arrays that a kernel declares itself are told from private ones by their names in some devices' compilers.
typedef __attribute__((address_space(3))) unsigned char local_byte;

/// Devices take 1024 bytes of arguments for sure; larger parameters lie in memory.
template <class Params>
inline constexpr bool kParamsInMemory = sizeof(Params) > 960;

#if MT_DEVICE_PASS
template <class K, class Params>
MT_DEVICE_CALL inline void run_program(const Params& p, local_byte* local) {
  unsigned char* const slots = (unsigned char*)local;
  Context ctx{static_cast<int64_t>(opencl::group_id(0)), static_cast<int>(opencl::local_size(0)) * kWave, slots,
              slots + kSlotBytes};
  ctx.wave = static_cast<int>(opencl::local_id(0));
  K::run(ctx, p);
}
template <class K, class Params>
MT_KERNEL void entry(Params p, local_byte* local) {
  run_program<K>(p, local);
}
template <class K, class Params>
MT_KERNEL void entry_from_memory(const Params* p, local_byte* local) {
  run_program<K>(*p, local);
}
#else
template <class K, class Params>
MT_KERNEL void entry(Params p, local_byte* local);
template <class K, class Params>
MT_KERNEL void entry_from_memory(const Params* p, local_byte* local);
#endif

template <class K, class Params>
void launch(Stream& stream, const Grid& grid, const Params& params) {
  constexpr bool kMemory = kParamsInMemory<Params>;
  const offload::Launch description{grid.programs, grid.threads / kWave, kSlotBytes + grid.scratch_bytes,
                                    &params,       sizeof(Params),       kMemory};
  if constexpr (kMemory) {
    MT_LAUNCH_KERNEL(stream, description, entry_from_memory<K, Params>);
  } else {
    MT_LAUNCH_KERNEL(stream, description, entry<K, Params>);
  }
}

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME
