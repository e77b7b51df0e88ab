#pragma once
// What a careful CUDA programmer writes in an afternoon, one kernel per memory-bound operator: 16-byte loads, the row in
// registers, one pass over memory. Packed tensors only.

#include "bench/cuda/vectors.cuh"

namespace monotile::bench::native {

/// One block per row; PerThread vectors a thread.
template <class T, int PerThread, bool Residual>
__global__ void rms_norm(T* __restrict__ y, T* __restrict__ residual, const T* __restrict__ x,
                         const T* __restrict__ gamma, int cols, float eps) {
  using V = Vector<T>;
  const size_t row = static_cast<size_t>(blockIdx.x) * static_cast<size_t>(cols);
  V h[PerThread];
  float sum = 0;
#pragma unroll
  for (int i = 0; i < PerThread; ++i) {
    const int col = (i * static_cast<int>(blockDim.x) + static_cast<int>(threadIdx.x)) * V::kElements;
    if (col >= cols) break;
    h[i] = load16(x + row + col);
    if constexpr (Residual) {
      const V r = load16(residual + row + col);
#pragma unroll
      for (int e = 0; e < V::kElements; ++e) h[i].v[e] = narrow<T>(widen(h[i].v[e]) + widen(r.v[e]));
      store16(residual + row + col, h[i]);
    }
#pragma unroll
    for (int e = 0; e < V::kElements; ++e) sum += widen(h[i].v[e]) * widen(h[i].v[e]);
  }
  const float scale = rsqrtf(block_reduce<Add>(sum, 0.0f) / static_cast<float>(cols) + eps);
#pragma unroll
  for (int i = 0; i < PerThread; ++i) {
    const int col = (i * static_cast<int>(blockDim.x) + static_cast<int>(threadIdx.x)) * V::kElements;
    if (col >= cols) break;
    const V g = *reinterpret_cast<const V*>(gamma + col);
    V out;
#pragma unroll
    for (int e = 0; e < V::kElements; ++e) out.v[e] = narrow<T>(widen(h[i].v[e]) * scale * widen(g.v[e]));
    store16(y + row + col, out);
  }
}

template <class T>
__global__ void silu_mul(T* __restrict__ y, const T* __restrict__ gate, const T* __restrict__ up, size_t vectors) {
  using V = Vector<T>;
  const size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= vectors) return;
  const V g = load16(gate + i * V::kElements), u = load16(up + i * V::kElements);
  V out;
#pragma unroll
  for (int e = 0; e < V::kElements; ++e) {
    const float a = widen(g.v[e]);
    out.v[e] = narrow<T>(a / (1.0f + __expf(-a)) * widen(u.v[e]));
  }
  store16(y + i * V::kElements, out);
}

/// Half-split pairs, q and k in one launch: a thread takes one vector of the lower half of a head and its partner.
template <class T>
__global__ void rope(T* __restrict__ q, T* __restrict__ k, const int* __restrict__ positions,
                     const float* __restrict__ cos, const float* __restrict__ sin, int heads, int kv_heads, int half,
                     size_t work) {
  using V = Vector<T>;
  const size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= work) return;
  const int per_head = half / V::kElements, per_token = (heads + kv_heads) * per_head;
  const size_t token = i / static_cast<size_t>(per_token);
  const int rest = static_cast<int>(i % static_cast<size_t>(per_token)), head = rest / per_head,
            at = rest % per_head * V::kElements;
  T* const base = head < heads ? q + (token * static_cast<size_t>(heads) + static_cast<size_t>(head)) *
                                         static_cast<size_t>(2 * half)
                               : k + (token * static_cast<size_t>(kv_heads) + static_cast<size_t>(head - heads)) *
                                         static_cast<size_t>(2 * half);
  const size_t angle = static_cast<size_t>(positions[token]) * static_cast<size_t>(half) + static_cast<size_t>(at);
  V low = load16(base + at), high = load16(base + half + at);
#pragma unroll
  for (int e = 0; e < V::kElements; ++e) {
    const float c = __ldg(cos + angle + e), s = __ldg(sin + angle + e), a = widen(low.v[e]), b = widen(high.v[e]);
    low.v[e] = narrow<T>(a * c - b * s);
    high.v[e] = narrow<T>(b * c + a * s);
  }
  store16(base + at, low);
  store16(base + half + at, high);
}

/// One block per row, which stays in registers.
template <class T, int PerThread>
__global__ void softmax(T* __restrict__ y, const T* __restrict__ x, int cols, float scale) {
  using V = Vector<T>;
  const size_t row = static_cast<size_t>(blockIdx.x) * static_cast<size_t>(cols);
  V h[PerThread];
  float largest = -INFINITY;
#pragma unroll
  for (int i = 0; i < PerThread; ++i) {
    const int col = (i * static_cast<int>(blockDim.x) + static_cast<int>(threadIdx.x)) * V::kElements;
    if (col >= cols) break;
    h[i] = load16(x + row + col);
#pragma unroll
    for (int e = 0; e < V::kElements; ++e) largest = fmaxf(largest, scale * widen(h[i].v[e]));
  }
  largest = block_reduce<Max>(largest, -INFINITY);
  float sum = 0;
#pragma unroll
  for (int i = 0; i < PerThread; ++i) {
    if ((i * static_cast<int>(blockDim.x) + static_cast<int>(threadIdx.x)) * V::kElements >= cols) break;
#pragma unroll
    for (int e = 0; e < V::kElements; ++e) sum += __expf(scale * widen(h[i].v[e]) - largest);
  }
  const float inverse = 1.0f / block_reduce<Add>(sum, 0.0f);
#pragma unroll
  for (int i = 0; i < PerThread; ++i) {
    const int col = (i * static_cast<int>(blockDim.x) + static_cast<int>(threadIdx.x)) * V::kElements;
    if (col >= cols) break;
    V out;
#pragma unroll
    for (int e = 0; e < V::kElements; ++e) out.v[e] = narrow<T>(__expf(scale * widen(h[i].v[e]) - largest) * inverse);
    store16(y + row + col, out);
  }
}

template <class T>
__global__ void embedding(T* __restrict__ y, const T* __restrict__ table, const int* __restrict__ ids, int cols) {
  using V = Vector<T>;
  const size_t from = static_cast<size_t>(ids[blockIdx.x]) * static_cast<size_t>(cols),
               to = static_cast<size_t>(blockIdx.x) * static_cast<size_t>(cols);
  for (int col = static_cast<int>(threadIdx.x) * V::kElements; col < cols;
       col += static_cast<int>(blockDim.x) * V::kElements)
    store16(y + to + col, load16(table + from + col));
}

}  // namespace monotile::bench::native
