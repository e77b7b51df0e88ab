// Attention whose queries are codes, portable tier: on codes throughout where a target has the instructions for them, else
// by queries that become 16 bits first.

#include <algorithm>
#include <array>
#include <cstdlib>

#include "monotile/ops/quant.hpp"
#include "ops/attention/attention.hpp"
#include "ops/attention/tile_params.hpp"

namespace monotile::ops {
namespace {

using namespace attention_params;  // NOLINT

const char* codes_refused(const AttentionArgs& a) {
  if (a.q.dtype != DType::f8_e4m3 || a.key_cache.dtype != DType::f8_e4m3) return "queries and caches of e4m3 only";
  return nullptr;
}

using Params = kernels::CodedParams<kernels::SpanMask>;

// --- codes throughout -------------------------------------------------------------------------------------------------
using Shape = prefill::turned_config;

const void* turned_kernel(const AttentionArgs& a, const DeviceInfo& device) {
  const auto variant = static_cast<uint32_t>(a.out.dtype);
  return reinterpret_cast<const void*>(find_kernel(prefill::kTurnedKernel, target_of(device), variant));
}
/// Heads that share a tile share a scale.
int64_t turned_heads(const AttentionArgs& a) { return a.q_scale.dim(0) > 1 ? 1 : heads_per_tile(a, Shape::bm, true); }

const char* turned_supports(const AttentionArgs& a, const DeviceInfo& device) {
  if (const char* why = codes_refused(a)) return why;
  if (turned_kernel(a, device) == nullptr) return "not built for this target";
  if (a.max_query == 1) return "many queries only";
  if (scores_of(a) != prefill::kMasks || sees_two_spans(a)) return "masks alone, of one span of keys";
  if (a.q.dim(2) > Shape::da || a.out.dim(2) > Shape::dc) return "head dimensions up to 128";
  if (a.key_scale.rank > 1 || a.value_scale.rank > 1) return "scales for all or for each head";
  if (!suits_copy_engine(a, Shape::bn)) return "rows of whole 16 bytes, in pages of 8 tokens or more";
  if (const char* why = sizes_refused(a)) return why;
  const int64_t heads = turned_heads(a);
  if (ceil_div(std::min(a.max_query, a.q.dim(0)), Shape::bm / heads) * a.kv_length.dim(0) * a.q.dim(1) / heads >
      INT32_MAX / 2)
    return "more than 2^30 tiles";
  return nullptr;
}
double turned_cost(const AttentionArgs& a, const DeviceInfo&) { return prefill_cost(a).tiles / 2; }

void turned_plan(const AttentionArgs& a, const DeviceInfo& device, Plan<AttentionArgs>& plan) {
  plan.kernel = turned_kernel(a, device);
  plan.workspace_bytes = kQueueBytes;
}
void turned_run(const Plan<AttentionArgs>& plan, Stream& stream, const AttentionArgs& a, void* workspace) {
  if (a.out.size() == 0 || a.kv_length.dim(0) == 0) return;
  const int64_t heads = turned_heads(a);
  const auto stride = [](const TensorView& scale) {
    return static_cast<int32_t>(scale.dim(0) > 1 ? scale.step(0) : 0);
  };
  Params p{prefill_params<kernels::SpanMask>(a, heads, Shape::bm / heads, Shape::bn)};
  fill_score(p.score, a);
  p.q_scale = a.q_scale.as<const float>();
  p.k_scale = a.key_scale.as<const float>();
  p.v_scale = a.value_scale.as<const float>();
  p.q_scale_stride = stride(a.q_scale);
  p.k_scale_stride = stride(a.key_scale);
  p.v_scale_stride = stride(a.value_scale);
  p.queue = queue_of(p.total, plan.device->units, workspace);
  const Grid grid{plan.device->units, 0};  // as many programs as fit share the tiles
  reinterpret_cast<KernelFn<Params>>(const_cast<void*>(plan.kernel))(stream, grid, p);
}

// --- queries of 16 bits -----------------------------------------------------------------------------------------------
constexpr std::array kInner{&attention_decode_tiles, &attention_portable, &attention_tiles};
/// Of the kernels that take them, the one that the dispatcher would.
const Implementation<AttentionArgs>* best_for(const AttentionArgs& a, const DeviceInfo& device) {
  const Implementation<AttentionArgs>* best = nullptr;
  for (const auto* one : kInner) {
    if (one->supports(a, device) != nullptr) continue;
    if (best == nullptr || one->cost(a, device) < best->cost(a, device)) best = one;
  }
  return best;
}
AttentionArgs with_queries(const AttentionArgs& a, void* values) {
  AttentionArgs wide = a;
  wide.q = TensorView(values, a.out.dtype, {a.q.dim(0), a.q.dim(1), a.q.dim(2)});
  wide.q.device = a.q.device;
  wide.q_scale = {};
  return wide;
}
size_t query_bytes(const AttentionArgs& a) {
  return static_cast<size_t>(ceil_div(a.q.dim(0) * a.q.dim(1) * a.q.dim(2) * 2, 256) * 256);
}

const char* widened_supports(const AttentionArgs& a, const DeviceInfo& device) {
  if (const char* why = codes_refused(a)) return why;
  if (a.q.step(1) != a.q.dim(2) || a.q.step(0) != a.q.dim(1) * a.q.dim(2)) return "packed queries only";
  return best_for(with_queries(a, nullptr), device) == nullptr ? "no kernel for queries of 16 bits" : nullptr;
}
/// A little more than what follows.
double widened_cost(const AttentionArgs& a, const DeviceInfo& device) {
  const AttentionArgs wide = with_queries(a, nullptr);
  return best_for(wide, device)->cost(wide, device) + 0.5;
}
/// The workspace of what follows comes first, at a place that does not depend on the queries: it says which counts are meant.
size_t room_before_queries(size_t inner_bytes) { return static_cast<size_t>(ceil_div(static_cast<int64_t>(inner_bytes), 256) * 256); }
/// The plan of what follows is kept in this one: its kernel and configuration, and behind the latter its workspace and
/// which of `kInner` it is.
enum Kept : size_t { kInnerBytes = 6, kInnerNumber = 7 };
void widened_plan(const AttentionArgs& a, const DeviceInfo& device, Plan<AttentionArgs>& plan) {
  const AttentionArgs wide = with_queries(a, nullptr);
  Plan<AttentionArgs> inner;
  inner.implementation = best_for(wide, device);
  inner.device = &device;
  inner.implementation->plan(wide, device, inner);
  if (inner.config[kInnerBytes] != 0 || inner.config[kInnerNumber] != 0) std::abort();  // no room beside it
  plan.kernel = inner.kernel;
  plan.config = inner.config;
  plan.config[kInnerBytes] = static_cast<int64_t>(inner.workspace_bytes);
  plan.config[kInnerNumber] = std::find(kInner.begin(), kInner.end(), inner.implementation) - kInner.begin();
  plan.workspace_bytes = room_before_queries(inner.workspace_bytes) + query_bytes(a);
}
Plan<AttentionArgs> inner_plan(const Plan<AttentionArgs>& outer) {
  Plan<AttentionArgs> inner = outer;
  inner.implementation = kInner[static_cast<size_t>(outer.config[kInnerNumber])];
  inner.workspace_bytes = static_cast<size_t>(outer.config[kInnerBytes]);
  inner.config[kInnerBytes] = inner.config[kInnerNumber] = 0;
  return inner;
}
void widened_run(const Plan<AttentionArgs>& outer, Stream& stream, const AttentionArgs& a, void* workspace) {
  if (a.out.size() == 0 || a.kv_length.dim(0) == 0) return;
  const Plan<AttentionArgs> inner = inner_plan(outer);
  const AttentionArgs wide = with_queries(a, static_cast<char*>(workspace) + room_before_queries(inner.workspace_bytes));
  const int64_t tokens = a.q.dim(0), heads = a.q_scale.dim(0), cols = a.q.dim(1) * a.q.dim(2);
  DequantiseArgs d;
  d.y = wide.q.reshape({tokens, cols});
  d.codes = a.q.reshape({tokens, cols});
  d.scales = TensorView(a.q_scale.data, DType::f32, {1, heads});
  d.scales.device = a.q_scale.device;
  d.scales.stride[1] = heads > 1 ? a.q_scale.step(0) : 1;
  d.block_rows = 0;
  d.block_cols = heads > 1 ? a.q.dim(2) : 0;
  plan<DequantiseArgs>(a.q.device, d).run(stream, d);
  inner.run(stream, wide, workspace);
}

}  // namespace

const Implementation<AttentionArgs> attention_codes{"codes",     Tier::portable, turned_supports,
                                                    turned_cost, turned_plan,    turned_run};
const Implementation<AttentionArgs> attention_widened{"widened",    Tier::portable, widened_supports,
                                                      widened_cost, widened_plan,   widened_run};

}  // namespace monotile::ops
