#pragma once
// Launching on NVIDIA: one thread block per program.

#include <cuda_runtime.h>

#include <atomic>
#include <cstdint>
#include <string>

#include "monotile/lang/backend/cuda/primitives.hpp"
#include "monotile/lang/backend/simt/launch_common.hpp"
#include "runtime/cuda/current_device.hpp"
#include "runtime/kernels.hpp"

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

inline void check_launch(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  (void)cudaGetLastError();  // a refused call must not show up again in the application's next one
  throw Error(ErrorCode::device_error, std::string("cuda: ") + what + cudaGetErrorString(status));
}

/// Kernels may use 48 KB of shared memory unasked; more must be allowed once per kernel and device.
inline void allow_scratch(const void* kernel, std::atomic<uint64_t>& allowed, int device) {
  const uint64_t bit = uint64_t{1} << device;
  if ((allowed.load(std::memory_order_relaxed) & bit) != 0) return;
  int most = 0;
  cudaFuncAttributes attributes{};
  check_launch(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device), "shared memory limit: ");
  check_launch(cudaFuncGetAttributes(&attributes, kernel), "kernel attributes: ");
  check_launch(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, most - static_cast<int>(attributes.sharedSizeBytes)),
               "shared memory limit: ");
  allowed.fetch_or(bit, std::memory_order_relaxed);
}

/// `Kernel::after_scratch` (optional, its value is not read): the kernel before takes all shared memory, and a
/// multiprocessor must be empty before it is divided otherwise.
template <class K, class Params>
void launch(Stream& stream, const Grid& grid, const Params& params) {
  if (grid.programs == 0) return;
  if (grid.programs > INT32_MAX) {
    throw Error(ErrorCode::invalid_argument, "cuda: " + std::to_string(grid.programs) + " programs; at most 2147483647 fit into one launch");
  }
  const int device = stream.device().index;
  const cuda::CurrentDevice selected(device);
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(grid.programs));
  config.blockDim = dim3(static_cast<unsigned>(grid.threads));
  config.dynamicSmemBytes = grid.scratch_bytes;
  config.stream = static_cast<cudaStream_t>(stream.native());
  cudaLaunchAttribute attributes[2] = {};
  if constexpr (kTarget == Target::cuda_sm90) {  // older chips have no such waiting inside a kernel
    attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[0].val.programmaticStreamSerializationAllowed = 1;
    config.attrs = attributes;
    config.numAttrs = 1;
    if constexpr (requires { K::after_scratch; }) {
      attributes[1].id = cudaLaunchAttributePreferredSharedMemoryCarveout;
      attributes[1].val.sharedMemCarveout = cudaSharedmemCarveoutMaxShared;
      config.numAttrs = 2;
    }
  }
  if (grid.scratch_bytes > 47 * 1024) {  // the slots count, too
    static std::atomic<uint64_t> allowed{0};
    allow_scratch(reinterpret_cast<const void*>(&entry<K, Params>), allowed, device);
  }
  check_launch(cudaLaunchKernelEx(&config, entry<K, Params>, params), "launch failed: ");
}

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME
