#pragma once
// Hand-written kernels of normalisation, activation and quantisation: 16-byte loads, the row in registers, one pass over
// memory. Packed tensors only.

#include <cstdint>

#include <cuda_fp8.h>

#include "bench/cuda/vectors.cuh"

namespace monotile::bench::native {

using e4m3 = __nv_fp8_e4m3;

/// N codes of one byte, written together.
template <class Code, int N>
struct alignas(N) Codes {
  Code v[N];
};
template <class Code>
__device__ Code code_of(float x);
template <>
__device__ inline e4m3 code_of<e4m3>(float x) {
  return e4m3(x);  // to nearest even, saturating
}
template <>
__device__ inline int8_t code_of<int8_t>(float x) {
  return x == x ? static_cast<int8_t>(fminf(fmaxf(rintf(x), -128.0f), 127.0f)) : int8_t{0};  // NaN has no code
}
template <class Code>
inline constexpr float kLargestCode = 448.0f;
template <>
inline constexpr float kLargestCode<int8_t> = 127.0f;

template <class Code>
__device__ float scale_for(float largest) {
  return largest == 0.0f ? 1.0f : fmaxf(largest / kLargestCode<Code>, 0x1p-126f);
}
template <class Code, class T>
__device__ void store_codes(Code* to, const Vector<T>& values, float inverse) {
  Codes<Code, Vector<T>::kElements> out;
#pragma unroll
  for (int e = 0; e < Vector<T>::kElements; ++e) out.v[e] = code_of<Code>(widen(values.v[e]) * inverse);
  *reinterpret_cast<Codes<Code, Vector<T>::kElements>*>(to) = out;
}
/// Of the finite ones: neither infinity nor NaN makes a scale.
template <class T>
__device__ float largest_of(const Vector<T>& values) {
  float largest = 0;
#pragma unroll
  for (int e = 0; e < Vector<T>::kElements; ++e) {
    const float size = fabsf(widen(values.v[e]));
    largest = size < INFINITY ? fmaxf(largest, size) : largest;
  }
  return largest;
}
/// First column of this thread's vector i.
template <class T>
__device__ int column(int i) {
  return (i * static_cast<int>(blockDim.x) + static_cast<int>(threadIdx.x)) * Vector<T>::kElements;
}
__device__ inline size_t row_start(int cols) { return static_cast<size_t>(blockIdx.x) * static_cast<size_t>(cols); }

/// Codes of this block's row, whose scale follows from the largest value of all threads.
template <class Code, class T, int PerThread>
__device__ void store_row_of_codes(Code* codes, float* scales, const Vector<T> (&values)[PerThread], int cols, float largest) {
  const float scale = scale_for<Code>(block_reduce<Max>(largest, 0.0f)), inverse = 1.0f / scale;
#pragma unroll
  for (int i = 0; i < PerThread; ++i) {
    if (column<T>(i) >= cols) break;
    store_codes(codes + column<T>(i), values[i], inverse);
  }
  if (threadIdx.x == 0) scales[blockIdx.x] = scale;
}

/// The mean first, then the squares of the distances from it.
template <class T, int PerThread>
__global__ void layer_norm(T* __restrict__ y, const T* __restrict__ x, const T* __restrict__ gamma,
                           const T* __restrict__ beta, int cols, float eps) {
  using V = Vector<T>;
  const size_t row = row_start(cols);
  V h[PerThread];
  float sum = 0;
#pragma unroll
  for (int i = 0; i < PerThread; ++i) {
    if (column<T>(i) >= cols) break;
    h[i] = load16(x + row + column<T>(i));
#pragma unroll
    for (int e = 0; e < V::kElements; ++e) sum += widen(h[i].v[e]);
  }
  const float mean = block_reduce<Add>(sum, 0.0f) / static_cast<float>(cols);
  float squares = 0;
#pragma unroll
  for (int i = 0; i < PerThread; ++i) {
    if (column<T>(i) >= cols) break;
#pragma unroll
    for (int e = 0; e < V::kElements; ++e) {
      const float d = widen(h[i].v[e]) - mean;
      squares += d * d;
    }
  }
  const float scale = rsqrtf(block_reduce<Add>(squares, 0.0f) / static_cast<float>(cols) + eps);
#pragma unroll
  for (int i = 0; i < PerThread; ++i) {
    const int col = column<T>(i);
    if (col >= cols) break;
    const V g = load16(gamma + col), b = load16(beta + col);
    V out;
#pragma unroll
    for (int e = 0; e < V::kElements; ++e)
      out.v[e] = narrow<T>((widen(h[i].v[e]) - mean) * scale * widen(g.v[e]) + widen(b.v[e]));
    store16(y + row + col, out);
  }
}

/// The row of codes is that of the normalised row rounded to T.
template <class T, int PerThread>
__global__ void add_rms_norm_quantise(e4m3* __restrict__ codes, float* __restrict__ scales, T* __restrict__ residual,
                                      const T* __restrict__ x, const T* __restrict__ gamma, int cols, float eps) {
  using V = Vector<T>;
  const size_t row = row_start(cols);
  V h[PerThread];
  float sum = 0;
#pragma unroll
  for (int i = 0; i < PerThread; ++i) {
    if (column<T>(i) >= cols) break;
    h[i] = load16(x + row + column<T>(i));
    const V r = load16(residual + row + column<T>(i));
#pragma unroll
    for (int e = 0; e < V::kElements; ++e) {
      h[i].v[e] = narrow<T>(widen(h[i].v[e]) + widen(r.v[e]));
      sum += widen(h[i].v[e]) * widen(h[i].v[e]);
    }
    store16(residual + row + column<T>(i), h[i]);
  }
  const float factor = rsqrtf(block_reduce<Add>(sum, 0.0f) / static_cast<float>(cols) + eps);
  float largest = 0;
#pragma unroll
  for (int i = 0; i < PerThread; ++i) {
    if (column<T>(i) >= cols) break;
    const V g = load16(gamma + column<T>(i));
#pragma unroll
    for (int e = 0; e < V::kElements; ++e) h[i].v[e] = narrow<T>(widen(h[i].v[e]) * factor * widen(g.v[e]));
    largest = fmaxf(largest, largest_of(h[i]));
  }
  store_row_of_codes(codes + row, scales, h, cols, largest);
}

/// A scale for each row.
template <class T, class Code, int PerThread>
__global__ void quantise(Code* __restrict__ codes, float* __restrict__ scales, const T* __restrict__ x, int cols) {
  const size_t row = row_start(cols);
  Vector<T> h[PerThread];
  float largest = 0;
#pragma unroll
  for (int i = 0; i < PerThread; ++i) {
    if (column<T>(i) >= cols) break;
    h[i] = load16(x + row + column<T>(i));
    largest = fmaxf(largest, largest_of(h[i]));
  }
  store_row_of_codes(codes + row, scales, h, cols, largest);
}

/// A scale for each 128 columns, which are 16 neighbouring threads (32 of fp32). All threads of a warp have work.
template <class T>
__global__ void quantise_groups(e4m3* __restrict__ codes, float* __restrict__ scales, const T* __restrict__ x) {
  constexpr int kThreads = 128 / Vector<T>::kElements;
  const size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x, at = i * Vector<T>::kElements;
  const Vector<T> v = load16(x + at);
  float largest = largest_of(v);
#pragma unroll
  for (int step = kThreads / 2; step > 0; step /= 2)
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, step));
  const float scale = scale_for<e4m3>(largest);
  store_codes(codes + at, v, 1.0f / scale);
  if (i % kThreads == 0) scales[i / kThreads] = scale;
}

/// 16 codes a thread.
template <class T>
__global__ void dequantise_groups(T* __restrict__ y, const e4m3* __restrict__ codes, const float* __restrict__ scales,
                                  size_t vectors) {
  using V = Vector<T>;
  const size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= vectors) return;
  const auto c = *reinterpret_cast<const Codes<e4m3, 16>*>(codes + i * 16);
  const float scale = scales[i / 8];
#pragma unroll
  for (int part = 0; part < 16 / V::kElements; ++part) {
    V out;
#pragma unroll
    for (int e = 0; e < V::kElements; ++e)
      out.v[e] = narrow<T>(static_cast<float>(c.v[part * V::kElements + e]) * scale);
    store16(y + i * 16 + part * V::kElements, out);
  }
}

/// A thread takes 16 bytes of a block's nibbles: 16 weights of one part and the 16 below them of the next.
template <class T>
__global__ void dequantise_q4_k(T* __restrict__ y, const unsigned char* __restrict__ blocks, size_t pieces) {
  using V = Vector<T>;
  constexpr int kBytes = 144, kScales = 4, kNibbles = 16;
  const size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= pieces) return;
  const unsigned char* const block = blocks + i / 8 * kBytes;
  const int piece = static_cast<int>(i % 8), pair = piece / 2;
  const __half2 both = *reinterpret_cast<const __half2*>(block);
  const float d = __low2float(both), least = __high2float(both);
  const auto nibbles = *reinterpret_cast<const Codes<unsigned char, 16>*>(block + kNibbles + piece * 16);
#pragma unroll
  for (int high = 0; high < 2; ++high) {
    const int part = 2 * pair + high;
    const unsigned char* const s = block + kScales;
    const int scale = part < 4 ? s[part] & 63 : (s[part + 4] & 15) | (s[part - 4] >> 6) << 4;
    const int offset = part < 4 ? s[part + 4] & 63 : s[part + 4] >> 4 | (s[part] >> 6) << 4;
    const float factor = d * static_cast<float>(scale), below = least * static_cast<float>(offset);
    T* const to = y + i / 8 * 256 + pair * 64 + high * 32 + piece % 2 * 16;
#pragma unroll
    for (int k = 0; k < 16 / V::kElements; ++k) {
      V out;
#pragma unroll
      for (int e = 0; e < V::kElements; ++e) {
        const int n = nibbles.v[k * V::kElements + e];
        out.v[e] = narrow<T>(factor * static_cast<float>(high == 0 ? n & 15 : n >> 4) - below);
      }
      store16(to + k * V::kElements, out);
    }
  }
}

/// The product is rounded to T before its codes are chosen.
template <class T, int PerThread>
__global__ void silu_mul_quantise(e4m3* __restrict__ codes, float* __restrict__ scales, const T* __restrict__ gate,
                                  const T* __restrict__ up, int cols) {
  using V = Vector<T>;
  const size_t row = row_start(cols);
  V h[PerThread];
  float largest = 0;
#pragma unroll
  for (int i = 0; i < PerThread; ++i) {
    if (column<T>(i) >= cols) break;
    h[i] = load16(gate + row + column<T>(i));
    const V u = load16(up + row + column<T>(i));
#pragma unroll
    for (int e = 0; e < V::kElements; ++e) {
      const float a = widen(h[i].v[e]);
      h[i].v[e] = narrow<T>(a / (1.0f + __expf(-a)) * widen(u.v[e]));
    }
    largest = fmaxf(largest, largest_of(h[i]));
  }
  store_row_of_codes(codes + row, scales, h, cols, largest);
}

/// y = GELU(x + bias) + residual, the form with tanh.
template <class T>
__global__ void bias_gelu(T* __restrict__ y, const T* __restrict__ x, const T* __restrict__ bias,
                          const T* __restrict__ residual, int row_vectors, size_t vectors) {
  using V = Vector<T>;
  const size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= vectors) return;
  const int col = static_cast<int>(i % static_cast<size_t>(row_vectors)) * V::kElements;
  const V a = load16(x + i * V::kElements), b = load16(bias + col), r = load16(residual + i * V::kElements);
  V out;
#pragma unroll
  for (int e = 0; e < V::kElements; ++e) {
    const float v = widen(a.v[e]) + widen(b.v[e]), inner = 0.7978845608f * (v + 0.044715f * v * v * v);
    // tanh(t) = 1 - 2 / (1 + exp(2 t))
    out.v[e] = narrow<T>(v * (1.0f - 1.0f / (1.0f + __expf(2.0f * inner))) + widen(r.v[e]));
  }
  store16(y + i * V::kElements, out);
}

}  // namespace monotile::bench::native
