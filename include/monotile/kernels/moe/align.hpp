#pragma once
// Sorting (token, rank) pairs by expert, each expert's share padded to whole blocks: a stable counting sort over chunks of pairs. Counts are
// integers, so the result depends on nothing but the pairs.

#include "monotile/kernels/moe/params.hpp"
#include "monotile/lang/items.hpp"

namespace monotile::kernels {
using namespace lang;  // NOLINT: kernels are written in the language

/// The pairs of one chunk, as numbers of local experts; -1: not here.
struct ChunkKeys {
  const int32_t* experts;
  int32_t first_expert, num_experts;

  MT_FN int32_t operator()(int32_t i) const {
    const int32_t e = experts[i] - first_expert;
    return e >= 0 && e < num_experts ? e : -1;
  }
};

/// How many pairs of its chunk go to each expert: one program per chunk.
struct AlignCount {
  using Params = AlignParams;

  template <class Ctx>
  static MT_FN void run(Ctx& ctx, const Params& p) {
    const int32_t chunk = static_cast<int32_t>(program_of(ctx)), first = chunk * p.chunk_pairs;
    const int32_t n = p.pairs - first < p.chunk_pairs ? p.pairs - first : p.chunk_pairs;
    int32_t* const counts = scratch_at<int32_t>(ctx, 0);
    int32_t* const out = p.partial + static_cast<int64_t>(chunk) * p.num_experts;
    for_items(ctx, p.num_experts, [=](int32_t e) { counts[e] = 0; });
    count_items(ctx, counts, n, ChunkKeys{p.experts + first, p.first_expert, p.num_experts});
    for_items(ctx, p.num_experts, [=](int32_t e) { out[e] = counts[e]; });
  }
};

/// Where each pair goes: one program per chunk. A single chunk needs no counting before.
struct AlignPlace {
  using Params = AlignParams;

  template <class Ctx>
  static MT_FN void run(Ctx& ctx, const Params& p) {
    const int32_t chunk = static_cast<int32_t>(program_of(ctx)), first = chunk * p.chunk_pairs;
    const int32_t n = p.pairs - first < p.chunk_pairs ? p.pairs - first : p.chunk_pairs;
    const int32_t experts = p.num_experts, block = p.block, chunks = p.chunks, pairs = p.pairs;
    int32_t *const totals = scratch_at<int32_t>(ctx, 0), *const before = totals + experts,
                   *const starts = before + experts, *const counters = starts + experts;
    const ChunkKeys key{p.experts + first, p.first_expert, experts};
    const int32_t* const partial = p.partial;
    if (chunks == 1) {
      for_items(ctx, experts, [=](int32_t e) { totals[e] = before[e] = 0; });
      count_items(ctx, totals, n, key);
    } else {
      // Lanes of one expert share the chunks, and each asks for many of them at once.
      constexpr int kAtOnce = 16;
      const int32_t sharers = p.sharers;
      int32_t *const shares = counters, *const shares_before = shares + sharers * experts;
      for_items(ctx, sharers * experts, [=](int32_t i) {
        const int32_t share = i / experts, e = i - share * experts;
        int32_t sum = 0, sum_before = 0;
        for (int32_t c = share; c < chunks; c += kAtOnce * sharers) {
          int32_t found[kAtOnce];
          MT_UNROLL
          for (int k = 0; k < kAtOnce; ++k) {
            const int32_t at = c + k * sharers;
            found[k] = at < chunks ? partial[static_cast<int64_t>(at) * experts + e] : 0;
          }
          MT_UNROLL
          for (int k = 0; k < kAtOnce; ++k) {
            sum += found[k];
            sum_before += c + k * sharers < chunk ? found[k] : 0;
          }
        }
        shares[i] = sum;
        shares_before[i] = sum_before;
      });
      for_items(ctx, experts, [=](int32_t e) {
        int32_t sum = 0, sum_before = 0;
        for (int32_t i = e; i < sharers * experts; i += experts) {
          sum += shares[i];
          sum_before += shares_before[i];
        }
        totals[e] = sum;
        before[e] = sum_before;
      });
    }
    for_items(ctx, experts, [=](int32_t e) { starts[e] = (totals[e] + block - 1) / block * block; });
    const int32_t end = sum_items_before(ctx, starts, experts);

    int32_t *const sorted = p.sorted, *const positions = p.positions + first;
    rank_items(ctx, counters, experts, n, key, [=](int32_t i, int32_t e, int32_t rank) {
      const int32_t at = starts[e] + before[e] + rank;
      sorted[at] = first + i;
      positions[i] = at;
    });
    for_items(ctx, n, [=](int32_t i) {
      if (key(i) < 0) positions[i] = -1;
    });

    // What holds no pair; the programs share it.
    constexpr int32_t kPadders = 8;  // lanes of one expert
    const int32_t padded = (experts - chunk + chunks - 1) / chunks;
    for_items(ctx, padded > 0 ? padded * kPadders : 0, [=](int32_t i) {
      const int32_t e = chunk + i / kPadders * chunks, stop = e + 1 < experts ? starts[e + 1] : end;
      for (int32_t at = starts[e] + totals[e] + i % kPadders; at < stop; at += kPadders) sorted[at] = pairs;
    });
    const int32_t rest = p.capacity - end, share = (rest + chunks - 1) / chunks, begin = chunk * share;
    for_items(ctx, rest - begin < share ? rest - begin : share, [=](int32_t i) { sorted[end + begin + i] = pairs; });

    int32_t* const block_experts = p.block_experts;
    const int32_t blocks = block_experts == nullptr ? 0 : p.capacity / block;
    for_items(ctx, (blocks - chunk + chunks - 1) / chunks, [=](int32_t i) {
      const int32_t b = chunk + i * chunks, at = b * block;
      if (at >= end) {
        block_experts[b] = -1;
        return;
      }
      int32_t low = 0, high = experts;  // the last expert that starts no later, and has pairs
      while (high - low > 1) {
        const int32_t middle = low + (high - low) / 2;
        if (starts[middle] <= at) {
          low = middle;
        } else {
          high = middle;
        }
      }
      block_experts[b] = low;
    });

    if (chunk != 0) return;
    int32_t *const counts = p.counts, *const offsets = p.offsets;
    for_items(ctx, experts, [=](int32_t e) {
      offsets[e] = starts[e];
      if (counts != nullptr) counts[e] = totals[e];
      if (e == experts - 1) offsets[experts] = end;
    });
  }
};

}  // namespace monotile::kernels
