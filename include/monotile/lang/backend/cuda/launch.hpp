#pragma once
// Launching on NVIDIA: one thread block per program.

#include <cstdint>

#include "monotile/lang/backend/cuda/primitives.hpp"
#include "monotile/lang/backend/simt/launch_common.hpp"
#include "runtime/cuda/launch.hpp"

namespace monotile::lang::inline MONOTILE_TARGET_NAME {

/// `Kernel::resident_threads` (optional): lanes that should fit on a multiprocessor at once.
template <class K>
constexpr int min_blocks_of() {
  if constexpr (requires { K::resident_threads; }) return K::resident_threads / max_threads_of<K>();
  return 1;
}

template <class K, class Params>
__global__ void __launch_bounds__(max_threads_of<K>(), min_blocks_of<K>()) entry(const __grid_constant__ Params p) {
  extern __shared__ __align__(16) unsigned char dynamic_shared[];
  __shared__ __align__(16) unsigned char slots[kSlotBytes];
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  // The next kernel may take its place on the machine; what this one reads or writes is touched only once the one before is done.
  asm volatile("griddepcontrol.launch_dependents;");
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
  Context ctx{static_cast<int64_t>(blockIdx.x), static_cast<int>(blockDim.x), slots, dynamic_shared};
  K::run(ctx, p);
}

/// `Kernel::after_scratch` (optional, its value is not read): the kernel before takes all shared memory, and a
/// multiprocessor must be empty before it is divided otherwise.
template <class K, class Params>
void launch(Stream& stream, const Grid& grid, const Params& params) {
  if (grid.programs == 0) return;
  constexpr bool kWaits = kTarget == Target::cuda_sm90;  // older chips have no such waiting inside a kernel
  static cuda::Launchable kernel{.entry = reinterpret_cast<const void*>(&entry<K, Params>),
                                 .waits_itself = kWaits,
                                 .after_scratch = kWaits && requires { K::after_scratch; }};
  cuda::launch(stream, kernel, grid, &params);
}

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME
