// Attention of many queries, portable tier: matrix tiles, masks and scores by functors.

#include <algorithm>

#include "ops/attention/attention.hpp"
#include "ops/attention/tile_params.hpp"

namespace monotile::ops {
namespace {

using namespace attention_params;  // NOLINT
using prefill::Scores;

struct Policy {
  uint32_t path, dims, scores, variant;
  const void* kernel;
  int64_t heads_per_tile;  ///< neighbouring heads of one kv head, whose queries share the keys of a tile
  int64_t tokens_per_tile;
};

Policy pick(const AttentionArgs& a, const DeviceInfo& device) {
  const bool lanes = device.device.kind != DeviceKind::cpu;
  const Target target = target_of(device);
  const char* const name = scores_of(a) == prefill::kTree        ? "attention.verify"
                           : lanes && is_code(a.key_cache.dtype) ? prefill::kCodesKernel
                                                                 : "attention.prefill";
  Policy p{};
  p.scores = scores_of(a);
  p.dims = lanes ? prefill::dims_of(std::max(a.q.dim(2), a.out.dim(2))) : prefill::up_to_64;
  for (const uint32_t path : {prefill::kPlain, prefill::kOverlapped, prefill::kRing, prefill::kStaged}) {
    if (path == prefill::kOverlapped && !suits_copy_engine(a, prefill::shape_of(path, p.dims, scores_of(a)).bn))
      continue;
    p.path = path;
    p.variant = prefill::variant(lanes ? a.q.dtype : DType::none, path, p.dims, scores_of(a));
    p.kernel = reinterpret_cast<const void*>(find_kernel(name, target, p.variant));
    if (p.kernel != nullptr) break;
  }
  if (p.path == prefill::kOverlapped && p.scores == prefill::kMasks && !a.prefix_length.defined() &&
      !a.key_ranges.defined() && a.window == 0) {
    const uint32_t causal = prefill::variant(a.q.dtype, p.path, p.dims, prefill::kCausal);
    if (const auto kernel = find_kernel(prefill::kCausalKernel, target, causal); kernel != nullptr) {
      p.scores = prefill::kCausal;
      p.variant = causal;
      p.kernel = reinterpret_cast<const void*>(kernel);
    }
  }
  const int64_t bm = prefill::shape_of(p.path, p.dims, scores_of(a)).bm;
  p.heads_per_tile = heads_per_tile(a, bm, lanes);
  p.tokens_per_tile = bm / p.heads_per_tile;
  return p;
}

const char* supports(const AttentionArgs& a, const DeviceInfo& device) {
  if (is_code(a.q.dtype)) return "queries that are not codes";
  if (const char* why = device.device.kind == DeviceKind::cpu ? nullptr : operands_refused(a)) return why;
  if (const char* why = sizes_refused(a)) return why;
  const Policy p = pick(a, device);
  if (p.kernel == nullptr) return "not built for this target";
  const int64_t units = a.kv_length.dim(0) * a.q.dim(1) / p.heads_per_tile;
  if (ceil_div(std::min(a.max_query, a.q.dim(0)), p.tokens_per_tile) * units > INT32_MAX / 2)
    return "more than 2^30 tiles";
  return nullptr;
}

double cost(const AttentionArgs& a, const DeviceInfo&) { return prefill_cost(a).tiles; }

void make_plan(const AttentionArgs& a, const DeviceInfo& device, Plan<AttentionArgs>& plan) {
  const Policy p = pick(a, device);
  plan.kernel = p.kernel;
  plan.config = {p.path, p.dims, p.scores, p.heads_per_tile, p.tokens_per_tile};
  if (p.path == prefill::kOverlapped) plan.workspace_bytes = kQueueBytes;
}

template <class Score>
void launch(const Plan<AttentionArgs>& plan, Stream& stream, const AttentionArgs& a, const void* workspace) {
  const int64_t heads = plan.config[3], tokens = plan.config[4];
  const auto shape = prefill::shape_of(static_cast<uint32_t>(plan.config[0]), static_cast<uint32_t>(plan.config[1]),
                                       static_cast<uint32_t>(plan.config[2]));
  auto p = prefill_params<Score>(a, heads, tokens, shape.bn);
  fill_score(p.score, a);
  if (plan.config[0] == prefill::kOverlapped) p.queue = queue_of(p.total, plan.device->units, workspace);
  const Grid grid{plan.device->units, 0};  // as many programs as fit share the tiles
  reinterpret_cast<KernelFn<kernels::PrefillParams<Score>>>(const_cast<void*>(plan.kernel))(stream, grid, p);
}

void run(const Plan<AttentionArgs>& plan, Stream& stream, const AttentionArgs& a, void* workspace) {
  if (a.out.size() == 0 || a.kv_length.dim(0) == 0) return;
  if (static_cast<Scores>(plan.config[2]) == prefill::kCausal)
    return launch<kernels::CausalMask>(plan, stream, a, workspace);
  if (static_cast<Scores>(plan.config[2]) == prefill::kMasks)
    return plan.config[0] == prefill::kPlain || is_code(a.key_cache.dtype)
               ? launch<kernels::RangeMask>(plan, stream, a, workspace)
               : launch<kernels::SpanMask>(plan, stream, a, workspace);
  if (static_cast<Scores>(plan.config[2]) == prefill::kTree) return launch<kernels::TreeMask>(plan, stream, a, workspace);
  launch<kernels::ScoredMask>(plan, stream, a, workspace);
}

}  // namespace

/// In units of a query's time on tiles. They follow from the bound of queries alone, or a row's bits would depend on the
/// other sequences of its batch, and cross between one query and two: a single query leaves tiles empty and finds more
/// programs in the kernel of rows (one per head, splits of the keys). 2,048 causal queries on a CPU: docs/status.md.
PrefillCost prefill_cost(const AttentionArgs& a) {
  const auto queries = static_cast<double>(a.max_query);
  return {4.0 * queries, 5.0 + queries};
}

const Implementation<AttentionArgs> attention_tiles{"tiles", Tier::portable, supports, cost, make_plan, run};

}  // namespace monotile::ops
