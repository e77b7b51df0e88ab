#pragma once
// Launching on NVIDIA: one thread block per program.

#include <cuda_runtime.h>

#include "monotile/lang/backend/cuda/primitives.hpp"
#include "runtime/kernels.hpp"

namespace monotile::lang::inline MONOTILE_TARGET_NAME {

inline constexpr bool kHasLanes = true;  // layouts matter
inline constexpr Target kTarget = Target::MONOTILE_TARGET_NAME;
inline constexpr int kSlotBytes = 2 * 32 * 8;

/// `Kernel::max_threads` (optional) bounds the threads of a program and so the registers of a lane.
template <class K>
constexpr int max_threads_of() {
  if constexpr (requires { K::max_threads; }) return K::max_threads;
  return 1024;
}

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
  Context ctx{static_cast<int64_t>(blockIdx.x), static_cast<int>(blockDim.x), slots, dynamic_shared};
  K::run(ctx, p);
}


template <class K, class Params>
void launch(Stream& stream, const Grid& grid, const Params& params) {
  if (grid.programs == 0) return;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(grid.programs));
  config.blockDim = dim3(static_cast<unsigned>(grid.threads));
  config.dynamicSmemBytes = grid.scratch_bytes;
  config.stream = static_cast<cudaStream_t>(stream.native());
  if (grid.scratch_bytes > 48 * 1024) {
    static const cudaError_t raised = cudaFuncSetAttribute(entry<K, Params>, cudaFuncAttributeMaxDynamicSharedMemorySize, 200 * 1024);
    if (raised != cudaSuccess) throw Error(ErrorCode::device_error, std::string("cuda: shared memory limit: ") + cudaGetErrorString(raised));
  }
  const cudaError_t status = cudaLaunchKernelEx(&config, entry<K, Params>, params);
  if (status != cudaSuccess) throw Error(ErrorCode::device_error, std::string("cuda: launch failed: ") + cudaGetErrorString(status));
}

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME
