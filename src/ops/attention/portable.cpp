// Attention, portable tier, the kernel of rows: lanes per key from the head dimension, query rows per program, splits of the keys.

#include <algorithm>
#include <cmath>

#include "monotile/kernels/attention/params.hpp"
#include "ops/attention/attention.hpp"
#include "ops/attention/tile_params.hpp"
#include "ops/attention/variants.hpp"

namespace monotile::ops {
namespace {

using attention_kernels::Types;
using attention_params::kv_bound;
using attention_params::scale_of;

struct Policy {
  Types types;
  uint32_t width;
  int rows;        ///< query rows per program
  int64_t splits;  ///< of the keys: from the bound of the length, in pieces of kSplitKeys
  attention_kernels::RowScores scores;
  const void* kernel;
};

attention_kernels::RowScores row_scores(const AttentionArgs& a) {
  if (a.tree_mask.defined()) return attention_kernels::tree;
  const bool plain = !a.prefix_length.defined() && !a.key_ranges.defined() && !a.alibi_slopes.defined() && !a.relative_bias.defined() && !a.sinks.defined();
  return plain ? attention_kernels::plain : attention_kernels::scored;
}

Policy pick(const AttentionArgs& a, const DeviceInfo& device) {
  const int64_t kv_heads = a.key_cache.dim(1), group = a.q.dim(1) / std::max<int64_t>(1, kv_heads);
  const bool lanes = device.device.kind != DeviceKind::cpu;
  Policy p{};
  p.types = attention_kernels::types_of(a.q.dtype, a.key_cache.dtype);
  p.width = lanes ? attention_kernels::width_of(std::max(a.q.dim(2), a.out.dim(2))) : attention_kernels::up_to_64;
  p.scores = row_scores(a);
  if (p.scores != attention_kernels::plain) {
    p.rows = attention_kernels::scored_rows(a.q.dtype == a.key_cache.dtype, compiles_on_use(device));
    p.splits = 1;
    p.kernel = reinterpret_cast<const void*>(find_kernel("attention.scored", target_of(device), attention_kernels::scored_variant(p.types, p.width, p.scores)));
    return p;
  }
  // Four rows share each key that is loaded. One sequence on CPU would then leave threads idle when decoding.
  const int64_t queries = std::min(a.max_query, a.q.dim(0));  // a bound may be generous
  p.rows = queries * group >= 4 && (lanes || queries > 1) ? attention_kernels::many_rows(compiles_on_use(device)) : 1;
  // The split count is that of the longest allowed sequence; shorter ones use only their own splits, in the same places.
  p.splits = lanes && a.max_query == 1 ? std::max<int64_t>(1, (kv_bound(a) + kernels::kSplitKeys - 1) / kernels::kSplitKeys) : 1;
  p.kernel = reinterpret_cast<const void*>(find_kernel("attention", target_of(device), attention_kernels::variant(p.types, p.width, p.rows)));
  return p;
}

const char* supports(const AttentionArgs& a, const DeviceInfo& device) {
  const Policy p = pick(a, device);
  if (p.types == attention_kernels::no_types) return "no portable kernel for these dtypes";
  if (a.q.dim(2) > 256 || a.out.dim(2) > 256) return "head dimensions up to 256";
  if (p.scores != attention_kernels::plain) {
    if (const char* why = attention_params::sizes_refused(a)) return why;
  }
  return p.kernel == nullptr ? "not built for this target" : nullptr;
}

/// With a functor the last choice, for one query too: there are no splits then.
double cost(const AttentionArgs& a, const DeviceInfo&) {
  const PrefillCost cost = prefill_cost(a);
  return row_scores(a) == attention_kernels::plain ? cost.rows : cost.rows + cost.tiles;
}

void make_plan(const AttentionArgs& a, const DeviceInfo& device, Plan<AttentionArgs>& plan) {
  const Policy p = pick(a, device);
  plan.kernel = p.kernel;
  const auto merge = find_kernel("attention_merge", target_of(device), attention_kernels::variant(p.types, p.width, 1));
  plan.config = {p.types, p.width, p.rows, p.splits, reinterpret_cast<int64_t>(merge), p.scores};
  if (p.splits > 1) {
    plan.workspace_bytes = static_cast<size_t>(a.q.dim(0) * a.q.dim(1) * p.splits * (a.out.dim(2) + 2)) * sizeof(float);
  }
}

/// Rows (outer, inner) of a cache: pages and tokens where paged, one level where dense.
template <class KV>
lang::view<KV> cache_view(const TensorView& t, bool paged) {
  lang::view<KV> v;
  v.data = static_cast<KV*>(t.data);
  v.cols = t.dim(-1);
  v.outer_stride = t.step(0);
  v.split_rows(paged ? static_cast<uint32_t>(t.dim(2)) : 1);
  v.inner_stride = paged ? t.step(2) : 0;
  const int64_t size = static_cast<int64_t>(sizeof(KV)), head_stride = t.step(1), bytes = lang::vector_bytes(size);
  v.vectors = vector_aligned(t.data) && v.outer_stride * size % bytes == 0 && v.inner_stride * size % bytes == 0 && head_stride * size % bytes == 0;
  return v;
}

/// Scales of a cache of codes, by the same rows.
lang::view<const float> scale_view(const TensorView& t) {
  lang::view<const float> v;
  v.data = t.as<const float>();
  v.cols = 1;
  if (t.rank != 3) return v;  // strides of 0: the same for all rows
  v.outer_stride = t.step(0);
  v.split_rows(static_cast<uint32_t>(t.dim(2)));
  v.inner_stride = t.step(2);
  return v;
}
int64_t scale_head_stride(const TensorView& t) { return t.rank == 3 ? t.step(1) : t.dim(0) == 1 ? 0 : t.step(0); }

template <class Params>
void fill_cache(Params& p, const AttentionArgs& a, bool paged) {
  using KV = typename Params::cache;
  if constexpr (std::is_same_v<KV, kernels::codes_t>) {
    const auto codes = [&](const TensorView& t) {
      const lang::view<uint8_t> v = cache_view<uint8_t>(t, paged);
      return lang::any_view{v.data, v.outer_stride, v.inner_stride, v.cols, v.inner_rows, v.vectors, t.dtype, v.inner_inverse};
    };
    p.k = {codes(a.key_cache), scale_view(a.key_scale)};
    p.v = {codes(a.value_cache), scale_view(a.value_scale)};
    p.k_scale_head_stride = scale_head_stride(a.key_scale);
    p.v_scale_head_stride = scale_head_stride(a.value_scale);
  } else {
    p.k = cache_view<KV>(a.key_cache, paged);
    p.v = cache_view<KV>(a.value_cache, paged);
  }
  p.k_head_stride = a.key_cache.step(1);
  p.v_head_stride = a.value_cache.step(1);
}

/// Params: for T and KV, with a functor or without.
template <class Params, class T, class KV>
void launch_as(const Plan<AttentionArgs>& plan, Stream& stream, const AttentionArgs& a, void* workspace) {
  using Plain = kernels::AttentionParams<T, KV>;
  constexpr float kLog2e = 1.44269504f;
  const bool paged = a.block_table.defined();
  const auto rows = static_cast<int64_t>(plan.config[2]), splits = plan.config[3];
  Params p{};
  p.q = row_view<T>(a.q);
  p.out = row_view<T>(a.out);
  fill_cache(p, a, paged);
  attention_params::fill_sequences(p, a);
  p.partial = static_cast<float*>(workspace);
  p.window = a.window;
  p.max_kv_length = kv_bound(a);
  p.scale_log2 = scale_of(a) * kLog2e;
  if (a.softcap > 0.0f) {
    p.softcap = a.softcap * kLog2e;
    p.softcap_inverse = 1.0f / p.softcap;
  }
  if constexpr (!std::is_same_v<Params, Plain>) {
    attention_params::fill_score(p.score, a);
    p.scale = scale_of(a);
    if (a.sinks.defined()) p.sinks = a.sinks.as<const float>();
  }
  p.sequences = static_cast<int32_t>(a.kv_length.dim(0));
  p.kv_heads = static_cast<int32_t>(a.key_cache.dim(1));
  p.group = static_cast<int32_t>(a.q.dim(1)) / p.kv_heads;
  p.dim_qk = static_cast<int32_t>(a.q.dim(2));
  p.dim_v = static_cast<int32_t>(a.out.dim(2));
  p.causal = a.causal;
  p.splits = static_cast<int32_t>(splits);
  p.merge_splits = p.splits;
  p.tokens = a.q.dim(0);
  p.dense_rows = paged ? 0 : a.key_cache.dim(0);
  const int64_t query_rows = std::min(a.max_query, p.tokens) * p.group;
  p.tiles = static_cast<int32_t>((query_rows + rows - 1) / rows);
  const int threads = lanes_on(*plan.device, 128);
  const size_t scratch = stream.device().kind == DeviceKind::cpu ? 0 : static_cast<size_t>(threads) * 8 * sizeof(float);
  const int64_t heads_in_all = static_cast<int64_t>(p.sequences) * p.kv_heads;
  reinterpret_cast<KernelFn<Params>>(const_cast<void*>(plan.kernel))(stream, Grid{heads_in_all * splits * p.tiles, threads, scratch}, p);
  if (splits > 1) {
    p.splits = 1;
    p.tiles = static_cast<int32_t>(query_rows);
    const auto merge = reinterpret_cast<KernelFn<Plain>>(plan.config[4]);
    merge(stream, Grid{heads_in_all * p.tiles, std::min(threads, 64), 0}, p);
  }
}

template <class T, class KV>
void launch(const Plan<AttentionArgs>& plan, Stream& stream, const AttentionArgs& a, void* workspace) {
  switch (static_cast<attention_kernels::RowScores>(plan.config[5])) {
    case attention_kernels::plain: return launch_as<kernels::AttentionParams<T, KV>, T, KV>(plan, stream, a, workspace);
    case attention_kernels::scored: return launch_as<kernels::ScoredParams<T, KV, kernels::ScoredMask>, T, KV>(plan, stream, a, workspace);
    case attention_kernels::tree: return launch_as<kernels::ScoredParams<T, KV, kernels::TreeMask>, T, KV>(plan, stream, a, workspace);
  }
}

void run(const Plan<AttentionArgs>& plan, Stream& stream, const AttentionArgs& a, void* workspace) {
  if (a.out.size() == 0) return;
  switch (static_cast<Types>(plan.config[0])) {
    case attention_kernels::f32_f32: return launch<float, float>(plan, stream, a, workspace);
    case attention_kernels::f16_f16: return launch<half_t, half_t>(plan, stream, a, workspace);
    case attention_kernels::bf16_bf16: return launch<bfloat16_t, bfloat16_t>(plan, stream, a, workspace);
    case attention_kernels::f32_codes: return launch<float, kernels::codes_t>(plan, stream, a, workspace);
    case attention_kernels::f16_codes: return launch<half_t, kernels::codes_t>(plan, stream, a, workspace);
    case attention_kernels::bf16_codes: return launch<bfloat16_t, kernels::codes_t>(plan, stream, a, workspace);
    case attention_kernels::f32_f16: return launch<float, half_t>(plan, stream, a, workspace);
    default: return launch<float, bfloat16_t>(plan, stream, a, workspace);
  }
}

}  // namespace

const Implementation<AttentionArgs> attention_portable{"portable", Tier::portable, supports, cost, make_plan, run};

}  // namespace monotile::ops
