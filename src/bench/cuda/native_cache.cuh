#pragma once
// Hand-written kernels on paged caches and rows: a thread takes 16 bytes, neighbours in a warp take neighbours in memory.
// Packed tensors only.

#include <cuda_fp8.h>

#include "bench/cuda/vectors.cuh"

namespace monotile::bench::native {

/// Extents of a paged cache [pages, heads, page_size, head], with a head in parts of one thread each.
struct Pages {
  int slots, heads, page_size, parts;

  /// Where the part is that thread `i` of a token-major grid takes, in parts from the start of the cache.
  __device__ size_t part_of(int slot, int head, int part) const {
    const size_t page = static_cast<size_t>(slot / page_size) * static_cast<size_t>(heads) + static_cast<size_t>(head);
    return (page * static_cast<size_t>(page_size) + static_cast<size_t>(slot % page_size)) *
               static_cast<size_t>(parts) +
           static_cast<size_t>(part);
  }
};

/// Rows of k and v to their slots; bits only, so one kernel serves every dtype.
__global__ void kv_append(uint4* __restrict__ keys, uint4* __restrict__ values, const uint4* __restrict__ k,
                          const uint4* __restrict__ v, const int* __restrict__ slots, Pages pages, size_t work) {
  const size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= work) return;
  const size_t row = i / static_cast<size_t>(pages.parts);
  const int part = static_cast<int>(i % static_cast<size_t>(pages.parts)),
            head = static_cast<int>(row % static_cast<size_t>(pages.heads)),
            slot = slots[row / static_cast<size_t>(pages.heads)];
  if (slot < 0 || slot >= pages.slots) return;
  const uint4 key = k[i], value = v[i];
  const size_t to = pages.part_of(slot, head, part);
  keys[to] = key;
  values[to] = value;
}

/// As many fp8 codes as elements fit 16 bytes, times a scale.
template <class T>
__device__ Vector<T> decoded(const __nv_fp8_e4m3* from, float scale) {
  struct alignas(Vector<T>::kElements) Codes {
    __nv_fp8_e4m3 v[Vector<T>::kElements];
  };
  const Codes codes = *reinterpret_cast<const Codes*>(from);
  Vector<T> out;
#pragma unroll
  for (int e = 0; e < Vector<T>::kElements; ++e) out.v[e] = narrow<T>(static_cast<float>(codes.v[e]) * scale);
  return out;
}

/// fp8 caches with a scale per head to rows of T; zeros for slots outside.
template <class T>
__global__ void kv_gather(T* __restrict__ k, T* __restrict__ v, const __nv_fp8_e4m3* __restrict__ keys,
                          const __nv_fp8_e4m3* __restrict__ values, const float* __restrict__ key_scale,
                          const float* __restrict__ value_scale, const int* __restrict__ slots, Pages pages,
                          size_t work) {
  constexpr int kElements = Vector<T>::kElements;
  const size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= work) return;
  const size_t row = i / static_cast<size_t>(pages.parts);
  const int part = static_cast<int>(i % static_cast<size_t>(pages.parts)),
            head = static_cast<int>(row % static_cast<size_t>(pages.heads)),
            slot = slots[row / static_cast<size_t>(pages.heads)];
  Vector<T> key{}, value{};
  if (slot >= 0 && slot < pages.slots) {
    const size_t from = pages.part_of(slot, head, part) * kElements;
    key = decoded<T>(keys + from, key_scale[head]);
    value = decoded<T>(values + from, value_scale[head]);
  }
  store16(k + i * kElements, key);
  store16(v + i * kElements, value);
}

/// Pages pairs[i][0] of both caches to pages pairs[i][1]: grid (parts of a page, pairs), kCopied vectors of each cache a
/// thread.
constexpr int kCopied = 4;
__global__ void copy_blocks(uint4* __restrict__ keys, uint4* __restrict__ values, const int2* __restrict__ pairs,
                            int pages, int vectors) {
  const int2 pair = pairs[blockIdx.y];
  if (pair.x < 0 || pair.x >= pages || pair.y < 0 || pair.y >= pages) return;
  const size_t from = static_cast<size_t>(pair.x) * static_cast<size_t>(vectors),
               to = static_cast<size_t>(pair.y) * static_cast<size_t>(vectors);
  const unsigned first = blockIdx.x * blockDim.x * kCopied + threadIdx.x;
  uint4 key[kCopied], value[kCopied];
#pragma unroll
  for (int i = 0; i < kCopied; ++i) {
    const unsigned at = first + static_cast<unsigned>(i) * blockDim.x;
    if (at >= static_cast<unsigned>(vectors)) continue;
    key[i] = keys[from + at];
    value[i] = values[from + at];
  }
#pragma unroll
  for (int i = 0; i < kCopied; ++i) {
    const unsigned at = first + static_cast<unsigned>(i) * blockDim.x;
    if (at >= static_cast<unsigned>(vectors)) continue;
    keys[to + at] = key[i];
    values[to + at] = value[i];
  }
}

/// y[t] = x[ids[t]], zeros for an id outside; one block per row.
__global__ void gather_rows(uint4* __restrict__ y, const uint4* __restrict__ x, const int* __restrict__ ids, int rows,
                            int vectors) {
  const int id = ids[blockIdx.x];
  const bool inside = id >= 0 && id < rows;
  const size_t from = static_cast<size_t>(inside ? id : 0) * static_cast<size_t>(vectors),
               to = static_cast<size_t>(blockIdx.x) * static_cast<size_t>(vectors);
  for (unsigned i = threadIdx.x; i < static_cast<unsigned>(vectors); i += blockDim.x)
    y[to + i] = inside ? x[from + i] : make_uint4(0, 0, 0, 0);
}

template <class T>
struct HeadRows {
  T *q, *keys, *values;
  const T *k, *v, *q_gamma, *k_gamma;
  const int *positions, *slots;
  const float *cos, *sin;
  int heads;  ///< of q
  float eps;
};

/// Norm, rotation (half-split pairs) and append in one launch: `pages.parts` lanes, a power of two up to 32, hold a head of
/// q, k or v. Rounds to T between norm and rotation.
template <class T>
__global__ void norm_rope_append(HeadRows<T> a, Pages pages, size_t work) {
  using V = Vector<T>;
  const size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const bool live = i < work;  // lanes past the end shuffle with the others
  const size_t row = (live ? i : 0) / static_cast<size_t>(pages.parts);
  const int all = a.heads + 2 * pages.heads, part = static_cast<int>(threadIdx.x) % pages.parts,
            head = static_cast<int>(row % static_cast<size_t>(all)), dim = pages.parts * V::kElements;
  const size_t token = row / static_cast<size_t>(all);
  const bool is_q = head < a.heads, is_v = head >= a.heads + pages.heads;
  const int kv_head = is_q ? 0 : is_v ? head - a.heads - pages.heads : head - a.heads;
  const size_t q_at = (token * static_cast<size_t>(a.heads) + static_cast<size_t>(head)) * static_cast<size_t>(dim),
               kv_at =
                   (token * static_cast<size_t>(pages.heads) + static_cast<size_t>(kv_head)) * static_cast<size_t>(dim);
  V x = load16((is_q ? a.q + q_at : (is_v ? a.v : a.k) + kv_at) + part * V::kElements);
  float sum = 0;
#pragma unroll
  for (int e = 0; e < V::kElements; ++e) sum += widen(x.v[e]) * widen(x.v[e]);
  for (int step = pages.parts / 2; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
  if (!is_v) {
    const float scale = rsqrtf(sum / static_cast<float>(dim) + a.eps);
    const V gamma = load16((is_q ? a.q_gamma : a.k_gamma) + part * V::kElements);
#pragma unroll
    for (int e = 0; e < V::kElements; ++e) x.v[e] = narrow<T>(widen(x.v[e]) * scale * widen(gamma.v[e]));
  }
  const int half = pages.parts / 2, pair = part % half * V::kElements;
  const size_t angle =
      static_cast<size_t>(a.positions[token]) * static_cast<size_t>(half * V::kElements) + static_cast<size_t>(pair);
  Vector<float> cos[V::kElements / 4], sin[V::kElements / 4];
#pragma unroll
  for (int i = 0; i < V::kElements / 4; ++i) {
    cos[i] = load16(a.cos + angle + 4 * i);
    sin[i] = load16(a.sin + angle + 4 * i);
  }
#pragma unroll
  for (int e = 0; e < V::kElements; ++e) {
    const float mine = widen(x.v[e]), other = __shfl_xor_sync(0xffffffffu, mine, half);
    const float c = cos[e / 4].v[e % 4], s = sin[e / 4].v[e % 4];
    if (!is_v) x.v[e] = narrow<T>(part < half ? mine * c - other * s : mine * c + other * s);
  }
  if (!live) return;
  if (is_q) return store16(a.q + q_at + part * V::kElements, x);
  const int slot = a.slots[token];
  if (slot < 0 || slot >= pages.slots) return;
  store16((is_v ? a.values : a.keys) + pages.part_of(slot, kv_head, part) * V::kElements, x);
}

}  // namespace monotile::bench::native
