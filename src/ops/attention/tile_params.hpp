#pragma once
// What the kernels of matrix tiles are told about tensors, for many queries and for one.

#include <array>
#include <atomic>
#include <bit>
#include <numeric>

#include "monotile/kernels/attention/params.hpp"
#include "monotile/kernels/attention/scores.hpp"
#include "monotile/kernels/attention/tree_mask.hpp"
#include "ops/attention/fill_params.hpp"
#include "ops/attention/prefill_configs.hpp"
#include "ops/row_tiles.hpp"

namespace monotile::ops::attention_params {

/// A window and a prefix let a query see two spans of keys, which the functor of masks alone does not know; that of caches of
/// codes does.
inline bool sees_two_spans(const AttentionArgs& a) { return a.window > 0 && a.prefix_length.defined(); }
/// A negative scale turns the order of the scores, so that it is applied before the maximum is taken.
inline prefill::Scores scores_of(const AttentionArgs& a) {
  if (a.tree_mask.defined()) return prefill::kTree;
  const bool plain = (!sees_two_spans(a) || is_code(a.key_cache.dtype)) && a.softcap == 0.0f && !a.alibi_slopes.defined() && !a.relative_bias.defined() && scale_of(a) > 0.0f;
  return plain ? prefill::kMasks : prefill::kScored;
}
inline bool rows_aligned(const TensorView& t) {
  if (!vector_aligned(t.data)) return false;
  for (int axis = 0; axis + 1 < t.rank; ++axis) {
    if (t.step(axis) * dtype_info(t.dtype).block_bytes % 16 != 0) return false;
  }
  return true;
}

/// Why operands or sizes do not suit tiles; null if they do.
inline const char* operands_refused(const AttentionArgs& a) {
  if (a.q.dtype != DType::bf16 && a.q.dtype != DType::f16) return "queries of 16 bits only";
  if (a.key_cache.dtype == DType::f8_e4m3)
    return scores_of(a) == prefill::kMasks ? nullptr : "caches of e4m3 with masks alone";
  if (a.key_cache.dtype != a.q.dtype) return "caches of the dtype of the queries, or e4m3";
  return nullptr;
}
inline const char* sizes_refused(const AttentionArgs& a) {
  if (a.q.dim(2) > 256 || a.out.dim(2) > 256) return "head dimensions up to 256";
  if (std::max({a.q.dim(0), a.key_cache.dim(0), kv_bound(a)}) > INT32_MAX / 2) return "an extent above 2^30";
  return nullptr;
}

/// The rows of a cache that lie in one piece: a block is copied in boxes of this many.
inline int64_t cache_box(const AttentionArgs& a, int64_t bn) {
  return a.block_table.defined() ? std::gcd(a.key_cache.dim(2), bn) : bn;
}
/// The copy engine wants aligned rows, and boxes of at least eight.
inline bool suits_copy_engine(const AttentionArgs& a, int64_t bn) {
  return rows_aligned(a.q) && rows_aligned(a.key_cache) && rows_aligned(a.value_cache) && cache_box(a, bn) >= 8;
}

inline lang::box_view rows_of_heads(const TensorView& t, int64_t heads, int64_t tokens) {
  lang::box_view v;
  v.data = t.data;
  v.dtype = t.dtype;
  v.vectors = rows_aligned(t);
  v.cols = static_cast<int32_t>(t.dim(2));
  v.extent_x = static_cast<int32_t>(heads);
  v.extent_y = static_cast<int32_t>(t.dim(0));
  v.extent_z = static_cast<int32_t>(t.dim(1) / heads);
  v.stride_x = t.step(1);
  v.stride_y = t.step(0);
  v.stride_z = t.step(1) * heads;
  v.box_x = static_cast<int32_t>(heads);
  v.box_y = static_cast<int32_t>(tokens);
  return v;
}
inline lang::box_view rows_of_cache(const TensorView& t, bool paged, int64_t box) {
  lang::box_view v;
  v.data = t.data;
  v.dtype = t.dtype;
  v.vectors = rows_aligned(t);
  v.cols = static_cast<int32_t>(t.dim(-1));
  v.extent_x = static_cast<int32_t>(t.dim(paged ? 2 : 0));
  v.extent_y = static_cast<int32_t>(t.dim(1));
  v.extent_z = paged ? static_cast<int32_t>(t.dim(0)) : 1;
  v.stride_x = t.step(paged ? 2 : 0);
  v.stride_y = t.step(1);
  v.stride_z = paged ? t.step(0) : 0;
  v.box_x = static_cast<int32_t>(box);
  return v;
}

inline lang::row_scales scales_of(const TensorView& t) {
  lang::row_scales s{t.as<const float>()};
  if (t.rank == 3) {
    s.stride_x = t.step(2), s.stride_y = t.step(1), s.stride_z = t.step(0);
  } else if (t.dim(0) > 1) {
    s.stride_y = t.step(0);
  }
  return s;
}

inline void fill_score(kernels::RangeMask& score, const AttentionArgs& a) {
  score.causal = a.causal;
  score.window = static_cast<int>(std::min<int64_t>(a.window, INT32_MAX));
  if (a.prefix_length.defined()) score.prefix = a.prefix_length.as<const int32_t>();
  if (a.key_ranges.defined()) {
    score.ranges = a.key_ranges.as<const int32_t>();
    score.ranges_stride = a.key_ranges.step(0);
  }
}
inline void fill_score(kernels::CausalMask& score, const AttentionArgs& a) { score.causal = a.causal; }
inline void fill_score(kernels::ScoredMask& score, const AttentionArgs& a) {
  fill_score(static_cast<kernels::RangeMask&>(score), a);
  if (a.softcap > 0.0f) {
    score.softcap = a.softcap;
    score.softcap_inverse = 1.0f / a.softcap;
  }
  if (a.alibi_slopes.defined()) score.slopes = a.alibi_slopes.as<const float>();
  if (a.relative_bias.defined()) {
    score.bias = a.relative_bias.as<const float>();
    score.bias_stride = a.relative_bias.step(0);
    score.bias_radius = static_cast<int>(a.relative_bias.dim(1) / 2);
  }
}
inline void fill_score(kernels::TreeMask& score, const AttentionArgs& a) {
  score.q_start = a.q_start.as<const int32_t>();
  score.bits = a.tree_mask.as<const uint32_t>();
  score.bits_stride = a.tree_mask.step(0);
  score.words = static_cast<int>(a.tree_mask.dim(1));
  score.tokens = static_cast<int>(a.q.dim(0));
  score.window = static_cast<int>(std::min<int64_t>(a.window, INT32_MAX / 2));
  if (a.softcap > 0.0f) {
    score.softcap = a.softcap;
    score.softcap_inverse = 1.0f / a.softcap;
  }
}

/// All but how many tiles there are, in which order and where partial sums go. A tile takes `heads` neighbouring heads of
/// `tokens` tokens against blocks of `bn` keys.
template <class Score>
void fill_tiles(kernels::PrefillParams<Score>& p, const AttentionArgs& a, int64_t heads, int64_t tokens, int64_t bn) {
  constexpr float kLog2e = 1.44269504f;
  const bool paged = a.block_table.defined();
  p.q = rows_of_heads(a.q, heads, tokens);
  p.out = rows_of_heads(a.out, heads, tokens);
  p.k = rows_of_cache(a.key_cache, paged, cache_box(a, bn));
  p.v = rows_of_cache(a.value_cache, paged, p.k.box_x);
  if (is_code(a.key_cache.dtype)) {
    p.k_scales = scales_of(a.key_scale);
    p.v_scales = scales_of(a.value_scale);
  }
  fill_sequences(p, a);
  p.page_shift = std::has_single_bit(static_cast<uint32_t>(p.page_size))
                     ? std::countr_zero(static_cast<uint32_t>(p.page_size))
                     : -1;
  if (a.sinks.defined()) p.sinks = a.sinks.as<const float>();
  p.sequences = static_cast<int32_t>(a.kv_length.dim(0));
  p.groups_per_kv_head = static_cast<int32_t>(a.q.dim(1) / a.key_cache.dim(1) / heads);
  p.max_kv_length = static_cast<int32_t>(kv_bound(a));
  p.scale = scale_of(a);
  p.scale_log2 = p.scale * kLog2e;
}

/// Neighbouring heads of one kv head whose queries share the keys of a tile of `bm` rows. Long queries fill tiles by
/// themselves, and on lanes the keys of neighbouring heads come out of the cache anyway.
inline int64_t heads_per_tile(const AttentionArgs& a, int64_t bm, bool lanes) {
  const int64_t group = a.q.dim(1) / std::max<int64_t>(1, a.key_cache.dim(1));
  return group <= bm && (!lanes || a.max_query <= bm / 2) ? std::max<int64_t>(1, group) : 1;
}

/// The counts of the target's own that launches with this workspace have, so that launches that may run at the same time
/// have different ones; -1 if all are taken. They are zeros between launches, which saves the one that sets them to zero.
inline int slot_of(const void* workspace) {
  static std::array<std::atomic<const void*>, kernels::DecodeCounts::slots> owners{};
  for (size_t i = 0; i < owners.size(); ++i) {
    const void* owner = owners[i].load(std::memory_order_acquire);
    if (owner == nullptr && owners[i].compare_exchange_strong(owner, workspace)) return static_cast<int>(i);
    if (owner == workspace) return static_cast<int>(i);
  }
  return -1;
}
/// The slot of a queue for `tiles` tiles on `programs` programs, which most of them have several of; -1: they share none.
static_assert(kernels::TileCounts::slots == kernels::DecodeCounts::slots);
inline int queue_of(int64_t tiles, int64_t programs, const void* workspace) {
  return tiles > programs && workspace != nullptr ? slot_of(workspace) : -1;
}
/// Of a workspace that only says which slot is meant.
inline constexpr size_t kQueueBytes = 16;

/// Everything for many queries, but what the functor holds.
template <class Score>
kernels::PrefillParams<Score> prefill_params(const AttentionArgs& a, int64_t heads, int64_t tokens, int64_t bn) {
  kernels::PrefillParams<Score> p{};
  fill_tiles(p, a, heads, tokens, bn);
  p.tiles = static_cast<int32_t>(ceil_div(std::min(a.max_query, a.q.dim(0)), tokens));
  // H200, 2026-11-29: sections whose keys and values take 24 MB of its 50 MB cache; 48 MB cost 3 % (an experiment with
  // this schedule).
  constexpr int64_t kSectionBytes = 24 << 20;
  const int64_t pair =
      std::max<int64_t>(1, kv_bound(a) * (a.q.dim(2) + a.out.dim(2)) * dtype_info(a.key_cache.dtype).block_bytes);
  const int64_t units = p.sequences * static_cast<int64_t>(p.q.extent_z);
  p.section = static_cast<int32_t>(std::clamp<int64_t>(kSectionBytes / pair, 1, units) * p.groups_per_kv_head);
  p.total = static_cast<int32_t>(p.tiles * units);
  return p;
}

}  // namespace monotile::ops::attention_params
