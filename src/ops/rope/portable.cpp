// Rotary embedding, portable tier: which layout a head gets, and the launch.

#include "monotile/kernels/rope/params.hpp"
#include "ops/rope/rope.hpp"
#include "ops/rope/variants.hpp"
#include "ops/row_tiles.hpp"

namespace monotile::ops {
namespace {

constexpr const char* kKernel = "rope";

RowTile tile_of(const RopeArgs& a, const DeviceInfo& device) {
  const int64_t half = a.cos.dim(1), rest = a.q.dim(2) - 2 * half,
                cols = std::max(a.interleaved ? 2 * half : half, rest);
  if (device.device.kind == DeviceKind::cpu) return {0, 1, 1};
  bool exact = half % 8 == 0 && cols <= 256;
  for (const TensorView& view : {a.q, a.q_out, a.k, a.k_out, a.cos, a.sin}) exact = exact && whole_vectors(view);
  const int threads = lanes_on(device, 128);
  if (!exact) return cols <= 128 ? RowTile{kHeads16, threads, threads / 16} : RowTile{kHeadsStream, threads, 1};
  RowTile tile = pick_head_tile(cols, device);
  const int group = rope_kernels::heads_of_group(a.q.dtype);
  const int64_t k_heads = a.k.defined() ? a.k.dim(1) : 0;
  const bool whole = !compiles_on_use(device) && rest == 0 && a.q.dim(1) % group == 0 && k_heads % group == 0;
  // Little work takes more programs instead: its time is that of one of them.
  const bool much = a.q.dim(0) * a.q.dim(1) >= int64_t{4} * device.units * tile.rows_per_program * group;
  if (!whole || !much) {
    tile.layout += kExactHeads;
    return tile;
  }
  return {rope_kernels::kGroups + tile.layout, tile.threads, tile.rows_per_program * group};
}

const char* supports(const RopeArgs& a, const DeviceInfo& device) {
  const int64_t heads = std::max(a.q.dim(1), a.k.defined() ? a.k.dim(1) : 0);
  if (a.q.dim(0) * heads > INT32_MAX) return "more than 2^31 - 1 heads of all tokens";
  if (find_kernel(kKernel, target_of(device), variant_of(a.q.dtype, tile_of(a, device).layout)) == nullptr)
    return "not built for this target";
  return nullptr;
}

double cost(const RopeArgs&, const DeviceInfo&) { return 1.0; }

void make_plan(const RopeArgs& a, const DeviceInfo& device, Plan<RopeArgs>& plan) {
  const RowTile tile = tile_of(a, device);
  plan.kernel =
      reinterpret_cast<const void*>(find_kernel(kKernel, target_of(device), variant_of(a.q.dtype, tile.layout)));
  plan.config = {static_cast<int64_t>(tile.layout), tile.threads, tile.rows_per_program};
}

template <class X>
void launch(const Plan<RopeArgs>& plan, Stream& stream, const RopeArgs& a) {
  using Params = kernels::RopeParams<X>;
  Params p{};
  p.half = a.cos.dim(1);
  p.rest = a.q.dim(2) - 2 * p.half;
  const auto part = [&](const TensorView& y, const TensorView& x) {
    const bool copy = p.rest > 0 && y.data != x.data;
    return kernels::RopePart<X>{row_view<X>(y), row_view<X>(x), x.dim(0) * x.dim(1), static_cast<uint32_t>(x.dim(1)),
                                copy};
  };
  p.part[0] = part(a.q_out, a.q);
  if (a.k.defined()) p.part[1] = part(a.k_out, a.k);
  p.positions = index_vector(a.positions);
  p.cos = row_view<const float>(a.cos);
  p.sin = row_view<const float>(a.sin);
  p.status = a.status.as<int32_t>();
  p.max_position = a.cos.dim(0);
  p.interleaved = a.interleaved;
  const RowTile tile{static_cast<uint32_t>(plan.config[0]), static_cast<int>(plan.config[1]),
                     static_cast<int>(plan.config[2])};
  p.first_programs = programs_for(tile, p.part[0].rows);
  const int64_t programs = p.first_programs + programs_for(tile, p.part[1].rows);
  const Grid grid{programs, tile.threads, 0, cpu_grain(a.q.dim(2) * static_cast<int64_t>(sizeof(X)))};
  reinterpret_cast<KernelFn<Params>>(const_cast<void*>(plan.kernel))(stream, grid, p);
}

void run(const Plan<RopeArgs>& plan, Stream& stream, const RopeArgs& a, void*) {
  if (a.q.size() == 0 && a.k.size() == 0) return;
  switch (a.q.dtype) {
    case DType::f32: return launch<float>(plan, stream, a);
    case DType::f16: return launch<half_t>(plan, stream, a);
    default: return launch<bfloat16_t>(plan, stream, a);
  }
}

}  // namespace

const Implementation<RopeArgs> rope_portable{"portable", Tier::portable, supports, cost, make_plan, run};

}  // namespace monotile::ops
