#pragma once
// Hand-written kernels for mixtures of experts: routing, sorting, and the way of rows to experts and back. Packed tensors
// only.

#include <cstdint>

#include "bench/cuda/vectors.cuh"

namespace monotile::bench::native {

constexpr unsigned kWarp = 0xffffffffu;

/// Orders as floats do; equal for both zeros.
__device__ inline uint32_t ordered_bits(float x) {
  const uint32_t bits = x == 0.0f ? 0u : __float_as_uint(x);
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

/// One warp per token, PerLane neighbouring experts in each lane's registers. The largest logit is found top_k times; only
/// softmax or sigmoid of logits, no bias, no groups.
template <class T, int PerLane>
__global__ void router(float* __restrict__ weights, int* __restrict__ experts, const T* __restrict__ logits, int rows,
                       int top_k, bool sigmoid, bool renormalise, float scale) {
  struct alignas(sizeof(T) * PerLane) Logits {
    T v[PerLane];
  };
  const int lane = static_cast<int>(threadIdx.x) % 32,
            row = static_cast<int>((blockIdx.x * blockDim.x + threadIdx.x) / 32);
  if (row >= rows) return;  // the whole warp
  const Logits loaded = reinterpret_cast<const Logits*>(logits)[static_cast<size_t>(row) * 32 + lane];
  float x[PerLane], largest = -INFINITY;
  bool nan = false;
#pragma unroll
  for (int i = 0; i < PerLane; ++i) {
    x[i] = widen(loaded.v[i]);
    nan = nan || x[i] != x[i];
    largest = fmaxf(largest, x[i]);
  }
  for (int step = 16; step > 0; step /= 2) largest = fmaxf(largest, __shfl_xor_sync(kWarp, largest, step));
  weights += static_cast<size_t>(row) * static_cast<size_t>(top_k);
  experts += static_cast<size_t>(row) * static_cast<size_t>(top_k);
  if (__any_sync(kWarp, nan) || largest == -INFINITY) {
    for (int j = lane; j < top_k; j += 32) {
      weights[j] = scale / static_cast<float>(top_k);
      experts[j] = j;
    }
    return;
  }
  float total = 0;
  uint32_t key[PerLane];
#pragma unroll
  for (int i = 0; i < PerLane; ++i) {
    total += x[i] == largest ? 1.0f : __expf(x[i] - largest);
    key[i] = ordered_bits(x[i]);  // never 0: that is below -inf
  }
  for (int step = 16; step > 0; step /= 2) total += __shfl_xor_sync(kWarp, total, step);
  float mine = 0, chosen = 0;  // lane j keeps the score of rank j, so at most 32 are chosen
  uint32_t expert = 0;
  const auto score_of = [&](uint32_t found) {
    const float v = __uint_as_float((found & 0x80000000u) != 0 ? found & 0x7fffffffu : ~found);
    return sigmoid ? 1.0f / (1.0f + __expf(-v)) : (v == largest ? 1.0f : __expf(v - largest)) / total;
  };
  for (int j = 0; j < top_k; ++j) {
    uint32_t best = 0;
    int at = 0;
#pragma unroll
    for (int i = 0; i < PerLane; ++i) {
      if (key[i] > best) best = key[i], at = i;
    }
    const uint32_t found = __reduce_max_sync(kWarp, best);
    const int owner = __ffs(static_cast<int>(__ballot_sync(kWarp, best == found))) - 1;
    const int which = __shfl_sync(kWarp, lane * PerLane + at, owner);
    if (lane == owner) {
#pragma unroll
      for (int i = 0; i < PerLane; ++i) key[i] = i == at ? 0 : key[i];
    }
    const float score = score_of(found);
    chosen += score;
    if (lane == j) mine = score, expert = static_cast<uint32_t>(which);
  }
  if (lane >= top_k) return;
  if (renormalise) mine = chosen > 0 ? mine / chosen : 1.0f / static_cast<float>(top_k);
  weights[lane] = mine * scale;
  experts[lane] = static_cast<int>(expert);
}

constexpr int kChunk = 1024;      ///< pairs of a block, one a thread
constexpr int kMostChunks = 256;  ///< so at most 2^18 pairs
constexpr int kMostExperts = 256;

/// Pairs of each expert in each chunk. Static, because the table is small and a comparison kernel gets no workspace; calls
/// on two streams at once would spoil it.
__device__ int chunk_counts[kMostChunks * kMostExperts];

struct AlignTables {
  int *sorted, *positions, *offsets, *counts;
  const int* ids;
  int pairs, experts, capacity, block, first;
};

/// First launch: a histogram of each chunk; `sorted` becomes padding.
__global__ void align_count(AlignTables a) {
  __shared__ int histogram[kMostExperts];
  if (threadIdx.x < kMostExperts) histogram[threadIdx.x] = 0;
  __syncthreads();
  const int pair = static_cast<int>(blockIdx.x) * kChunk + static_cast<int>(threadIdx.x);
  const int expert = pair < a.pairs ? a.ids[pair] - a.first : -1;
  if (expert >= 0 && expert < a.experts) atomicAdd(&histogram[expert], 1);
  for (int i = pair; i < a.capacity; i += static_cast<int>(gridDim.x) * kChunk) a.sorted[i] = a.pairs;
  __syncthreads();
  if (static_cast<int>(threadIdx.x) < a.experts)
    chunk_counts[static_cast<int>(blockIdx.x) * a.experts + static_cast<int>(threadIdx.x)] = histogram[threadIdx.x];
}

/// Second launch: each chunk adds up what lies before it, then places its pairs in order.
__global__ void align_place(AlignTables a) {
  __shared__ int total[kMostExperts], start[kMostExperts], end[kMostExperts];
  __shared__ int by_warp[kChunk / 32][kMostExperts];
  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32, lane = thread % 32;
  for (int i = thread; i < kChunk / 32 * kMostExperts; i += kChunk) (&by_warp[0][0])[i] = 0;
  if (thread < kMostExperts) total[thread] = start[thread] = 0;
  __syncthreads();
  // Threads of one expert share the chunks.
  const int sharers = kChunk / a.experts;
  if (thread / a.experts < sharers) {
    const int expert = thread % a.experts;
    int all = 0, before = 0;
#pragma unroll 8
    for (int chunk = thread / a.experts; chunk < static_cast<int>(gridDim.x); chunk += sharers) {
      const int count = chunk_counts[chunk * a.experts + expert];
      all += count;
      before += chunk < static_cast<int>(blockIdx.x) ? count : 0;
    }
    atomicAdd(&total[expert], all);
    atomicAdd(&start[expert], before);
  }
  __syncthreads();
  const int share = thread < a.experts ? (total[thread] + a.block - 1) / a.block * a.block : 0;
  if (thread < kMostExperts) end[thread] = share;
  __syncthreads();
  for (int step = 1; step < kMostExperts; step *= 2) {
    const int lower = thread < kMostExperts && thread >= step ? end[thread - step] : 0;
    __syncthreads();
    if (thread < kMostExperts) end[thread] += lower;
    __syncthreads();
  }
  if (thread < a.experts) {
    start[thread] += end[thread] - share;
    if (blockIdx.x == 0) {
      a.counts[thread] = total[thread];
      a.offsets[thread] = end[thread] - share;
      if (thread == a.experts - 1) a.offsets[a.experts] = end[thread];
    }
  }
  const int pair = static_cast<int>(blockIdx.x) * kChunk + thread;
  const int id = pair < a.pairs ? a.ids[pair] - a.first : -1;
  const bool here = id >= 0 && id < a.experts;
  const unsigned same = __match_any_sync(kWarp, here ? id : -1);
  const int rank = __popc(same & ((1u << lane) - 1));
  if (here && rank == 0) by_warp[warp][id] = __popc(same);
  __syncthreads();
  if (thread < a.experts) {
    int at = start[thread];
    for (int w = 0; w < kChunk / 32; ++w) {
      const int count = by_warp[w][thread];
      by_warp[w][thread] = at;
      at += count;
    }
  }
  __syncthreads();
  if (pair >= a.pairs) return;
  const int place = here ? by_warp[warp][id] + rank : -1;
  a.positions[pair] = place;
  if (here) a.sorted[place] = pair;
}

/// One block per token: its row is read once and written to top_k places.
__global__ void dispatch(uint4* __restrict__ y, const uint4* __restrict__ x, const int* __restrict__ positions,
                         int top_k, int vectors) {
  const size_t from = static_cast<size_t>(blockIdx.x) * static_cast<size_t>(vectors);
  positions += static_cast<size_t>(blockIdx.x) * static_cast<size_t>(top_k);
  for (unsigned i = threadIdx.x; i < static_cast<unsigned>(vectors); i += blockDim.x) {
    const uint4 part = x[from + i];
    for (int j = 0; j < top_k; ++j) {
      if (positions[j] >= 0) y[static_cast<size_t>(positions[j]) * static_cast<size_t>(vectors) + i] = part;
    }
  }
}

/// One block per place; places of no pair become zeros.
__global__ void permute(uint4* __restrict__ y, const uint4* __restrict__ x, const int* __restrict__ sorted, int tokens,
                        int top_k, int vectors) {
  const int token = sorted[blockIdx.x] / top_k;
  const size_t from = static_cast<size_t>(token) * static_cast<size_t>(vectors),
               to = static_cast<size_t>(blockIdx.x) * static_cast<size_t>(vectors);
  for (unsigned i = threadIdx.x; i < static_cast<unsigned>(vectors); i += blockDim.x)
    y[to + i] = token < tokens ? x[from + i] : make_uint4(0, 0, 0, 0);
}

/// One block per token, sums in fp32 in order of the ranks.
template <class T>
__global__ void combine(T* __restrict__ y, const T* __restrict__ x, const float* __restrict__ weights,
                        const int* __restrict__ positions, int top_k, int cols) {
  using V = Vector<T>;
  const size_t token = blockIdx.x;
  weights += token * static_cast<size_t>(top_k);
  positions += token * static_cast<size_t>(top_k);
  for (int col = static_cast<int>(threadIdx.x) * V::kElements; col < cols;
       col += static_cast<int>(blockDim.x) * V::kElements) {
    float sum[V::kElements] = {};
#pragma unroll 4
    for (int j = 0; j < top_k; ++j) {
      const int place = positions[j];
      if (place < 0) continue;
      const V part = load16(x + static_cast<size_t>(place) * static_cast<size_t>(cols) + col);
#pragma unroll
      for (int e = 0; e < V::kElements; ++e) sum[e] += weights[j] * widen(part.v[e]);
    }
    V out;
#pragma unroll
    for (int e = 0; e < V::kElements; ++e) out.v[e] = narrow<T>(sum[e]);
    store16(y + token * static_cast<size_t>(cols) + col, out);
  }
}

}  // namespace monotile::bench::native
