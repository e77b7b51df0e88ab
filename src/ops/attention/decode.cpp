// Attention of one query per sequence, portable tier: heads that share keys fill a tile, splits of the keys fill the machine.

#include <algorithm>

#include "ops/attention/attention.hpp"
#include "ops/attention/decode_configs.hpp"
#include "ops/attention/tile_params.hpp"
#include "ops/attention/variants.hpp"

namespace monotile::ops {
namespace {

using namespace attention_params;  // NOLINT

struct Policy {
  const void *kernel, *merge;
  decode::TileShape shape;
  int64_t heads_per_tile;  ///< neighbouring heads of one kv head: all, or the largest even part that a tile can hold
};

Policy pick(const AttentionArgs& a, const DeviceInfo& device) {
  const Target target = target_of(device);
  const uint32_t dims = prefill::dims_of(std::max(a.q.dim(2), a.out.dim(2)));
  const auto variant = [&](uint32_t path) { return decode::variant(a.q.dtype, path, dims, scores_of(a)); };
  Policy p{};
  p.merge = reinterpret_cast<const void*>(find_kernel("attention.decode_merge", target, variant(decode::kRing)));
  const bool engine = rows_aligned(a.q) && rows_aligned(a.key_cache) && rows_aligned(a.value_cache);
  const char* const name = is_code(a.key_cache.dtype) ? decode::kCodesKernel : "attention.decode";
  for (const uint32_t path : {decode::kStream, decode::kRing, decode::kStaged}) {
    if (path == decode::kStream && !engine) continue;
    p.shape = decode::shape_of(path, dims);
    p.kernel = reinterpret_cast<const void*>(find_kernel(name, target, variant(path)));
    if (p.kernel != nullptr) break;
  }
  const int64_t group = a.q.dim(1) / std::max<int64_t>(1, a.key_cache.dim(1));
  p.heads_per_tile = std::clamp<int64_t>(group, 1, p.shape.bm);
  while (group % p.heads_per_tile != 0) --p.heads_per_tile;
  return p;
}
/// Of the longest sequence that is allowed; shorter ones use only their own.
int64_t splits_of(const AttentionArgs& a) { return kernels::most_splits(static_cast<int>(kv_bound(a))); }

const char* supports(const AttentionArgs& a, const DeviceInfo& device) {
  if (a.max_query > 1) return "one query per sequence only";
  if (a.tree_mask.defined()) return "no trees of drafted tokens";
  if (const char* why = operands_refused(a)) return why;
  if (const char* why = sizes_refused(a)) return why;
  const Policy p = pick(a, device);
  if (p.kernel == nullptr) return "not built for this target";
  if (a.kv_length.dim(0) * (a.q.dim(1) / p.heads_per_tile) * splits_of(a) > INT32_MAX / 2)
    return "more than 2^30 splits";
  if (a.kv_length.dim(0) * (a.q.dim(1) / p.heads_per_tile) * (kv_bound(a) / p.shape.bn + 1) > INT32_MAX)
    return "more than 2^31 blocks";
  return nullptr;
}

/// Less than that of the other kernels with one query: keys are read once for all heads that share them.
double cost(const AttentionArgs&, const DeviceInfo&) { return 2.0; }

int64_t sums_of(const AttentionArgs& a) { return a.q.dim(0) * a.q.dim(1) * splits_of(a) * a.out.dim(2); }

/// config: the kernel that joins the splits, heads and keys of a tile. Workspace: sums, then maxima and totals, of every split.
void make_plan(const AttentionArgs& a, const DeviceInfo& device, Plan<AttentionArgs>& plan) {
  const Policy p = pick(a, device);
  plan.kernel = p.kernel;
  plan.config = {reinterpret_cast<int64_t>(p.merge), p.heads_per_tile, p.shape.bn};
  plan.workspace_bytes = static_cast<size_t>(sums_of(a) + 2 * a.q.dim(0) * a.q.dim(1) * splits_of(a)) * sizeof(float);
}

template <class Score>
void launch(const Plan<AttentionArgs>& plan, Stream& stream, const AttentionArgs& a, void* workspace) {
  using Params = kernels::DecodeParams<Score>;
  const int64_t heads = plan.config[1], splits = splits_of(a);
  Params p{};
  fill_tiles(p, a, heads, 1, plan.config[2]);
  fill_score(p.score, a);
  const auto units = static_cast<int32_t>(a.kv_length.dim(0) * (a.q.dim(1) / heads));
  p.tiles = 1;
  p.section = units;
  p.splits = static_cast<int32_t>(splits);
  p.total = units * p.splits;
  p.statistics = static_cast<float*>(workspace) + sums_of(a);
  p.partial = p.out;
  p.partial.data = workspace;
  p.partial.dtype = DType::f32;
  p.partial.vectors = p.partial.cols % 4 == 0;
  p.partial.stride_x = splits * p.partial.cols;
  p.partial.stride_y = a.q.dim(1) * p.partial.stride_x;
  p.partial.stride_z = heads * p.partial.stride_x;
  reinterpret_cast<KernelFn<Params>>(const_cast<void*>(plan.kernel))(stream, Grid{plan.device->units, 0}, p);
  constexpr int kThreads = 128;
  reinterpret_cast<KernelFn<Params>>(plan.config[0])(
      stream, Grid{units * heads, kThreads, static_cast<size_t>(kThreads) * 8 * sizeof(float)}, p);
}

void run(const Plan<AttentionArgs>& plan, Stream& stream, const AttentionArgs& a, void* workspace) {
  if (a.out.size() == 0 || a.kv_length.dim(0) == 0) return;
  if (scores_of(a) == prefill::kMasks) return launch<kernels::RangeMask>(plan, stream, a, workspace);
  launch<kernels::ScoredMask>(plan, stream, a, workspace);
}

}  // namespace

const Implementation<AttentionArgs> attention_decode_tiles{"decode", Tier::portable, supports, cost, make_plan, run};

}  // namespace monotile::ops
