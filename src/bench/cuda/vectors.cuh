#pragma once
// 16-byte vectors of half, bfloat16 and float for the hand-written comparison kernels.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace monotile::bench {

template <class T>
struct alignas(16) Vector {
  static constexpr int kElements = 16 / sizeof(T);
  T v[kElements];
};

__device__ inline float widen(__half x) { return __half2float(x); }
__device__ inline float widen(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ inline float widen(float x) { return x; }
template <class T>
__device__ T narrow(float x);
template <>
__device__ inline __half narrow<__half>(float x) {
  return __float2half_rn(x);
}
template <>
__device__ inline __nv_bfloat16 narrow<__nv_bfloat16>(float x) {
  return __float2bfloat16_rn(x);
}
template <>
__device__ inline float narrow<float>(float x) {
  return x;
}

// No cache hints: on an H200 streaming ones cost 6 % of a copy's bandwidth (2026-11-29).
template <class T>
__device__ Vector<T> load16(const T* from) {
  const uint4 raw = *reinterpret_cast<const uint4*>(from);
  return *reinterpret_cast<const Vector<T>*>(&raw);
}
template <class T>
__device__ void store16(T* to, const Vector<T>& value) {
  *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(&value);
}

struct Add {
  static __device__ float apply(float a, float b) { return a + b; }
};
struct Max {
  static __device__ float apply(float a, float b) { return fmaxf(a, b); }
};

/// Over all threads of the block, which is a whole number of warps. The same value in every thread.
template <class Op>
__device__ float block_reduce(float value, float neutral) {
  __shared__ float partial[32];
  for (int step = 16; step > 0; step /= 2) value = Op::apply(value, __shfl_xor_sync(0xffffffffu, value, step));
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  __syncthreads();  // `partial` may still be read from the reduction before
  if (lane == 0) partial[warp] = value;
  __syncthreads();
  value = lane < static_cast<int>(blockDim.x) / 32 ? partial[lane] : neutral;
  for (int step = 16; step > 0; step /= 2) value = Op::apply(value, __shfl_xor_sync(0xffffffffu, value, step));
  return value;
}

}  // namespace monotile::bench
