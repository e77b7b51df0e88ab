#pragma once
// What the proof program of attention runs: shapes, their masks, a check in fp64, and what is known about why a shape is slow.

#include <cuda_bf16.h>
#include <cuda_fp8.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "ops/attention/prefill_configs.hpp"

#include "common.cuh"

namespace proof {

/// Which keys a query sees and what becomes of a score, beside the causal mask. Sizes in tokens; 0: none.
struct Mask {
  int window = 0, prefix = 0, document = 0;
  float softcap = 0;
  bool alibi = false;
  bool any() const { return window > 0 || prefix > 0 || document > 0 || softcap > 0 || alibi; }
  std::string name() const {
    std::string text;
    const auto add = [&](const char* what, int n) {
      if (n > 0) text += std::string(" ") + what + " " + std::to_string(n);
    };
    add("window", window), add("prefix", prefix), add("documents of", document);
    if (softcap > 0) text += " soft-cap";
    if (alibi) text += " ALiBi";
    return text;
  }
  __host__ __device__ float slope(int head, int heads) const { return exp2f(-8.0f * (head + 1) / heads); }
  /// `position`: of the query among the keys.
  __host__ __device__ bool sees(bool causal, int position, int key) const {
    const bool masked = (!causal || key <= position) && (window == 0 || key > position - window);
    return (masked || key < prefix) && (document == 0 || key / document == position / document);
  }
};

struct Shape {
  int batch, queries, keys, heads, kv_heads, dim;
  bool causal;
  int page = 0;                ///< 0: dense
  bool tokens_first = false;   ///< pages [token, head, dim] instead of [head, token, dim]
  std::vector<int> lengths{};  ///< at most `keys`; empty: all of them
  Mask mask{};
  bool codes = false;  ///< queries, keys and values of e4m3, `kCodeScale` each
  int length(int sequence) const { return lengths.empty() ? keys : lengths[static_cast<size_t>(sequence)]; }
  int columns() const { return page == 0 ? 0 : (keys + page - 1) / page; }
  int64_t rows() const { return static_cast<int64_t>(batch) * (page == 0 ? keys : columns() * page); }
  int64_t all_keys() const {
    int64_t all = 0;
    for (int i = 0; i < batch; ++i) all += length(i);
    return all;
  }
  /// (query, key) that are seen, of one head.
  double pairs() const {
    double all = 0;
    for (int i = 0; i < batch; ++i) {
      for (int q = 0; q < queries; ++q) {
        const int position = length(i) - queries + q, end = causal ? std::min(position + 1, length(i)) : length(i);
        int first = mask.window > 0 ? std::max(0, position - mask.window + 1) : 0, last = end;
        int extra = std::min(mask.prefix, length(i));
        if (mask.document > 0) {
          const int from = position / mask.document * mask.document;
          first = std::max(first, from), last = std::min(last, from + mask.document), extra = 0;
        }
        all += std::max(0, last - first) + std::max(0, std::min(extra, first)) + std::max(0, extra - std::max(last, 0));
      }
    }
    return all;
  }
  double flops() const { return 4.0 * heads * dim * pairs(); }
  double bytes() const {
    return 4.0 * dim * (static_cast<double>(all_keys()) * kv_heads + static_cast<double>(batch) * queries * heads);
  }
  std::string name() const {
    char text[160];
    std::snprintf(text, sizeof text, "b%d q%d k%d%s h%d/%d d%d %s", batch, queries, keys,
                  lengths.empty() ? "" : " ragged", heads, kv_heads, dim, causal ? "causal" : "full");
    std::string all = text + mask.name() + (codes ? " e4m3" : "");
    if (page > 0) all += " page " + std::to_string(page) + (tokens_first ? " nhd" : "");
    return all;
  }
};

/// What the kernel that checks knows of it.
struct Layout {
  int batch, queries, heads, kv_heads, dim;
  bool causal;
  int page, columns;
  int64_t page_stride, head_stride, token_stride;
  const int32_t *kv_start, *kv_length, *table;
  Mask mask;
  __device__ int64_t row(int64_t sequence, int key, int head) const {
    if (page == 0) return (kv_start[sequence] + static_cast<int64_t>(key)) * token_stride + head * head_stride;
    return table[sequence * columns + key / page] * page_stride + key % page * token_stride + head * head_stride;
  }
};
struct Buffers {
  __nv_bfloat16 *q, *k, *v, *out;
  __nv_fp8_e4m3* codes = nullptr;  ///< of q, k and v, as they lie
};
inline constexpr float kCodeScale = 1.0f / 32;  ///< a power of two: code * scale is exact in 16 bits

/// Values become what their codes say.
__global__ void make_codes(__nv_bfloat16* p, __nv_fp8_e4m3* codes, size_t n) {
  for (size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x; i < n;
       i += static_cast<size_t>(gridDim.x) * blockDim.x) {
    const __nv_fp8_e4m3 code(__bfloat162float(p[i]) / kCodeScale);
    codes[i] = code;
    p[i] = __float2bfloat16(static_cast<float>(code) * kCodeScale);
  }
}

__global__ void fill_normal(__nv_bfloat16* p, size_t n, uint64_t seed) {
  each_normal(n, seed, [&](size_t i, float x) { p[i] = __float2bfloat16(x); });
}

/// One (query, head) per block, in fp64: adds up |difference|^2 and |result|^2.
__global__ void verify(Layout s, Buffers b, int rows, double* sums) {
  constexpr int kChunk = 2048;
  __shared__ double weight[kChunk];
  const uint64_t pick = mix(blockIdx.x * 2 + 1) % (static_cast<uint64_t>(s.batch) * s.queries * s.heads);
  const int64_t row = rows == 0 ? blockIdx.x : static_cast<int64_t>(pick);
  const int head = static_cast<int>(row % s.heads), kv_head = head / (s.heads / s.kv_heads);
  const int64_t token = row / s.heads, sequence = token / s.queries;
  const int keys = s.kv_length[sequence], position = static_cast<int>(token % s.queries) + keys - s.queries;
  const __nv_bfloat16* q = b.q + row * s.dim;
  double sum = 0, y[2] = {0, 0};  // of two columns at most
  for (int first = 0; first < keys; first += kChunk) {
    const int count = keys - first < kChunk ? keys - first : kChunk;
    for (int j = threadIdx.x; j < count; j += blockDim.x) {
      const int key = first + j;
      weight[j] = 0;
      if (!s.mask.sees(s.causal, position, key)) continue;
      const __nv_bfloat16* k = b.k + s.row(sequence, key, kv_head);
      double x = 0;
      for (int d = 0; d < s.dim; ++d) x += static_cast<double>(__bfloat162float(q[d])) * __bfloat162float(k[d]);
      x /= sqrt(static_cast<double>(s.dim));
      if (s.mask.softcap > 0) x = s.mask.softcap * tanh(x / s.mask.softcap);
      if (s.mask.alibi) x += static_cast<double>(s.mask.slope(head, s.heads)) * (key - position);
      weight[j] = exp(x);  // normal data: no overflow in fp64
    }
    __syncthreads();
    for (int j = 0; j < count; ++j) {
      if (weight[j] == 0) continue;
      const __nv_bfloat16* v = b.v + s.row(sequence, first + j, kv_head);
      sum += weight[j];
      for (int i = 0; i < 2; ++i) {
        const int d = static_cast<int>(threadIdx.x) + i * 128;
        if (d < s.dim) y[i] += weight[j] * __bfloat162float(v[d]);
      }
    }
    __syncthreads();
  }
  for (int i = 0; i < 2; ++i) {
    const int d = static_cast<int>(threadIdx.x) + i * 128;
    if (d >= s.dim) continue;
    const double wanted = sum > 0 ? y[i] / sum : 0, difference = __bfloat162float(b.out[row * s.dim + d]) - wanted;
    atomicAdd(&sums[0], difference * difference);
    atomicAdd(&sums[1], wanted * wanted);
  }
}

// --- sets -------------------------------------------------------------------------------------------------------------
inline std::vector<Shape> anchor_shapes() {
  std::vector<Shape> shapes;
  for (const bool causal : {false, true}) {
    shapes.push_back({8, 2048, 2048, 32, 32, 128, causal});
    shapes.push_back({4, 4096, 4096, 32, 8, 128, causal});
    shapes.push_back({1, 16384, 16384, 32, 8, 128, causal});
    shapes.push_back({8, 2048, 2048, 32, 32, 64, causal});
  }
  return shapes;
}
/// Head dimensions above 128.
inline std::vector<Shape> wide_shapes() {
  std::vector<Shape> shapes;
  for (const int dim : {192, 256}) {
    for (const bool causal : {false, true}) {
      shapes.push_back({4, 4096, 4096, 16, 8, dim, causal});
      shapes.push_back({8, 1024, 1024, 16, 8, dim, causal});
    }
  }
  return shapes;
}
/// `all`: other sizes of pages and other heads, too.
inline std::vector<Shape> decode_shapes(bool all) {
  std::vector<Shape> shapes;
  for (const int batch : {1, 16, 64, 128}) {
    for (const int page : {0, 16}) shapes.push_back({batch, 1, 4096, 32, 8, 128, true, page});
  }
  for (const int page : {0, 16}) shapes.push_back({1, 1, 65536, 32, 8, 128, true, page});
  if (all) {
    for (const int page : {1, 4, 8, 64, 128}) shapes.push_back({64, 1, 4096, 32, 8, 128, true, page});
    shapes.push_back({64, 1, 4096, 32, 8, 128, true, 16, true});
    shapes.push_back({64, 1, 4096, 32, 8, 64, true, 16});
    shapes.push_back({64, 1, 4096, 32, 4, 256, true, 16});
  }
  Shape ragged{16, 1, 65536, 32, 8, 128, true, 16};
  std::mt19937 lengths(3);
  for (int i = 0; i < 16; ++i)
    ragged.lengths.push_back(i == 0 ? 1 : i == 1 ? 65536 : static_cast<int>(lengths() % 65536) + 1);
  shapes.push_back(ragged);
  return shapes;
}
/// Each after a plain causal row: what a mask costs is the time of a seen pair beside that row's. Documents of 1,024 tokens
/// have the pairs of a batch of sequences of 1,024.
inline std::vector<Shape> mask_shapes() {
  const Shape plain{4, 4096, 4096, 32, 8, 128, true};
  std::vector<Shape> shapes{plain, {16, 1024, 1024, 32, 8, 128, true}};
  const auto add = [&](Mask mask) {
    shapes.push_back(plain);
    shapes.back().mask = mask;
  };
  add({.window = 1024});
  add({.document = 1024});
  add({.prefix = 1024});
  add({.alibi = true});
  add({.softcap = 30.0f});
  return shapes;
}
/// The anchors, each as 16 bits and as codes of 8.
inline std::vector<Shape> code_shapes() {
  std::vector<Shape> shapes;
  for (const Shape& s : anchor_shapes()) {
    shapes.push_back(s);
    shapes.push_back(s);
    shapes.back().codes = true;
  }
  return shapes;
}
/// Shapes that nobody chose, by a fixed seed.
inline std::vector<Shape> random_shapes(int count) {
  std::mt19937 random(2026);
  const auto one_of = [&](std::initializer_list<int> list) { return list.begin()[random() % list.size()]; };
  const auto between = [&](double low, double high) {  // evenly in their logarithms
    const double u = static_cast<double>(random()) / 4294967296.0;
    return static_cast<int>(std::exp(std::log(low) + u * (std::log(high) - std::log(low))));
  };
  std::vector<Shape> shapes;
  while (static_cast<int>(shapes.size()) < count) {
    Shape s{};
    s.dim = one_of({64, 80, 96, 128, 128, 128, 192, 256});
    s.kv_heads = one_of({1, 2, 4, 8, 16});
    s.heads = s.kv_heads * one_of({1, 2, 4, 5, 8});
    s.page = one_of({0, 0, 16, 64});
    if (random() % 5 < 2) {
      s.queries = 1, s.causal = true;
      s.keys = between(64, 65536);
      s.batch = std::clamp(between(1, 256), 1, std::max(1, (1 << 20) / s.keys));
    } else {
      s.causal = random() % 10 < 7;
      s.queries = between(16, 16384);
      s.keys = random() % 3 < 2 ? s.queries : s.queries + between(16, 16384);
      s.batch = std::clamp(between(1, 32), 1, std::max(1, 32768 / s.keys));
    }
    if (s.page > 0) s.keys = (s.keys + s.page - 1) / s.page * s.page;
    if (s.queries > 1 && s.page > 0) s.queries = std::min(s.queries, s.keys);
    if (s.heads > 64 || s.bytes() > 2.5e9) continue;
    shapes.push_back(s);
  }
  return shapes;
}

/// What of all that is known to cost time applies to a shape, from its sizes and its time alone; empty if nothing does.
inline std::string reasons(const Shape& s, const std::string& implementation, double us, int multiprocessors) {
  std::vector<std::string> found;
  char text[200];
  const auto say = [&](auto... values) {
    std::snprintf(text, sizeof text, values...);
    found.push_back(text);
  };
  const int width = s.dim <= 64 ? 64 : s.dim <= 128 ? 128 : 256;
  if (implementation == "portable") say("the kernel of rows, without matrix tiles");
  if (us < 20)
    say("a call of %.1f us: launch, look-ups and the last results are a part of it that no speed shortens", us);
  if (s.dim < width)
    say("tiles of %d columns for %d: %.0f %% of the products count", width, s.dim, 100.0 * s.dim / width);
  if (s.queries > 1) {
    const int group = s.heads / s.kv_heads, bm = s.dim <= 64 ? 192 : s.dim <= 128 ? 128 : 64;
    const int share = group <= bm && s.queries <= bm / 2 ? group : 1, tokens = bm / share;
    const int down = (s.queries + tokens - 1) / tokens;
    const double full = static_cast<double>(s.queries) / (down * tokens);
    if (full < 0.9) say("%.0f %% of the rows of tiles exist", 100 * full);
    const int64_t tiles = int64_t{1} * down * s.batch * s.heads / share;
    const int64_t rounds = (tiles + multiprocessors - 1) / multiprocessors;
    const double busy = static_cast<double>(tiles) / (static_cast<double>(rounds) * multiprocessors);
    if (busy < 0.9)
      say("%lld tiles on %d multiprocessors: %.0f %% of %lld rounds", static_cast<long long>(tiles), multiprocessors,
          100 * busy, static_cast<long long>(rounds));
    const double blocks = (s.keys + 127) / 128.0;
    if (s.causal && blocks < 16) say("a block on the diagonal of some %.0f: half of its products are hidden", blocks);
    if (s.page > 0 && s.page < 64) say("pages of %d: %d boxes for a block of keys", s.page, 128 / s.page);
  } else {
    const int64_t tiles = int64_t{1} * s.batch * s.kv_heads * ((s.keys + 511) / 512);
    if (tiles < 2 * multiprocessors)
      say("%lld splits for %d programs that would fit", static_cast<long long>(tiles), 2 * multiprocessors);
    if (s.dim > 128) say("one program to a multiprocessor above 128 columns");
  }
  std::string all;
  for (const std::string& reason : found) all += (all.empty() ? "" : "; ") + reason;
  return all;
}

}  // namespace proof
