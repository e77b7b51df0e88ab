// Mixture of experts, portable tier: which layout a row gets, and the launches.

#include "monotile/kernels/moe/params.hpp"
#include "ops/moe/moe.hpp"
#include "ops/moe/variants.hpp"
#include "ops/row_tiles.hpp"

namespace monotile::ops {
namespace {

// ---- Router ----

/// Ranks lie in the lanes of a row, where several rows share a program.
RowTile pick_router_tile(int64_t experts, int64_t top_k, const DeviceInfo& device) {
  if (device.device.kind == DeviceKind::cpu) return {kExperts128, 1, 1};
  const int threads = lanes_on(device, 128);
  if (experts <= 128 && top_k <= 16) return {kExperts128, threads, threads / 16};
  if (experts <= 256 && top_k <= 32) return {kExperts256, threads, threads / 32};
  if (experts <= 512 && top_k <= 32) return {kExperts512, threads, threads / 32};
  if (compiles_on_use(device)) return {kExpertsWave, threads, 1};
  return {kExpertsBlock, whole_waves((experts + 7) / 8, 1, device), 1};
}

auto router_kernel(const RouterArgs& a, const DeviceInfo& device) {
  return find_kernel(RouterArgs::op_name, target_of(device),
                     variant_of(a.logits.dtype, pick_router_tile(a.logits.dim(1), a.experts.dim(1), device).layout));
}

template <class X>
void launch_router(const Plan<RouterArgs>& plan, Stream& stream, const RouterArgs& a) {
  kernels::RouterParams<X> p{};
  p.logits = row_view<const X>(a.logits);
  kernels::RouterChoice& c = p.choice;
  if (a.bias.defined()) c.bias = column_vector(a.bias);
  c.weights = a.weights.as<float>();
  c.weights_stride = a.weights.step(0);
  c.experts = a.experts.as<int32_t>();
  c.status = a.status.as<int32_t>();
  c.rows = a.logits.dim(0);
  c.num_experts = a.logits.dim(1);
  c.top_k = static_cast<int32_t>(a.experts.dim(1));
  c.groups = a.groups;
  c.kept_groups = a.kept_groups;
  c.group_sum = c.num_experts == a.groups ? 1 : a.group_sum;  // a group of one has no second
  c.scale = a.scale;
  c.share = a.scale / static_cast<float>(c.top_k);
  c.sigmoid = a.score == RouterScore::sigmoid;
  c.renormalise = a.renormalise;
  c.by_score = a.bias.defined() || (a.groups > 1 && a.group_sum > 1);
  const int64_t per_program = plan.config[1];
  const Grid grid{(c.rows + per_program - 1) / per_program, static_cast<int>(plan.config[0]), 0,
                  cpu_grain(c.num_experts * 4)};
  reinterpret_cast<KernelFn<kernels::RouterParams<X>>>(const_cast<void*>(plan.kernel))(stream, grid, p);
}

const char* router_supports(const RouterArgs& a, const DeviceInfo& device) {
  return router_kernel(a, device) == nullptr ? "not built for this target" : nullptr;
}

void plan_router(const RouterArgs& a, const DeviceInfo& device, Plan<RouterArgs>& plan) {
  const RowTile tile = pick_router_tile(a.logits.dim(1), a.experts.dim(1), device);
  plan.kernel = reinterpret_cast<const void*>(router_kernel(a, device));
  plan.config = {tile.threads, tile.rows_per_program};
}

void run_router(const Plan<RouterArgs>& plan, Stream& stream, const RouterArgs& a, void*) {
  if (a.experts.size() == 0) return;
  switch (a.logits.dtype) {
    case DType::f32: return launch_router<float>(plan, stream, a);
    case DType::f16: return launch_router<half_t>(plan, stream, a);
    default: return launch_router<bfloat16_t>(plan, stream, a);
  }
}

// ---- Align ----

int align_threads(const DeviceInfo& device) { return lanes_on(device, 512); }

/// Pairs of one program. One launch is worth more than many programs; with two, each program reads the counts of all others, so that there must not be too
/// many of them: both are waits for memory, and sorting a chunk of 2,048 is estimated at the time of adding up some 64.
int64_t chunk_pairs(const AlignArgs& a) {
  const int64_t pairs = a.experts.size();
  return pairs <= 4096 ? 4096 : pairs <= 128 * 2048 ? 2048 : 8192;
}
int64_t align_chunks(const AlignArgs& a) {
  const int64_t size = chunk_pairs(a);
  return std::max<int64_t>(1, (a.experts.size() + size - 1) / size);
}
int64_t align_sharers(const AlignArgs& a, const DeviceInfo& device) {
  return device.device.kind == DeviceKind::cpu ? 1 : std::clamp<int64_t>(align_threads(device) / std::max<int64_t>(1, a.counts.dim(0)), 1, 8);
}

const char* align_supports(const AlignArgs&, const DeviceInfo& device) {
  return find_kernel("moe_align_place", target_of(device), 0) == nullptr ? "not built for this target" : nullptr;
}

void plan_align(const AlignArgs& a, const DeviceInfo& device, Plan<AlignArgs>& plan) {
  const int64_t chunks = align_chunks(a), experts = a.counts.dim(0);
  const int64_t waves = device.device.kind == DeviceKind::cpu ? 1 : align_threads(device) / device.wave;
  plan.kernel = reinterpret_cast<const void*>(find_kernel("moe_align_place", target_of(device), 0));
  plan.config = {reinterpret_cast<int64_t>(find_kernel("moe_align_count", target_of(device), 0)),
                 experts * (3 + std::max(waves, 2 * align_sharers(a, device))) * 4};
  plan.workspace_bytes = chunks > 1 ? static_cast<size_t>(chunks * experts * 4) : 0;
}

void run_align(const Plan<AlignArgs>& plan, Stream& stream, const AlignArgs& a, void* workspace) {
  kernels::AlignParams p{};
  p.experts = a.experts.as<const int32_t>();
  p.counts = a.counts.as<int32_t>();
  p.offsets = a.offsets.as<int32_t>();
  p.sorted = a.sorted.as<int32_t>();
  p.positions = a.positions.as<int32_t>();
  p.block_experts = a.block_experts.as<int32_t>();
  p.partial = static_cast<int32_t*>(workspace);
  p.pairs = static_cast<int32_t>(a.experts.size());
  p.capacity = static_cast<int32_t>(a.sorted.dim(0));
  p.num_experts = static_cast<int32_t>(a.counts.dim(0));
  p.first_expert = a.first_expert;
  p.block = static_cast<int32_t>(a.block);
  p.chunks = static_cast<int32_t>(align_chunks(a));
  p.chunk_pairs = static_cast<int32_t>(chunk_pairs(a));
  p.sharers = static_cast<int32_t>(align_sharers(a, *plan.device));
  Grid grid{p.chunks, align_threads(*plan.device), static_cast<size_t>(p.num_experts) * 4, 1};
  if (p.chunks > 1) reinterpret_cast<KernelFn<kernels::AlignParams>>(plan.config[0])(stream, grid, p);
  grid.scratch_bytes = static_cast<size_t>(plan.config[1]);
  reinterpret_cast<KernelFn<kernels::AlignParams>>(const_cast<void*>(plan.kernel))(stream, grid, p);
}

// ---- Rows to the experts and back ----

/// Rows that programs walk: tokens, or places where rows are gathered.
int64_t walked_rows(const DispatchArgs& a) { return a.x.dim(0); }
int64_t walked_rows(const PermuteArgs& a) { return a.y.dim(0); }
int64_t walked_rows(const CombineArgs& a) { return a.y.dim(0); }
bool whole(const CombineArgs& a) { return !a.addend.defined() || whole_vectors(a.addend); }
template <class Args>
bool whole(const Args&) {
  return true;
}

template <class Args>
ChunkTile rows_tile(const Args& a, const DeviceInfo& device) {
  return pick_chunk_tile(walked_rows(a), a.y.dim(1), whole_vectors(a.y) && whole_vectors(a.x) && whole(a), device, 2);
}

template <class Args>
const char* rows_supports(const Args& a, const DeviceInfo& device) {
  const uint32_t variant = variant_of(a.y.dtype, rows_tile(a, device).layout);
  return find_kernel(Args::op_name, target_of(device), variant) == nullptr ? "not built for this target" : nullptr;
}

template <class Args>
void plan_rows(const Args& a, const DeviceInfo& device, Plan<Args>& plan) {
  const ChunkTile tile = rows_tile(a, device);
  plan.kernel =
      reinterpret_cast<const void*>(find_kernel(Args::op_name, target_of(device), variant_of(a.y.dtype, tile.layout)));
  plan.config = {static_cast<int64_t>(tile.layout), tile.threads, tile.rows_per_program, tile.chunks};
}

template <class X>
void fill(kernels::ExpertRowsParams<X>& p, const DispatchArgs& a) {
  p.index = a.positions.as<const int32_t>();
  p.top_k = static_cast<int32_t>(a.positions.dim(1));
}
template <class X>
void fill(kernels::ExpertRowsParams<X>& p, const PermuteArgs& a) {
  p.index = a.sorted.as<const int32_t>();
  p.end = a.end.as<const int32_t>();
  p.pairs = a.x.dim(0) * a.top_k;
  p.top_k = static_cast<int32_t>(a.top_k);
}
template <class X>
void fill(kernels::ExpertRowsParams<X>& p, const CombineArgs& a) {
  p.index = a.positions.as<const int32_t>();
  p.weights = a.weights.as<const float>();
  p.top_k = static_cast<int32_t>(a.positions.dim(1));
  if (a.addend.defined()) p.addend = row_view<const X>(a.addend);
}

template <class X, class Args>
void launch_rows(const Plan<Args>& plan, Stream& stream, const Args& a) {
  kernels::ExpertRowsParams<X> p{};
  p.x = row_view<const X>(a.x);
  p.y = row_view<X>(a.y);
  p.rows = walked_rows(a);
  p.cols = a.y.dim(1);
  p.chunks = plan.config[3];
  fill(p, a);
  const ChunkTile tile{static_cast<uint32_t>(plan.config[0]), static_cast<int>(plan.config[1]),
                       static_cast<int>(plan.config[2]), plan.config[3]};
  const Grid grid{tile.programs(p.rows), tile.threads, 0, cpu_grain(p.cols * static_cast<int64_t>(sizeof(X)))};
  reinterpret_cast<KernelFn<kernels::ExpertRowsParams<X>>>(const_cast<void*>(plan.kernel))(stream, grid, p);
}

template <class Args>
void run_rows(const Plan<Args>& plan, Stream& stream, const Args& a, void*) {
  if (walked_rows(a) == 0 || a.y.dim(1) == 0) return;
  switch (a.y.dtype) {
    case DType::f32: return launch_rows<float>(plan, stream, a);
    case DType::f16: return launch_rows<half_t>(plan, stream, a);
    default: return launch_rows<bfloat16_t>(plan, stream, a);
  }
}

// ---- Router, align and dispatch in one call ----

/// The plans of the parts, packed into one: kernels first, then what the parts keep beside them.
struct RoutePlans {
  Plan<RouterArgs> router;
  Plan<AlignArgs> align;
  Plan<DispatchArgs> dispatch;

  std::array<int64_t, 8> packed() const {
    return {reinterpret_cast<int64_t>(router.kernel),
            reinterpret_cast<int64_t>(align.kernel),
            align.config[0],
            reinterpret_cast<int64_t>(dispatch.kernel),
            router.config[0] | router.config[1] << 32,
            align.config[1],
            dispatch.config[0] | dispatch.config[1] << 16 | dispatch.config[2] << 32,
            dispatch.config[3]};
  }
  static RoutePlans unpacked(const std::array<int64_t, 8>& c) {
    RoutePlans p;
    p.router.kernel = reinterpret_cast<const void*>(c[0]);
    p.align.kernel = reinterpret_cast<const void*>(c[1]);
    p.dispatch.kernel = reinterpret_cast<const void*>(c[3]);
    p.router.config = {c[4] & 0xffffffff, c[4] >> 32};
    p.align.config = {c[2], c[5]};
    p.dispatch.config = {c[6] & 0xffff, c[6] >> 16 & 0xffff, c[6] >> 32, c[7]};
    return p;
  }
};

const char* route_supports(const RouteArgs& a, const DeviceInfo& device) {
  const char* why = router_supports(a.router, device);
  if (why == nullptr) why = align_supports(align_part(a), device);
  if (why == nullptr && a.x.defined()) why = rows_supports(dispatch_part(a), device);
  return why;
}

void plan_route(const RouteArgs& a, const DeviceInfo& device, Plan<RouteArgs>& plan) {
  RoutePlans parts;
  plan_router(a.router, device, parts.router);
  plan_align(align_part(a), device, parts.align);
  if (a.x.defined()) plan_rows(dispatch_part(a), device, parts.dispatch);
  plan.config = parts.packed();
  plan.workspace_bytes = parts.align.workspace_bytes;
}

void run_route(const Plan<RouteArgs>& plan, Stream& stream, const RouteArgs& a, void* workspace) {
  RoutePlans parts = RoutePlans::unpacked(plan.config);
  parts.router.device = parts.align.device = parts.dispatch.device = plan.device;
  run_router(parts.router, stream, a.router, nullptr);
  run_align(parts.align, stream, align_part(a), workspace);
  if (a.x.defined()) run_rows(parts.dispatch, stream, dispatch_part(a), nullptr);
}

template <class Args>
double cost(const Args&, const DeviceInfo&) {
  return 1.0;
}

}  // namespace

const Implementation<RouterArgs> router_portable = {"portable",       Tier::portable, router_supports,
                                                    cost<RouterArgs>, plan_router,    run_router};
const Implementation<AlignArgs> align_portable = {"portable",      Tier::portable, align_supports,
                                                  cost<AlignArgs>, plan_align,     run_align};
const Implementation<DispatchArgs> dispatch_portable = {
    "portable",         Tier::portable,          rows_supports<DispatchArgs>,
    cost<DispatchArgs>, plan_rows<DispatchArgs>, run_rows<DispatchArgs>};
const Implementation<PermuteArgs> permute_portable = {
    "portable",        Tier::portable,         rows_supports<PermuteArgs>,
    cost<PermuteArgs>, plan_rows<PermuteArgs>, run_rows<PermuteArgs>};
const Implementation<CombineArgs> combine_portable = {
    "portable",        Tier::portable,         rows_supports<CombineArgs>,
    cost<CombineArgs>, plan_rows<CombineArgs>, run_rows<CombineArgs>};
const Implementation<RouteArgs> route_portable = {"portable",      Tier::portable, route_supports,
                                                  cost<RouteArgs>, plan_route,     run_route};

}  // namespace monotile::ops
