// Cache append, portable tier: which layout a head gets, and the launch.

#include "monotile/kernels/kv_cache/params.hpp"
#include "ops/kv_cache/kv_cache.hpp"
#include "ops/rope/head_parts.hpp"

namespace monotile::ops {
namespace {

constexpr const char* kKernel = "kv_append";

/// Rows that move as they are, in whole aligned vectors: nothing then stands between the two loads of a lane.
bool exact(const KvAppendArgs& a) {
  return a.k.dtype == a.key_cache.dtype && whole_vectors(a.k) && whole_vectors(a.v) &&
         heads::cache_vectors(a.key_cache) && heads::cache_vectors(a.value_cache);
}

RowTile tile_of(const KvAppendArgs& a, const DeviceInfo& device) {
  RowTile tile = pick_head_tile(std::max(a.k.dim(2), a.v.dim(2)), device, kHeads8);
  const bool lanes = device.device.kind != DeviceKind::cpu && !compiles_on_use(device);
  if (lanes && tile.layout != kHeadsStream && exact(a)) tile.layout += kExactHeads;
  return tile;
}

auto kernel_of(const KvAppendArgs& a, const DeviceInfo& device) {
  return find_kernel(kKernel, target_of(device), variant_of(a.k.dtype, a.key_cache.dtype, tile_of(a, device).layout));
}

const char* supports(const KvAppendArgs& a, const DeviceInfo& device) {
  if (is_code(a.key_cache.dtype)) return "a cache of plain values";
  if (a.slots.dim(0) * a.k.dim(1) > INT32_MAX) return "more than 2^31 - 1 heads of all tokens";
  if (heads::slots_of(a.key_cache) > UINT32_MAX) return heads::kTooManySlots;
  return kernel_of(a, device) == nullptr ? "not built for this target" : nullptr;
}

double cost(const KvAppendArgs&, const DeviceInfo&) { return 1.0; }

void make_plan(const KvAppendArgs& a, const DeviceInfo& device, Plan<KvAppendArgs>& plan) {
  const RowTile tile = tile_of(a, device);
  plan.kernel = reinterpret_cast<const void*>(kernel_of(a, device));
  plan.config = {static_cast<int64_t>(tile.layout), tile.threads, tile.rows_per_program};
}

template <class X, class C>
kernels::KvAppendPart<X, C> part_of(const TensorView& cache, const TensorView& source) {
  kernels::KvAppendPart<X, C> part{};
  part.cache.data = cache.as<C>();
  part.cache.outer_stride = 1;
  part.cache.cols = cache.dim(3);
  part.cache.vectors = heads::cache_vectors(cache);
  part.source = row_view<const X>(source);
  part.page_stride = cache.step(0);
  part.head_stride = cache.step(1);
  part.token_stride = cache.step(2);
  part.cols = source.dim(2);
  return part;
}

template <class X, class C>
void launch(const Plan<KvAppendArgs>& plan, Stream& stream, const KvAppendArgs& a) {
  using Params = kernels::KvAppendParams<X, C>;
  Params p{};
  p.part[0] = part_of<X, C>(a.key_cache, a.k);
  p.part[1] = part_of<X, C>(a.value_cache, a.v);
  p.rows = a.slots.dim(0) * a.k.dim(1);
  p.heads = lang::divisor_of(static_cast<uint32_t>(a.k.dim(1)));
  p.slots = heads::slot_table(a.slots, a.status, a.key_cache);
  const RowTile tile{static_cast<uint32_t>(plan.config[0]), static_cast<int>(plan.config[1]),
                     static_cast<int>(plan.config[2])};
  const Grid grid{programs_for(tile, p.rows), tile.threads, 0,
                  cpu_grain((a.k.dim(2) + a.v.dim(2)) * static_cast<int64_t>(sizeof(C)))};
  reinterpret_cast<KernelFn<Params>>(const_cast<void*>(plan.kernel))(stream, grid, p);
}

template <class X>
void launch_cache(const Plan<KvAppendArgs>& plan, Stream& stream, const KvAppendArgs& a) {
  switch (a.key_cache.dtype) {
    case DType::f32: return launch<X, float>(plan, stream, a);
    case DType::f16: return launch<X, half_t>(plan, stream, a);
    default: return launch<X, bfloat16_t>(plan, stream, a);
  }
}

void run(const Plan<KvAppendArgs>& plan, Stream& stream, const KvAppendArgs& a, void*) {
  if (a.slots.dim(0) * a.k.dim(1) == 0) return;
  switch (a.k.dtype) {
    case DType::f32: return launch_cache<float>(plan, stream, a);
    case DType::f16: return launch_cache<half_t>(plan, stream, a);
    default: return launch_cache<bfloat16_t>(plan, stream, a);
  }
}

}  // namespace

const Implementation<KvAppendArgs> kv_append_portable{"portable", Tier::portable, supports, cost, make_plan, run};

}  // namespace monotile::ops
