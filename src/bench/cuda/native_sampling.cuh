#pragma once
// Hand-written kernels from logits to tokens: each row is cut into parts, so that few rows fill the device too. Packed
// tensors only.

#include <cstdint>
#include <type_traits>

#include "bench/cuda/vectors.cuh"
#include "monotile/random.hpp"

namespace monotile::bench::native {

/// A number and where it is, as one integer that orders by number, then lower index first. NaN counts as -inf.
__device__ inline uint64_t key_of(float x, uint32_t index) {
  const uint32_t bits = x != x ? 0xff800000u : x == 0.0f ? 0u : __float_as_uint(x);
  const uint32_t ordered = (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
  return (static_cast<uint64_t>(ordered) << 32) | (0xffffffffu - index);
}
__device__ inline float number_of(uint64_t key) {
  const uint32_t ordered = static_cast<uint32_t>(key >> 32);
  return __uint_as_float((ordered & 0x80000000u) != 0 ? ordered & 0x7fffffffu : ~ordered);
}
__device__ inline int index_of(uint64_t key) { return static_cast<int>(0xffffffffu - static_cast<uint32_t>(key)); }

/// The largest of the block, in thread 0.
__device__ inline uint64_t block_largest(uint64_t key) {
  __shared__ uint64_t by_warp[32];
  const auto reduce = [](uint64_t k) {
    for (int step = 16; step > 0; step /= 2) {
      const uint64_t other = __shfl_down_sync(0xffffffffu, k, step);
      k = other > k ? other : k;
    }
    return k;
  };
  key = reduce(key);
  if (threadIdx.x % 32 == 0) by_warp[threadIdx.x / 32] = key;
  __syncthreads();
  if (threadIdx.x < 32) key = reduce(threadIdx.x < blockDim.x / 32 ? by_warp[threadIdx.x] : 0);
  return key;
}

constexpr int kMostRows = 1024;  ///< rows of a call
constexpr int kMostParts = 32;   ///< parts of a row

/// What parts of rows found. Static, because a comparison kernel gets no workspace; calls on two streams at once would
/// spoil it.
__device__ uint64_t part_keys[kMostRows * kMostParts];
__device__ unsigned parts_done[kMostRows];

/// Thread 0 of each block brings its part's key: `finish` gets the row's largest, once, in the block that comes last.
template <class F>
__device__ void largest_of_row(uint64_t key, int row, int parts, const F& finish) {
  if (threadIdx.x != 0) return;
  part_keys[row * kMostParts + static_cast<int>(blockIdx.x)] = key;
  __threadfence();
  // Counts up to the last part, then from 0 again: nothing to clear between calls.
  if (atomicInc(&parts_done[row], static_cast<unsigned>(parts - 1)) != static_cast<unsigned>(parts - 1)) return;
  __threadfence();
  for (int i = 0; i < parts; ++i) {
    const uint64_t other = __ldcg(&part_keys[row * kMostParts + i]);
    key = other > key ? other : key;
  }
  finish(key);
}

/// Grid (parts, rows). Reads each row once.
template <class T>
__global__ void argmax(int* __restrict__ ids, const T* __restrict__ logits, int cols) {
  using V = Vector<T>;
  constexpr int kAtOnce = 4;
  const int row = static_cast<int>(blockIdx.y), parts = static_cast<int>(gridDim.x);
  const T* const x = logits + static_cast<size_t>(row) * static_cast<size_t>(cols);
  const int vectors = cols / V::kElements, stride = parts * static_cast<int>(blockDim.x);
  float best = -INFINITY;
  int at = -1;
  for (int first = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); first < vectors;
       first += kAtOnce * stride) {
    V loaded[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      if (first + i * stride < vectors) loaded[i] = load16(x + (first + i * stride) * V::kElements);
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      if (first + i * stride >= vectors) break;
#pragma unroll
      for (int e = 0; e < V::kElements; ++e) {
        const float v = widen(loaded[i].v[e]);
        if (v > best) best = v, at = (first + i * stride) * V::kElements + e;  // columns rise: the lowest stays
      }
    }
  }
  const uint64_t key = block_largest(at < 0 ? 0 : key_of(best, static_cast<uint32_t>(at)));
  largest_of_row(key, row, parts, [&](uint64_t largest) { ids[row] = largest == 0 ? 0 : index_of(largest); });
}

// ---- the k largest, and what follows from them -----------------------------------------------------------------------

constexpr int kSelectThreads = 512;
constexpr int kPerThread = 16;                      ///< numbers of a part in each thread's registers
constexpr int kPart = kSelectThreads * kPerThread;  ///< so numbers of a part
constexpr int kMostTop = 64;                        ///< of a part
constexpr int kCandidates = kMostParts * kMostTop;  ///< of a row
constexpr int kFinishThreads = 1024;

constexpr int kSelectedRows = 128;  ///< rows of a call
__device__ uint64_t candidates[kSelectedRows * kCandidates];
struct Normaliser {
  float largest, total;  ///< total of exp(x - largest)
};
__device__ Normaliser part_normalisers[kSelectedRows * kMostParts];

/// The digit after the one at `shift`. Those that say nothing new are left out: bits of fp32 that T does not reach, and of
/// a column what is the same in the whole part.
template <class T>
__device__ constexpr int next_digit(int shift) {
  static_assert(kPart <= 1 << 16);
  constexpr int kLast = std::is_same_v<T, __nv_bfloat16> ? 48 : std::is_same_v<T, __half> ? 40 : 32;
  return shift == kLast ? 8 : shift - 8;
}

/// First launch, grid (parts, rows): the `top` largest of each part, in no order, and its softmax normaliser. Keys are
/// all different, so digits of 8 bits from the top find the one key above which, itself included, there are `top`.
template <class T>
__global__ void __launch_bounds__(kSelectThreads) select_of_part(const T* __restrict__ logits, int cols, int top) {
  using V = Vector<T>;
  __shared__ int histogram[256];
  __shared__ int digit, above, placed;
  const int thread = static_cast<int>(threadIdx.x), row = static_cast<int>(blockIdx.y),
            part = static_cast<int>(blockIdx.x);
  const T* const x = logits + static_cast<size_t>(row) * static_cast<size_t>(cols);
  uint64_t keys[kPerThread];
  float largest = -INFINITY;
#pragma unroll
  for (int i = 0; i < kPerThread / V::kElements; ++i) {
    const int col = part * kPart + (i * kSelectThreads + thread) * V::kElements;
    V loaded{};
    if (col < cols) loaded = load16(x + col);
#pragma unroll
    for (int e = 0; e < V::kElements; ++e) {
      // Past the row: below all others, and different from each other.
      keys[i * V::kElements + e] = col < cols ? key_of(widen(loaded.v[e]), static_cast<uint32_t>(col + e))
                                              : static_cast<uint64_t>((i * kSelectThreads + thread) * V::kElements + e);
      if (col < cols) largest = fmaxf(largest, number_of(keys[i * V::kElements + e]));
    }
  }
  largest = block_reduce<Max>(largest, -INFINITY);
  float total = 0;
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) {
    const float v = number_of(keys[i]);
    if (keys[i] >> 32 != 0) total += v == largest ? 1.0f : __expf(v - largest);
  }
  total = block_reduce<Add>(total, 0.0f);
  if (thread == 0) part_normalisers[row * kMostParts + part] = {largest, total}, placed = 0;

  uint64_t prefix = 0, mask = 0;  // digits of the key sought, and which they are
  int wanted = top;               // among those that share them
  for (int shift = 56;; shift = next_digit<T>(shift)) {
    if (thread < 256) histogram[thread] = 0;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
      if ((keys[i] & mask) == prefix) atomicAdd(&histogram[(keys[i] >> shift) & 255], 1);
    }
    __syncthreads();
    if (thread < 32) {  // 8 digits a lane, the highest digits in lane 0
      int mine = 0;
      for (int d = 0; d < 8; ++d) mine += histogram[255 - (thread * 8 + d)];
      int before = mine;
      for (int step = 1; step < 32; step *= 2) {
        const int lower = __shfl_up_sync(0xffffffffu, before, step);
        if (thread >= step) before += lower;
      }
      before -= mine;
      if (before < wanted && before + mine >= wanted) {
        int d = thread * 8;
        while (before + histogram[255 - d] < wanted) before += histogram[255 - d++];
        digit = 255 - d;
        above = before;
      }
    }
    __syncthreads();
    prefix |= static_cast<uint64_t>(digit) << shift;
    mask |= uint64_t{255} << shift;
    wanted -= above;
    const bool all = histogram[digit] == wanted;  // every key with this prefix
    __syncthreads();                              // before the next round clears
    if (all || shift == 0) break;
  }
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) {
    if ((keys[i] & mask) >= prefix) candidates[row * kCandidates + part * top + atomicAdd(&placed, 1)] = keys[i];
  }
}

/// The row's candidates in falling order in shared memory.
__device__ inline void sort_candidates(uint64_t* sorted, int row, int count) {
  int size = 64;
  while (size < count) size *= 2;
  for (int i = static_cast<int>(threadIdx.x); i < size; i += kFinishThreads)
    sorted[i] = i < count ? candidates[row * kCandidates + i] : 0;
  for (int run = 2; run <= size; run *= 2) {
    for (int step = run / 2; step > 0; step /= 2) {
      __syncthreads();
      for (int i = static_cast<int>(threadIdx.x); i < size / 2; i += kFinishThreads) {
        const int low = i / step * 2 * step + i % step, high = low + step;
        const bool falling = (low & run) == 0;
        const uint64_t a = sorted[low], b = sorted[high];
        if ((a < b) == falling) sorted[low] = b, sorted[high] = a;
      }
    }
  }
  __syncthreads();
}

/// log of the sum of exp over the whole row, in every thread.
__device__ inline float log_sum_of_row(int row, int parts) {
  float largest = -INFINITY, total = 0;
  for (int i = 0; i < parts; ++i) largest = fmaxf(largest, part_normalisers[row * kMostParts + i].largest);
  for (int i = 0; i < parts; ++i) {
    const Normaliser n = part_normalisers[row * kMostParts + i];
    total += n.largest == largest ? n.total : n.total * __expf(n.largest - largest);
  }
  return largest + logf(total);
}

/// Second launch, one block per row.
__global__ void __launch_bounds__(kFinishThreads)
    finish_top_k(float* __restrict__ values, int* __restrict__ ids, int parts, int top) {
  __shared__ uint64_t sorted[kCandidates];
  const int row = static_cast<int>(blockIdx.x);
  sort_candidates(sorted, row, parts * top);
  if (static_cast<int>(threadIdx.x) >= top) return;
  values[row * top + static_cast<int>(threadIdx.x)] = number_of(sorted[threadIdx.x]);
  ids[row * top + static_cast<int>(threadIdx.x)] = index_of(sorted[threadIdx.x]);
}

/// Second launch, one block per row: of the `top` most likely and of `given` tokens.
template <class T>
__global__ void __launch_bounds__(kFinishThreads)
    finish_logprobs(float* __restrict__ top_logprobs, int* __restrict__ top_ids, float* __restrict__ logprobs,
                    const int* __restrict__ tokens, const T* __restrict__ logits, int cols, int parts, int top,
                    int given) {
  __shared__ uint64_t sorted[kCandidates];
  const int row = static_cast<int>(blockIdx.x), thread = static_cast<int>(threadIdx.x);
  const float log_sum = log_sum_of_row(row, parts);
  const auto judged = [&](float v) { return v > -INFINITY ? v - log_sum : -INFINITY; };  // NaN counts as -inf
  sort_candidates(sorted, row, parts * top);
  if (thread < top) {
    top_logprobs[row * top + thread] = judged(number_of(sorted[thread]));
    top_ids[row * top + thread] = index_of(sorted[thread]);
  }
  for (int i = thread; i < given; i += kFinishThreads) {
    const int token = tokens[row * given + i];
    const bool inside = token >= 0 && token < cols;
    const size_t at = static_cast<size_t>(row) * static_cast<size_t>(cols) + static_cast<size_t>(inside ? token : 0);
    logprobs[row * given + i] = judged(inside ? widen(logits[at]) : -INFINITY);
  }
}

struct Filters {
  const float *temperature, *top_p, *min_p;  ///< any may be null
  const int* top_k;                          ///< from 1 to kMostTop for every row
  const int64_t *seeds, *positions;          ///< may be null
};

/// Second launch, one block per row: filters and the draw among the top_k most likely.
__global__ void __launch_bounds__(kFinishThreads) finish_sample(int* __restrict__ ids, Filters f, int parts) {
  __shared__ uint64_t sorted[kCandidates];
  __shared__ float weights[kMostTop];
  __shared__ int kept;
  const int row = static_cast<int>(blockIdx.x), thread = static_cast<int>(threadIdx.x);
  sort_candidates(sorted, row, parts * kMostTop);
  const float temperature = f.temperature != nullptr ? f.temperature[row] : 1.0f, largest = number_of(sorted[0]);
  if (!(temperature >= 1e-5f) || largest == -INFINITY) {
    if (thread == 0) ids[row] = largest == -INFINITY ? 0 : index_of(sorted[0]);
    return;
  }
  const int most = min(f.top_k[row], kMostTop);
  const float inverse = 1.0f / temperature, x = thread < most ? number_of(sorted[thread]) : -INFINITY;
  if (thread < kMostTop) weights[thread] = x == largest ? 1.0f : expf((x - largest) / temperature);
  __syncthreads();
  if (thread == 0) {  // falling weights: each filter keeps a beginning
    int count = 0;
    while (count < most && weights[count] > 0) ++count;
    const float top_p = f.top_p != nullptr ? f.top_p[row] : 1.0f, min_p = f.min_p != nullptr ? f.min_p[row] : 0.0f;
    if (top_p > 0 && top_p < 1) {
      float total = 0, sum = 0;
      for (int i = 0; i < count; ++i) total += weights[i];
      int n = 0;
      while (n < count && sum < top_p * total) sum += weights[n++];
      count = n;
    }
    if (min_p > 0) {
      int n = 1;
      while (n < count && weights[n] >= min_p) ++n;
      count = n;
    }
    kept = count;
  }
  __syncthreads();
  uint64_t key = 0;
  if (thread < kept) {
    const uint32_t id = static_cast<uint32_t>(index_of(sorted[thread]));
    const uint32_t bits = random::bits(f.seeds != nullptr ? static_cast<uint64_t>(f.seeds[row]) : 0,
                                       f.positions != nullptr ? f.positions[row] : 0, random::Purpose::sample, id);
    key = key_of(random::gumbel_score(x, largest, inverse, bits), id);
  }
  key = block_largest(key);
  if (thread == 0) ids[row] = index_of(key);
}

// ---- penalties and verification ---------------------------------------------------------------------------------------

constexpr int kMostHistory = 1024;

/// One block per row: a hash table in shared memory counts the history's tokens, each of which is then changed once.
template <class T>
__global__ void penalties(T* __restrict__ logits, const int* __restrict__ history,
                          const int* __restrict__ prompt_length, const float* __restrict__ repetition,
                          const float* __restrict__ presence, const float* __restrict__ frequency, int cols,
                          int length) {
  constexpr int kSlots = 2 * kMostHistory;
  __shared__ int tokens[kSlots], counts[kSlots];
  const int row = static_cast<int>(blockIdx.x), thread = static_cast<int>(threadIdx.x),
            threads = static_cast<int>(blockDim.x);
  for (int i = thread; i < kSlots; i += threads) tokens[i] = -1, counts[i] = 0;
  __syncthreads();
  const int prompt = prompt_length != nullptr ? prompt_length[row] : 0;
  for (int i = thread; i < length; i += threads) {
    const int token = history[row * length + i];
    if (token < 0 || token >= cols) continue;
    unsigned slot = static_cast<unsigned>(token) * 2654435761u >> 21;  // the 11 highest bits
    for (int found; (found = atomicCAS(&tokens[slot], -1, token)) != -1 && found != token;) slot = (slot + 1) % kSlots;
    if (i >= prompt) atomicAdd(&counts[slot], 1);
  }
  __syncthreads();
  const float repeated = repetition != nullptr ? repetition[row] : 1.0f, once = presence != nullptr ? presence[row] : 0,
              each = frequency != nullptr ? frequency[row] : 0;
  for (int i = thread; i < kSlots; i += threads) {
    if (tokens[i] < 0) continue;
    T* const at = logits + static_cast<size_t>(row) * static_cast<size_t>(cols) + static_cast<size_t>(tokens[i]);
    float v = widen(*at);
    v = v > 0 ? v / repeated : v * repeated;
    if (counts[i] > 0) v -= each * static_cast<float>(counts[i]) + once;
    *at = narrow<T>(v);
  }
}

struct Verification {
  int *tokens, *accepted;
  const float *target, *draft;
  const int* draft_tokens;
  const int64_t *seeds, *positions;  ///< may be null
  int drafts, cols;
};

/// Grid (parts, sequences): each block finds for itself how many drafts stand, then races over its part of the row.
__global__ void verify(Verification a) {
  const int row = static_cast<int>(blockIdx.y), parts = static_cast<int>(gridDim.x);
  const size_t cols = static_cast<size_t>(a.cols);
  const float* const target = a.target + static_cast<size_t>(row) * static_cast<size_t>(a.drafts + 1) * cols;
  const float* const draft = a.draft + static_cast<size_t>(row) * static_cast<size_t>(a.drafts) * cols;
  const int* const drafted = a.draft_tokens + row * a.drafts;
  const uint64_t seed = a.seeds != nullptr ? static_cast<uint64_t>(a.seeds[row]) : 0;
  const int64_t position = a.positions != nullptr ? a.positions[row] : 0;
  int stand = 0;
  bool rejected = false;
  for (; stand < a.drafts; ++stand) {
    const int x = drafted[stand];
    if (x < 0 || x >= a.cols) break;
    const size_t at = static_cast<size_t>(stand) * cols + static_cast<size_t>(x);
    const float u = random::uniform(random::bits(seed, position + stand, random::Purpose::accept, 0));
    rejected = !(u * draft[at] < target[at]);  // NaN in the target: not below, so rejected, as 0 would be
    if (rejected) break;
  }
  const random::Purpose purpose = rejected ? random::Purpose::residual : random::Purpose::sample;
  const float *const p = target + static_cast<size_t>(stand) * cols, *const q =
                                                                         draft + static_cast<size_t>(stand) * cols;
  uint64_t best = 0;
  for (int col = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x) * 4; col < a.cols;
       col += parts * static_cast<int>(blockDim.x) * 4) {
    Vector<float> w = load16(p + col);
    if (rejected) {
      const Vector<float> other = load16(q + col);
#pragma unroll
      for (int e = 0; e < 4; ++e) w.v[e] -= other.v[e];
    }
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      if (!(w.v[e] > 0)) continue;
      const uint32_t token = static_cast<uint32_t>(col + e),
                     bits = random::bits(seed, position + stand, purpose, token);
      const uint64_t key = key_of(w.v[e] / (static_cast<float>(random::exponential_q58(bits)) * 0x1p-58f), token);
      best = key > best ? key : best;
    }
  }
  largest_of_row(block_largest(best), row, parts, [&](uint64_t largest) {
    int* const out = a.tokens + row * (a.drafts + 1);
    a.accepted[row] = stand;
    for (int i = 0; i <= a.drafts; ++i) out[i] = i < stand ? drafted[i] : -1;
    out[stand] = largest != 0 ? index_of(largest) : rejected ? drafted[stand] : 0;
  });
}

}  // namespace monotile::bench::native
