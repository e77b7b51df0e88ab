// RMSNorm, portable tier: which layout a row gets, and the launch.

#include "monotile/kernels/norm/params.hpp"
#include "ops/norm/norm.hpp"
#include "ops/norm/variants.hpp"
#include "ops/row_tiles.hpp"

namespace monotile::ops {
namespace {

RowTile tile_of(const RmsNormArgs& a, const DeviceInfo& device) {
  const RowTile general = pick_row_tile(a.x.dim(-1), false, device, RowPolicy::sums);
  const bool exact = whole_vectors(a.x) && whole_vectors(a.y) && whole_vectors(a.residual) && whole_vectors(a.gamma) && !a.beta.defined();
  RowTile tile = pick_row_tile(a.x.dim(-1), exact, device, RowPolicy::sums);
  if (tile.layout == general.layout) return general;
  const bool plain = one_stride(a.x) && one_stride(a.y) && one_stride(a.residual);
  if (one_row_each(tile.layout) && !plain) return general;
  if (a.gamma.dtype == a.x.dtype) return tile;
  if (tile.layout != kExact + kBlock2 && tile.layout != kExact + kBlock4) return general;
  tile.layout += norm::kWideGamma;
  return tile;
}

const char* supports(const RmsNormArgs& a, const DeviceInfo& device) {
  const DType residual = a.residual.defined() ? a.residual.dtype : a.x.dtype;
  const norm::Types types = norm::types_of(a.x.dtype, residual);
  if (a.gamma.rank != 1) return "one gamma for all rows";
  if (types == norm::no_types) return "no portable kernel for these dtypes";
  if (norm::takes_team(a, device)) return "rows for teams";
  const RowTile tile = tile_of(a, device);
  if (find_kernel(a.residual.defined() ? "add_rms_norm" : "rms_norm", target_of(device), norm::variant(types, tile.layout)) == nullptr) {
    return "not built for this target";
  }
  return nullptr;
}

double cost(const RmsNormArgs&, const DeviceInfo&) { return 1.0; }

void make_plan(const RmsNormArgs& a, const DeviceInfo& device, Plan<RmsNormArgs>& plan) {
  const DType residual = a.residual.defined() ? a.residual.dtype : a.x.dtype;
  const norm::Types types = norm::types_of(a.x.dtype, residual);
  const RowTile tile = tile_of(a, device);
  plan.kernel = reinterpret_cast<const void*>(
      find_kernel(a.residual.defined() ? "add_rms_norm" : "rms_norm", target_of(device), norm::variant(types, tile.layout)));
  plan.config = {static_cast<int64_t>(tile.layout), tile.threads, tile.rows_per_program, types};
}

template <class X, class R>
void launch(const Plan<RmsNormArgs>& plan, Stream& stream, const RmsNormArgs& a) {
  using Params = kernels::RmsNormParams<X, R>;
  Params p{};
  p.y = row_view<X>(a.y);
  p.x = row_view<X>(a.x);
  if (a.residual.defined()) p.residual = row_view<R>(a.residual);
  p.gamma = column_vector(a.gamma);
  if (a.beta.defined()) p.beta = column_vector(a.beta);
  p.rows = row_count(a.x);
  p.cols = a.x.dim(-1);
  p.eps = a.eps;
  p.gamma_offset = a.gamma_offset;
  const RowTile tile{static_cast<uint32_t>(plan.config[0]), static_cast<int>(plan.config[1]), static_cast<int>(plan.config[2])};
  const Grid grid{programs_for(tile, p.rows), tile.threads, 0, cpu_grain(p.cols * static_cast<int64_t>(sizeof(R)))};
  reinterpret_cast<KernelFn<Params>>(const_cast<void*>(plan.kernel))(stream, grid, p);
}

void run(const Plan<RmsNormArgs>& plan, Stream& stream, const RmsNormArgs& a, void*) {
  if (a.x.size() == 0) return;
  switch (static_cast<norm::Types>(plan.config[3])) {
    case norm::f32_f32: return launch<float, float>(plan, stream, a);
    case norm::f16_f16: return launch<half_t, half_t>(plan, stream, a);
    case norm::bf16_bf16: return launch<bfloat16_t, bfloat16_t>(plan, stream, a);
    case norm::f16_f32: return launch<half_t, float>(plan, stream, a);
    default: return launch<bfloat16_t, float>(plan, stream, a);
  }
}

}  // namespace

const Implementation<RmsNormArgs> rms_norm_portable{"portable", Tier::portable, supports, cost, make_plan, run};

}  // namespace monotile::ops
