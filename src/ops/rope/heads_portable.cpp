// Norm, rotary embedding and cache append in one launch, portable tier.

#include "ops/rope/head_parts.hpp"
#include "ops/rope/rope.hpp"

namespace monotile::ops {
namespace {

/// Heads of 64, 128 or 256 columns that are rotated as a whole, pairs half a head apart: half a head to a lane group, so that both of a pair meet in a
/// lane. Sums of squares then run as they do in the norm's own layouts.
bool in_halves(const NormRopeAppendArgs& a, const DeviceInfo& device) {
  const int64_t cols = a.q.dim(2);
  if (device.device.kind == DeviceKind::cpu || compiles_on_use(device)) return false;
  if (a.interleaved || 2 * a.cos.dim(1) != cols || a.v.dim(2) != cols || (cols != 64 && cols != 128 && cols != 256))
    return false;
  for (const TensorView& view : {a.q, a.q_out, a.k, a.k_out, a.v, a.q_gamma, a.k_gamma, a.cos, a.sin}) {
    if (!whole_vectors(view)) return false;
  }
  return heads::cache_vectors(a.key_cache) && heads::cache_vectors(a.value_cache);
}

RowTile tile_of(const NormRopeAppendArgs& a, const DeviceInfo& device) {
  if (!in_halves(a, device)) return heads::tile_of(std::max(a.q.dim(2), a.v.dim(2)), device);
  RowTile tile = pick_head_tile(a.q.dim(2) / 2, device);
  tile.layout += kExactHeads;
  return tile;
}

const char* supports(const NormRopeAppendArgs& a, const DeviceInfo& device) {
  if (a.q.dim(0) * std::max(a.q.dim(1), a.k.dim(1)) > INT32_MAX) return "more than 2^31 - 1 heads of all tokens";
  if (heads::slots_of(a.key_cache) > UINT32_MAX) return heads::kTooManySlots;
  return heads::kernel_of(a.q.dtype, tile_of(a, device), device) == nullptr ? "not built for this target" : nullptr;
}

double cost(const NormRopeAppendArgs&, const DeviceInfo&) { return 1.0; }

void make_plan(const NormRopeAppendArgs& a, const DeviceInfo& device, Plan<NormRopeAppendArgs>& plan) {
  const RowTile tile = tile_of(a, device);
  plan.kernel = reinterpret_cast<const void*>(heads::kernel_of(a.q.dtype, tile, device));
  plan.config = {static_cast<int64_t>(tile.layout), tile.threads, tile.rows_per_program};
}

lang::any_view one_row(const TensorView& gamma) {
  lang::any_view v = any_rows_view(gamma);
  v.outer_stride = 0;
  return v;
}

template <class X>
void launch(const Plan<NormRopeAppendArgs>& plan, Stream& stream, const NormRopeAppendArgs& a) {
  kernels::HeadRowsParams<X> p{};
  const int64_t tokens = a.q.dim(0);
  p.part[0] = heads::part_of<X>(a.q, tokens);
  p.part[1] = heads::part_of<X>(a.k, tokens);
  p.part[2] = heads::part_of<X>(a.v, tokens);
  p.part[0].y = row_view<X>(a.q_out);
  if (a.k_out.defined()) p.part[1].y = row_view<X>(a.k_out);
  if (a.q_gamma.defined()) {
    const auto add_gamma = [](kernels::HeadPart<X>& part, const TensorView& gamma) {
      part.gamma = column_vector(gamma);
      part.gamma_rows = one_row(gamma);
    };
    add_gamma(p.part[0], a.q_gamma);
    add_gamma(p.part[1], a.k_gamma);
  }
  p.part[0].half = p.part[1].half = a.cos.dim(1);
  heads::add_cache(p.part[1], a.key_cache, a.key_scale);
  heads::add_cache(p.part[2], a.value_cache, a.value_scale);
  p.positions = index_vector(a.positions);
  p.slots = heads::slot_table(a.slots, a.status, a.key_cache);
  p.cos = row_view<const float>(a.cos);
  p.sin = row_view<const float>(a.sin);
  p.max_position = a.cos.dim(0);
  p.slot_tokens = a.slots.dim(0);
  p.eps = a.eps;
  p.gamma_offset = a.gamma_offset;
  p.interleaved = a.interleaved;
  heads::launch(
      plan.kernel, stream, p,
      {static_cast<uint32_t>(plan.config[0]), static_cast<int>(plan.config[1]), static_cast<int>(plan.config[2])});
}

void run(const Plan<NormRopeAppendArgs>& plan, Stream& stream, const NormRopeAppendArgs& a, void*) {
  if (a.q.dim(0) == 0) return;
  switch (a.q.dtype) {
    case DType::f32: return launch<float>(plan, stream, a);
    case DType::f16: return launch<half_t>(plan, stream, a);
    default: return launch<bfloat16_t>(plan, stream, a);
  }
}

}  // namespace

const Implementation<NormRopeAppendArgs> norm_rope_append_portable{"portable", Tier::portable, supports,
                                                                   cost,       make_plan,      run};

}  // namespace monotile::ops
