#pragma once
// What the proof programs have in common: status checks, a kernel that holds the queue, normal random numbers.

#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace proof {

inline void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  std::printf("%s: %s\n", what, cudaGetErrorString(status));
  std::exit(1);
}

/// Keeps the stream busy while the host queues the next launch: host time stays out of the figures.
static __global__ void spin(long long ns) {
  long long start, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
  do {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  } while (now - start < ns);
}
inline __device__ uint32_t mix(uint64_t x) {
  x ^= x >> 33, x *= 0xff51afd7ed558ccdull, x ^= x >> 33, x *= 0xc4ceb9fe1a85ec53ull, x ^= x >> 33;
  return static_cast<uint32_t>(x);
}
/// f(i, x) for each i below `n`, x normal; a grid of any size shares the work.
template <class F>
__device__ void each_normal(size_t n, uint64_t seed, F f) {
  for (size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x; i < n;
       i += static_cast<size_t>(gridDim.x) * blockDim.x) {
    const uint64_t at = seed * 0x9e3779b97f4a7c15ull + 2 * i;
    const float u = (mix(at) + 1.0f) * 0x1p-32f, v = mix(at + 1) * 0x1p-32f;
    f(i, sqrtf(-2.0f * logf(fmaxf(u, 1e-12f))) * cospif(2.0f * v));
  }
}

}  // namespace proof
