// Appends to caches of codes, portable tier: the kernel on heads without norm and rotation.

#include "ops/kv_cache/kv_cache.hpp"
#include "ops/rope/head_parts.hpp"

namespace monotile::ops {
namespace {

int64_t widest(const KvAppendArgs& a) { return std::max(a.k.dim(2), a.v.dim(2)); }

const char* supports(const KvAppendArgs& a, const DeviceInfo& device) {
  if (!is_code(a.key_cache.dtype)) return "a cache of codes";
  if (widest(a) > heads::kMostDim) return "heads of more than 256 elements";
  if (a.slots.dim(0) * a.k.dim(1) > INT32_MAX) return "more than 2^31 - 1 heads of all tokens";
  if (heads::slots_of(a.key_cache) > UINT32_MAX) return heads::kTooManySlots;
  return heads::kernel_of(a.k.dtype, heads::tile_of(widest(a), device), device) == nullptr ? "not built for this target"
                                                                                           : nullptr;
}

double cost(const KvAppendArgs&, const DeviceInfo&) { return 1.0; }

void make_plan(const KvAppendArgs& a, const DeviceInfo& device, Plan<KvAppendArgs>& plan) {
  const RowTile tile = heads::tile_of(widest(a), device);
  plan.kernel = reinterpret_cast<const void*>(heads::kernel_of(a.k.dtype, tile, device));
  plan.config = {static_cast<int64_t>(tile.layout), tile.threads, tile.rows_per_program};
}

template <class X>
void launch(const Plan<KvAppendArgs>& plan, Stream& stream, const KvAppendArgs& a) {
  kernels::HeadRowsParams<X> p{};
  p.part[0].heads = lang::divisor_of(1);
  p.part[1] = heads::part_of<X>(a.k, a.slots.dim(0));
  p.part[2] = heads::part_of<X>(a.v, a.slots.dim(0));
  heads::add_cache(p.part[1], a.key_cache, a.key_scale);
  heads::add_cache(p.part[2], a.value_cache, a.value_scale);
  p.slots = heads::slot_table(a.slots, a.status, a.key_cache);
  p.slot_tokens = a.slots.dim(0);
  heads::launch(
      plan.kernel, stream, p,
      {static_cast<uint32_t>(plan.config[0]), static_cast<int>(plan.config[1]), static_cast<int>(plan.config[2])});
}

void run(const Plan<KvAppendArgs>& plan, Stream& stream, const KvAppendArgs& a, void*) {
  if (a.slots.dim(0) * a.k.dim(1) == 0) return;
  switch (a.k.dtype) {
    case DType::f32: return launch<float>(plan, stream, a);
    case DType::f16: return launch<half_t>(plan, stream, a);
    default: return launch<bfloat16_t>(plan, stream, a);
  }
}

}  // namespace

const Implementation<KvAppendArgs> kv_append_codes{"portable_codes", Tier::portable, supports, cost, make_plan, run};

}  // namespace monotile::ops
