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
  const void *kernel, *merge, *start;  ///< start: of the queue from which the programs of `kernel` take tiles; if so, they merge
  decode::TileShape shape;
  int64_t heads_per_tile;  ///< neighbouring heads of one kv head: all, or the largest even part that a tile can hold
};

Policy pick(const AttentionArgs& a, const DeviceInfo& device) {
  const Target target = target_of(device);
  const uint32_t dims = prefill::dims_of(std::max(a.q.dim(2), a.out.dim(2)));
  const auto variant = [&](uint32_t path) { return decode::variant(a.q.dtype, path, dims, scores_of(a)); };
  Policy p{};
  p.merge = reinterpret_cast<const void*>(find_kernel("attention.decode_merge", target, variant(decode::kRing)));
  const auto* const start = reinterpret_cast<const void*>(find_kernel("attention.decode_start", target, 0));
  const bool engine = rows_aligned(a.q) && rows_aligned(a.key_cache) && rows_aligned(a.value_cache);
  const char* const name = is_code(a.key_cache.dtype) ? decode::kCodesKernel : "attention.decode";
  for (const uint32_t path : {decode::kStream, decode::kRing, decode::kStaged}) {
    if (path == decode::kStream && !engine) continue;
    p.shape = decode::shape_of(path, dims);
    p.kernel = reinterpret_cast<const void*>(find_kernel(name, target, variant(path)));
    p.start = path == decode::kStream ? start : nullptr;
    if (p.kernel != nullptr) break;
  }
  const int64_t group = a.q.dim(1) / std::max<int64_t>(1, a.key_cache.dim(1));
  p.heads_per_tile = std::clamp<int64_t>(group, 1, p.shape.bm);
  while (group % p.heads_per_tile != 0) --p.heads_per_tile;
  return p;
}
/// Of the longest sequence that is allowed; shorter ones use only their own.
int64_t splits_of(const AttentionArgs& a, int64_t least) {
  return kernels::most_splits(static_cast<int>(kv_bound(a)), static_cast<int>(least));
}

const char* supports(const AttentionArgs& a, const DeviceInfo& device) {
  if (a.max_query > 1) return "one query per sequence only";
  if (a.tree_mask.defined()) return "no trees of drafted tokens";
  if (const char* why = operands_refused(a)) return why;
  if (const char* why = sizes_refused(a)) return why;
  const Policy p = pick(a, device);
  if (p.kernel == nullptr) return "not built for this target";
  if (a.kv_length.dim(0) * (a.q.dim(1) / p.heads_per_tile) * splits_of(a, p.shape.least_split) > INT32_MAX / 2)
    return "more than 2^30 splits";
  if (a.kv_length.dim(0) * (a.q.dim(1) / p.heads_per_tile) * (kv_bound(a) / p.shape.bn + 1) > INT32_MAX)
    return "more than 2^31 blocks";
  return nullptr;
}

/// Less than that of the other kernels with one query: keys are read once for all heads that share them.
double cost(const AttentionArgs&, const DeviceInfo&) { return 2.0; }

/// Workspace: fp32 sums of every split, whole rows of a tile, then their maxima and totals, then counts.
struct Room {
  int64_t cols, sums, statistics, counts;
};
Room room_of(const AttentionArgs& a, int64_t heads, int64_t least) {
  const int64_t rows = a.q.dim(0) * a.q.dim(1) * splits_of(a, least);
  const int64_t cols = int64_t{64} << prefill::dims_of(std::max(a.q.dim(2), a.out.dim(2)));  // of the kernel's tiles
  return {cols, rows * cols, 2 * rows, kernels::DecodeCounts::first_arrival + a.kv_length.dim(0) * (a.q.dim(1) / heads)};
}

/// Keys of its first tile that each program may ask for before the kernel before is done: half of what the second-level
/// cache of an H200 holds, for all programs together. Masks may hide the first keys, which takes looking up to know.
/// Not on GPUs: it saved 0.4 us as a node of a graph (one sequence of 4,096 keys, 13.0 to 11.4 with what else was new) and cost 10 us where no
/// kernel runs before (15.8 to 26.4; H200, 2026-11-30, docs/notes/attention-decode.md). Emulated targets keep proving it until it is cheaper.
int foreseen_keys(const AttentionArgs& a, const DeviceInfo& device, int64_t programs, int64_t least_split) {
  if (device.device.kind == DeviceKind::cuda) return 0;
  if (a.window > 0 || a.prefix_length.defined() || a.key_ranges.defined()) return 0;
  constexpr int64_t kBytes = 24 << 20, kStep = 64;
  const int64_t key = (a.q.dim(2) + a.out.dim(2)) * dtype_info(a.key_cache.dtype).block_bytes;
  return static_cast<int>(std::min(least_split, kBytes / std::max<int64_t>(1, programs * key)) / kStep * kStep);
}

/// config: the kernel that joins the splits, or null and the one that starts the queue; heads and keys of a tile, the least
/// keys of a split.
void make_plan(const AttentionArgs& a, const DeviceInfo& device, Plan<AttentionArgs>& plan) {
  const Policy p = pick(a, device);
  plan.kernel = p.kernel;
  plan.config = {reinterpret_cast<int64_t>(p.start == nullptr ? p.merge : nullptr), reinterpret_cast<int64_t>(p.start),
                 p.heads_per_tile, p.shape.bn, p.shape.least_split};
  const Room room = room_of(a, p.heads_per_tile, p.shape.least_split);
  plan.workspace_bytes = static_cast<size_t>(room.sums + room.statistics + room.counts) * sizeof(float);
}

template <class Score>
void launch(const Plan<AttentionArgs>& plan, Stream& stream, const AttentionArgs& a, void* workspace) {
  using Params = kernels::DecodeParams<Score>;
  const int64_t heads = plan.config[2], splits = splits_of(a, plan.config[4]);
  const Room room = room_of(a, heads, plan.config[4]);
  Params p{};
  fill_tiles(p, a, heads, 1, plan.config[3]);
  fill_score(p.score, a);
  const auto units = static_cast<int32_t>(a.kv_length.dim(0) * (a.q.dim(1) / heads));
  p.tiles = 1;
  p.section = units;
  p.splits = static_cast<int32_t>(splits);
  p.least_split = static_cast<int32_t>(plan.config[4]);
  p.total = units * p.splits;
  p.statistics = static_cast<float*>(workspace) + room.sums;
  p.counts = reinterpret_cast<int32_t*>(p.statistics + room.statistics);
  p.partial = p.out;
  p.partial.data = workspace;
  p.partial.dtype = DType::f32;
  p.partial.vectors = true;
  p.partial.cols = static_cast<int32_t>(room.cols);
  p.partial.stride_x = splits * p.partial.cols;
  p.partial.stride_y = a.q.dim(1) * p.partial.stride_x;
  p.partial.stride_z = heads * p.partial.stride_x;
  if (plan.config[1] != 0) {
    p.slot = room.counts <= kernels::DecodeCounts::slot_size ? slot_of(workspace) : -1;
    if (p.slot >= 0) p.counts = nullptr;
    const int64_t programs = std::min<int64_t>(p.total, int64_t{2} * plan.device->units);
    p.foreseen = foreseen_keys(a, *plan.device, programs, p.least_split);
  }
  if (plan.config[1] != 0 && p.slot < 0) {
    const kernels::DecodeCounts counts{p.counts, static_cast<int32_t>(room.counts)};
    reinterpret_cast<KernelFn<kernels::DecodeCounts>>(plan.config[1])(stream, Grid{1, 256}, counts);
  }
  reinterpret_cast<KernelFn<Params>>(const_cast<void*>(plan.kernel))(stream, Grid{plan.device->units, 0}, p);
  if (plan.config[0] != 0) reinterpret_cast<KernelFn<Params>>(plan.config[0])(stream, Grid{units, 128}, p);
}

void run(const Plan<AttentionArgs>& plan, Stream& stream, const AttentionArgs& a, void* workspace) {
  if (a.out.size() == 0 || a.kv_length.dim(0) == 0) return;
  if (scores_of(a) == prefill::kMasks) return launch<kernels::RangeMask>(plan, stream, a, workspace);
  launch<kernels::ScoredMask>(plan, stream, a, workspace);
}

}  // namespace

const Implementation<AttentionArgs> attention_decode_tiles{"decode", Tier::portable, supports, cost, make_plan, run};

}  // namespace monotile::ops
