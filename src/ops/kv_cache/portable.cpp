// Cache append, portable tier: which layout a head gets, and the launch.

#include "monotile/kernels/kv_cache/params.hpp"
#include "ops/kv_cache/kv_cache.hpp"
#include "ops/row_tiles.hpp"

namespace monotile::ops {
namespace {

constexpr const char* kKernel = "kv_append";

RowTile tile_of(const KvAppendArgs& a, const DeviceInfo& device) {
  return pick_head_tile(std::max(a.k.dim(2), a.v.dim(2)), device, kHeads8);
}

auto kernel_of(const KvAppendArgs& a, const DeviceInfo& device) {
  return find_kernel(kKernel, target_of(device), variant_of(a.k.dtype, a.key_cache.dtype, tile_of(a, device).layout));
}

const char* supports(const KvAppendArgs& a, const DeviceInfo& device) {
  if (is_code(a.key_cache.dtype)) return "a cache of plain values";
  if (a.slots.dim(0) * a.k.dim(1) > INT32_MAX) return "more than 2^31 - 1 heads of all tokens";
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
  constexpr int64_t kSize = static_cast<int64_t>(sizeof(C));
  kernels::KvAppendPart<X, C> part{};
  part.cache.data = cache.as<C>();
  part.cache.outer_stride = 1;
  part.cache.cols = cache.dim(3);
  part.cache.vectors = vector_aligned(cache.data);
  for (int axis = 0; axis < 3; ++axis) {
    part.cache.vectors = part.cache.vectors && (cache.dim(axis) <= 1 || cache.step(axis) * kSize % 16 == 0);
  }
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
  p.heads = static_cast<uint32_t>(a.k.dim(1));
  p.slots = index_vector(a.slots);
  p.status = a.status.as<int32_t>();
  p.page_size = std::max<int64_t>(1, a.key_cache.dim(2));
  p.slot_count = a.key_cache.dim(0) * a.key_cache.dim(2);
  const RowTile tile{static_cast<uint32_t>(plan.config[0]), static_cast<int>(plan.config[1]),
                     static_cast<int>(plan.config[2])};
  p.first_programs = programs_for(tile, p.rows);
  const Grid grid{2 * p.first_programs, tile.threads, 0, cpu_grain(a.k.dim(2) * static_cast<int64_t>(sizeof(C)))};
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
