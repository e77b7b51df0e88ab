// Norms with more to them than RmsNorm (layer norm, grouped norm, quantised output), portable tier.

#include "monotile/kernels/norm/params.hpp"
#include "ops/norm/norm.hpp"
#include "ops/norm/variants.hpp"
#include "ops/quant/quant.hpp"
#include "ops/row_tiles.hpp"

namespace monotile::ops {
namespace {

/// A kernel by its name, and the one for teams.
struct Names {
  const char *kernel, *team;
};
constexpr Names kRms{"rms_norm_quantise", "rms_norm_team"}, kRmsQuantise{"rms_norm_quantise", "rms_norm_quantise_team"},
    kLayer{"layer_norm", "layer_norm_team"};

template <class Args>
norm::Types types_of(const Args& a) {
  return norm::types_of(a.x.dtype, a.residual.defined() ? a.residual.dtype : a.x.dtype);
}

struct Tile : RowTile {
  int64_t chunks = 0;  ///< a team holds the row
};

/// As RmsNorm takes it, or the general form of that layout, which adds in the same order: fused and unfused agree to the bit. Codes may lie where they
/// like.
template <class Args>
Tile tile_of(const Args& a, const DeviceInfo& device, const Names& names) {
  constexpr bool kTakesBeta = std::is_same_v<Args, LayerNormArgs>;
  const bool exact = whole_vectors(a.x) && whole_vectors(a.y) && whole_vectors(a.residual) && whole_vectors(a.gamma) &&
                     (kTakesBeta ? whole_vectors(a.beta) : !a.beta.defined());
  const bool plain = one_stride(a.x) && one_stride(a.y) && one_stride(a.residual);
  const RowTile general = pick_row_tile(a.x.dim(-1), false, device, RowPolicy::sums);
  if (device.device.kind == DeviceKind::cpu) return {{a.gamma.dtype == a.x.dtype ? norm::kSameGamma : 0, 1, 1}};
  Tile tile{pick_row_tile(a.x.dim(-1), exact, device, RowPolicy::sums)};
  if (!plain || a.gamma.rank != 1) return {general};
  const TeamTile team = pick_team_tile(a.x.dim(-1), tile, device);
  const uint32_t wide = a.gamma.dtype != a.x.dtype ? norm::kWideGamma : 0;
  if (team.chunks != 0 && find_kernel(names.team, target_of(device), norm::variant(types_of(a), wide)) != nullptr)
    return {{wide, team.threads, 1}, team.chunks};
  if (tile.layout != kExact + kBlock2 && tile.layout != kExact + kBlock4) return {general};
  tile.layout += wide;
  return tile;
}

auto kernel_of(norm::Types types, const Tile& tile, const Names& names, const DeviceInfo& device) {
  return find_kernel(tile.chunks != 0 ? names.team : names.kernel, target_of(device),
                     norm::variant(types, tile.layout));
}

/// One row, or a row for each group that starts again with every outer row.
lang::any_view group_rows(const TensorView& t) {
  if (!t.defined()) return {};
  lang::any_view v = any_rows_view(t);
  lang::view<char> rows;
  rows.split_rows(t.rank == 2 ? static_cast<uint32_t>(std::max<int64_t>(1, t.dim(0))) : 1);
  v.inner_rows = rows.inner_rows;
  v.inner_inverse = rows.inner_inverse;
  v.inner_stride = t.rank == 2 ? t.step(0) : 0;
  v.outer_stride = 0;
  return v;
}

template <class X, class R, class Args>
kernels::NormParams<X, R> params_of(const Args& a) {
  kernels::NormParams<X, R> p{};
  if (a.y.defined()) p.y = row_view<X>(a.y);
  p.x = row_view<X>(a.x);
  if (a.residual.defined()) p.residual = row_view<R>(a.residual);
  p.gamma = group_rows(a.gamma);
  p.beta = group_rows(a.beta);
  p.rows = row_count(a.x);
  p.cols = a.x.dim(-1);
  p.eps = a.eps;
  p.gamma_offset = a.gamma_offset;
  if constexpr (requires { a.codes; }) {
    p.codes = any_rows_view(a.codes);
    p.scales = {a.scales.template as<float>(), a.given_scales ? 0 : a.scales.step(0), 0, 1, 1, false};
    p.largest_code = largest_code(a.codes.dtype);
    p.given = a.given_scales;
  }
  return p;
}

template <class Args, const Names& names>
const char* supports(const Args& a, const DeviceInfo& device) {
  const norm::Types types = types_of(a);
  if (types == norm::no_types) return "no portable kernel for these dtypes";
  if (kernel_of(types, tile_of(a, device, names), names, device) == nullptr) return "not built for this target";
  return nullptr;
}

const char* supports_grouped(const RmsNormArgs& a, const DeviceInfo& device) {
  if (a.gamma.rank != 2 && !norm::takes_team(a, device)) return "a gamma for each group, and rows for teams";
  return supports<RmsNormArgs, kRms>(a, device);
}

template <class Args>
double cost(const Args&, const DeviceInfo&) {
  return 1.0;
}

template <class Args, const Names& names>
void make_plan(const Args& a, const DeviceInfo& device, Plan<Args>& plan) {
  const norm::Types types = types_of(a);
  const Tile tile = tile_of(a, device, names);
  plan.kernel = reinterpret_cast<const void*>(kernel_of(types, tile, names, device));
  plan.config = {static_cast<int64_t>(tile.layout), tile.threads, tile.rows_per_program, types, tile.chunks};
}

template <class X, class R, class Args>
void launch(const Plan<Args>& plan, Stream& stream, const Args& a) {
  using Params = kernels::NormParams<X, R>;
  Params p = params_of<X, R>(a);
  p.chunks = plan.config[4];
  const RowTile tile{static_cast<uint32_t>(plan.config[0]), static_cast<int>(plan.config[1]),
                     static_cast<int>(plan.config[2])};
  Grid grid{programs_for(tile, p.rows), tile.threads, 0, cpu_grain(p.cols * static_cast<int64_t>(sizeof(R)))};
  if (p.chunks != 0) grid = {p.rows * p.chunks, tile.threads, kTeamScratch, 1};
  reinterpret_cast<KernelFn<Params>>(const_cast<void*>(plan.kernel))(stream, grid, p);
}

template <class Args>
void run(const Plan<Args>& plan, Stream& stream, const Args& a, void*) {
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

bool norm::takes_team(const RmsNormArgs& a, const DeviceInfo& device) { return tile_of(a, device, kRms).chunks != 0; }

const Implementation<RmsNormArgs> rms_norm_grouped{
    "portable_grouped",           Tier::portable,  supports_grouped, cost<RmsNormArgs>,
    make_plan<RmsNormArgs, kRms>, run<RmsNormArgs>};
const Implementation<RmsNormQuantiseArgs> rms_norm_quantise_portable{"portable",
                                                                     Tier::portable,
                                                                     supports<RmsNormQuantiseArgs, kRmsQuantise>,
                                                                     cost<RmsNormQuantiseArgs>,
                                                                     make_plan<RmsNormQuantiseArgs, kRmsQuantise>,
                                                                     run<RmsNormQuantiseArgs>};
const Implementation<LayerNormArgs> layer_norm_portable{"portable",
                                                        Tier::portable,
                                                        supports<LayerNormArgs, kLayer>,
                                                        cost<LayerNormArgs>,
                                                        make_plan<LayerNormArgs, kLayer>,
                                                        run<LayerNormArgs>};

}  // namespace monotile::ops
