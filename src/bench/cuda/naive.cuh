#pragma once
// What a first attempt looks like: one element per load, unfused chains, second passes over memory, angles computed on the
// fly. Right, and slow: the bottom of the ladder.

#include "bench/cuda/vectors.cuh"

namespace monotile::bench::naive {

template <class T>
__global__ void add(T* to, const T* x, size_t n) {
  const size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) to[i] = narrow<T>(widen(to[i]) + widen(x[i]));
}

/// Two passes over the row.
template <class T>
__global__ void rms_norm(T* y, const T* x, const T* gamma, int cols, float eps) {
  const size_t row = static_cast<size_t>(blockIdx.x) * static_cast<size_t>(cols);
  float sum = 0;
  for (int col = static_cast<int>(threadIdx.x); col < cols; col += static_cast<int>(blockDim.x)) {
    const float v = widen(x[row + col]);
    sum += v * v;
  }
  const float scale = rsqrtf(block_reduce<Add>(sum, 0.0f) / static_cast<float>(cols) + eps);
  for (int col = static_cast<int>(threadIdx.x); col < cols; col += static_cast<int>(blockDim.x))
    y[row + col] = narrow<T>(widen(x[row + col]) * scale * widen(gamma[col]));
}

/// One element per thread. Still one kernel: unfused it would round twice and not pass the check.
template <class T>
__global__ void silu_mul(T* y, const T* gate, const T* up, size_t n) {
  const size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float g = widen(gate[i]);
  y[i] = narrow<T>(g / (1.0f + expf(-g)) * widen(up[i]));
}

/// One thread per pair, angles from scratch, q and k apart.
template <class T>
__global__ void rope(T* x, const int* positions, int heads, int half, float base, size_t pairs) {
  const size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= pairs) return;
  const int pair = static_cast<int>(i % static_cast<size_t>(half));
  const size_t row = i / static_cast<size_t>(half), token = row / static_cast<size_t>(heads);
  const float angle =
      static_cast<float>(positions[token]) * powf(base, -static_cast<float>(pair) / static_cast<float>(half));
  const float c = cosf(angle), s = sinf(angle);
  T* const head = x + row * static_cast<size_t>(2 * half);
  const float a = widen(head[pair]), b = widen(head[pair + half]);
  head[pair] = narrow<T>(a * c - b * s);
  head[pair + half] = narrow<T>(b * c + a * s);
}

/// Three passes over the row.
template <class T>
__global__ void softmax(T* y, const T* x, int cols, float scale) {
  const size_t row = static_cast<size_t>(blockIdx.x) * static_cast<size_t>(cols);
  float largest = -INFINITY, sum = 0;
  for (int col = static_cast<int>(threadIdx.x); col < cols; col += static_cast<int>(blockDim.x))
    largest = fmaxf(largest, scale * widen(x[row + col]));
  largest = block_reduce<Max>(largest, -INFINITY);
  for (int col = static_cast<int>(threadIdx.x); col < cols; col += static_cast<int>(blockDim.x))
    sum += expf(scale * widen(x[row + col]) - largest);
  sum = block_reduce<Add>(sum, 0.0f);
  for (int col = static_cast<int>(threadIdx.x); col < cols; col += static_cast<int>(blockDim.x))
    y[row + col] = narrow<T>(expf(scale * widen(x[row + col]) - largest) / sum);
}

template <class T>
__global__ void embedding(T* y, const T* table, const int* ids, int cols, size_t n) {
  const size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n)
    y[i] = table[static_cast<size_t>(ids[i / static_cast<size_t>(cols)]) * static_cast<size_t>(cols) +
                 i % static_cast<size_t>(cols)];
}

/// One thread per row.
template <class T>
__global__ void argmax(int* ids, const T* x, int rows, int cols) {
  const int row = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (row >= rows) return;
  int best = 0;
  for (int col = 1; col < cols; ++col) {
    if (widen(x[static_cast<size_t>(row) * cols + col]) > widen(x[static_cast<size_t>(row) * cols + best])) best = col;
  }
  ids[row] = best;
}

}  // namespace monotile::bench::naive
