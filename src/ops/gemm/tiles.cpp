// Products by tiles, portable tier: which shapes, which tile, and the launch.

#include <algorithm>

#include "monotile/kernels/gemm/params.hpp"
#include "monotile/kernels/gemm/tiles_params.hpp"
#include "ops/gemm/gemm.hpp"
#include "ops/gemm/packing.hpp"
#include "ops/gemm/tile_cost.hpp"
#include "ops/gemm/tuning.hpp"
#include "ops/row_tiles.hpp"
#include "runtime/cpu_features.hpp"

namespace monotile::ops {
namespace {

using tiles::kShapes;
using tiles::Pick;
using tiles::TileShape;

/// Rows that the copy engine can take: 16-byte bases and pitches, no overlap of rows.
bool suits_copy_engine(const TensorView& t) {
  const auto suits = [&](int64_t step, int64_t least) { return step * dtype_info(t.dtype).block_bytes % 16 == 0 && step >= least; };
  return vector_aligned(t.data) && suits(t.step(-2), t.dim(-1)) && (t.rank == 2 || suits(t.step(0), t.dim(-1)));
}

bool is_cpu(const DeviceInfo& device) { return device.device.kind == DeviceKind::cpu; }

/// On GPUs operands of 8 or 16 bits of one type are copied as they are, all others are converted on their way.
bool is_mixed(const GemmArgs& args, const DeviceInfo& device) {
  return !is_cpu(device) && !is_code(args.a.dtype) && (args.a.dtype != args.b.dtype || args.a.dtype == DType::f32);
}

/// What operands are multiplied as. CPUs convert both as they are packed.
DType operands_of(const GemmArgs& args, const DeviceInfo& device) {
  if (is_mixed(args, device)) return args.cast == ProductCast::bf16 ? DType::bf16 : DType::f32;
  if (!is_cpu(device) || is_code(args.a.dtype)) return args.a.dtype;
  const Target target = target_of(device);
  const bool allowed = args.cast == ProductCast::bf16 || (args.a.dtype == DType::bf16 && args.b.dtype == DType::bf16);
  const bool built = find_kernel(tiles::kernel_name(tiles::kPlain16, args.gated()), target, tiles::variant(DType::bf16, tiles::kPlain16)) != nullptr;
  return allowed && built && cpu_has_fast_bf16(target) ? DType::bf16 : DType::f32;
}

/// Every row starts on 16 bytes.
bool has_vectors(const TensorView& t) {
  const int64_t bytes = dtype_info(t.dtype).block_bytes;
  return vector_aligned(t.data) && t.step(-2) * bytes % 16 == 0 && (t.rank == 2 || t.step(0) * bytes % 16 == 0);
}

/// A copy of an operand with rows on 16 bytes, in the workspace.
TensorView packed_at(void* data, const TensorView& t) {
  const int64_t vector = 16 / dtype_info(t.dtype).block_bytes;
  TensorView packed = t;
  packed.data = data;
  packed.stride[static_cast<size_t>(t.rank - 2)] = ceil_div(t.dim(-1), vector) * vector;
  if (t.rank == 3) packed.stride[0] = packed.step(1) * t.dim(1);
  return packed;
}
int64_t packed_bytes(const TensorView& t) {
  const TensorView packed = packed_at(nullptr, t);
  return (t.rank == 3 ? t.dim(0) : 1) * t.dim(-2) * packed.step(-2) * dtype_info(t.dtype).block_bytes;
}
packing::PackLayout packing_layout(const TensorView& t) { return t.dim(-1) <= packing::kShortCols ? packing::kShort : packing::kLong; }
/// The kernel that makes it, or null.
void (*packing_for(const TensorView& t, const DeviceInfo& device))() {
  return find_kernel(packing::kernel_name(static_cast<size_t>(dtype_info(t.dtype).block_bytes)), target_of(device), packing_layout(t));
}

/// Which tiles could multiply these operands: built, and the copy engine takes them where it is needed.
struct Usable {
  bool engine, by_elements;
  bool packs[2];  ///< copies of a and of b could take their places
  DType operands;
  Target target;
  const GemmArgs& args;

  bool built(uint32_t c) const {
    return (c != tiles::kRingTf32 || args.cast == ProductCast::tf32) &&
           find_kernel(tiles::kernel_name(c, args.gated()), target, tiles::variant(operands, c)) != nullptr;
  }
};
Usable usable(const GemmArgs& args, const DeviceInfo& device) {
  const bool by_rows = args.form == ProductForm::nt && args.k() > 0, suits_a = suits_copy_engine(args.a), suits_b = suits_copy_engine(args.b);
  const bool can_pack = by_rows && !is_cpu(device) && !is_mixed(args, device) && packing_for(args.a, device) != nullptr;
  const auto packs = [&](const TensorView& t, bool suits) { return can_pack && !suits && t.dim(-2) * (t.rank == 3 ? t.dim(0) : 1) <= INT32_MAX; };
  return {by_rows && suits_a && suits_b,
          by_rows && !is_cpu(device) && !is_mixed(args, device) && !(has_vectors(args.a) && has_vectors(args.b)),
          {packs(args.a, suits_a), packs(args.b, suits_b)},
          operands_of(args, device),
          target_of(device),
          args};
}

/// A tile, and whether copies of the operands are made for it.
struct Way {
  Pick tile;
  bool packs = false;
};
/// The fastest way to a tile that `wanted` has: operands as they lie, or packed first where they do not suit the copy engine or vector loads.
template <class Wanted>
Way best_way(const Usable& here, const DeviceInfo& device, Wanted wanted, int split) {
  const GemmArgs& args = here.args;
  const auto best = [&](bool engine, bool by_elements) {
    return tiles::pick_tile(args.m(), args.n(), args.k(), engine, std::max(1, device.units), wanted, is_mixed(args, device), args.batch(), split, by_elements);
  };
  Way way{best(here.engine, here.by_elements)};
  if (!here.packs[0] && !here.packs[1]) return way;
  Way packed{best(true, false), true};
  if (here.packs[0]) packed.tile.us += tiles::packing_us(packed_bytes(args.a));
  if (here.packs[1]) packed.tile.us += tiles::packing_us(packed_bytes(args.b));
  return packed.tile.config != tiles::kConfigs && (way.tile.config == tiles::kConfigs || packed.tile.us < way.tile.us) ? packed : way;
}

Way pick(const GemmArgs& args, const DeviceInfo& device) {
  const Usable here = usable(args, device);
  const tiles::Tuned* const row = tiles::tuned(args, device);
  if (row != nullptr && row->implementation == gemm_tiles.name) {  // unless these operands do not suit the tile, by their number
    const Way best = best_way(here, device, [&](uint32_t c) { return row->tile == tiles::kConfigNames[c] && here.built(c); }, row->split);
    if (best.tile.config != tiles::kConfigs) return best;
  }
  return best_way(here, device, [&](uint32_t c) { return here.built(c); }, 0);
}

const char* supports(const GemmArgs& args, const DeviceInfo& device) {
  if (args.cast == ProductCast::int8_block) return "no int8 blocks";
  if (args.k() == 0 && !args.gated() && args.form == ProductForm::nt && args.c.rank == 2 && !is_code(args.a.dtype)) return "k = 0";
  if (std::max({args.m(), args.n(), args.k(), args.batch()}) > INT32_MAX / 2) return "an extent above 2^30";
  constexpr int64_t kLeastTile = 64;
  if (ceil_div(args.m(), kLeastTile) * ceil_div(args.n(), kLeastTile) > INT32_MAX / 2 / std::max<int64_t>(args.batch(), 1))
    return "too many tiles";
  if (pick(args, device).tile.config == tiles::kConfigs) return "not built for this target";
  return nullptr;
}

/// Rows of a from which packing both operands beats the products of rows (docs/notes/gemm-cpu.md, 2026-11-30).
constexpr int64_t kLeastRowsOnCpu = 8, kLeastRowsOfBlocks = 16;

/// What the table did not choose, in microseconds: more than anything takes.
constexpr double kNotByTable = 9e5;

double cost(const GemmArgs& args, const DeviceInfo& device) {
  const int64_t least = is_quantised(args.b.dtype) ? kLeastRowsOfBlocks : kLeastRowsOnCpu;
  if (const tiles::Tuned* const row = tiles::tuned(args, device)) return row->implementation == gemm_tiles.name ? 0.0 : kNotByTable;
  if (is_cpu(device)) return args.m() < least && args.c.rank == 2 && !args.gated() ? 2.0 : 0.5;  // that of the products of rows is 1
  return pick(args, device).tile.us;
}

/// config: index of the tile, programs that share its steps, the kernels that pack a and b, and where b's copy starts in the workspace.
void plan_tile(const GemmArgs& args, const DeviceInfo& device, Plan<GemmArgs>& plan, const Way& best) {
  plan.kernel = reinterpret_cast<const void*>(find_kernel(tiles::kernel_name(best.tile.config, args.gated()), target_of(device),
                                                          tiles::variant(operands_of(args, device), best.tile.config)));
  plan.config = {static_cast<int64_t>(best.tile.config), best.tile.split};
  plan.workspace_bytes = 0;
  if (!best.packs) return;
  const Usable here = usable(args, device);
  constexpr int64_t kAlignment = 256;
  if (here.packs[0]) plan.config[2] = reinterpret_cast<int64_t>(packing_for(args.a, device));
  if (here.packs[1]) plan.config[3] = reinterpret_cast<int64_t>(packing_for(args.b, device));
  plan.config[4] = here.packs[0] ? ceil_div(packed_bytes(args.a), kAlignment) * kAlignment : 0;
  plan.workspace_bytes = static_cast<size_t>(plan.config[4] + (here.packs[1] ? packed_bytes(args.b) : 0));
}
void make_plan(const GemmArgs& args, const DeviceInfo& device, Plan<GemmArgs>& plan) {
  plan_tile(args, device, plan, pick(args, device));
}

/// Queues the copy of an operand to `to`.
template <class T>
void pack(const Plan<GemmArgs>& plan, int64_t kernel, Stream& stream, const TensorView& from, const TensorView& to) {
  using Params = kernels::PackRowsParams<T>;
  const bool is_short = packing_layout(from) == packing::kShort;
  const int threads = lanes_on(*plan.device, packing::kThreads);
  Params p{};
  p.from = row_view<const T>(from);
  p.to = row_view<T>(to);
  p.rows = from.dim(-2) * (from.rank == 3 ? from.dim(0) : 1);
  p.cols = from.dim(-1);
  p.chunks = ceil_div(p.cols, is_short ? packing::short_layout::vector_elements * packing::short_layout::lanes_per_row
                                       : packing::long_layout::elements * threads);
  const int64_t groups = ceil_div(p.rows, is_short ? threads / packing::short_layout::lanes_per_row : 1);
  reinterpret_cast<KernelFn<Params>>(kernel)(stream, Grid{groups * p.chunks, threads}, p);
}
TensorView packed_operand(const Plan<GemmArgs>& plan, int64_t kernel, Stream& stream, const TensorView& from, void* to) {
  if (kernel == 0) return from;
  const TensorView packed = packed_at(to, from);
  dtype_info(from.dtype).block_bytes == 1 ? pack<uint8_t>(plan, kernel, stream, from, packed) : pack<half_t>(plan, kernel, stream, from, packed);
  return packed;
}

/// `by_k`: the operand is stored with k along its rows' number.
lang::matrix_view matrix_of(const TensorView& t, bool by_k = false) {
  lang::matrix_view v;
  v.data = t.data;
  v.rows = static_cast<int32_t>(t.dim(by_k ? -1 : -2));
  v.cols = static_cast<int32_t>(t.dim(by_k ? -2 : -1));
  v.dtype = t.dtype;
  v.stride = t.step(-2);
  if (t.rank == 3) v.batch = static_cast<int32_t>(t.dim(0)), v.batch_stride = t.step(0);
  v.vectors = has_vectors(t);
  v.transposed = by_k;
  return v;
}

/// Where the factors lie, and whether there is one for all.
void set_scales(const float*& data, int& step, const TensorView& scale) {
  if (!scale.defined()) return;
  data = scale.as<float>();
  step = scale.dim(0) == 1 ? 0 : 1;
}

/// `rows` and `cols` are the operands that tiles run along; the result is theirs, or lies across.
template <class Epilogue>
void launch(const Plan<GemmArgs>& plan, Stream& stream, const GemmArgs& args, const lang::matrix_view& rows,
            const lang::matrix_view& cols, const Epilogue& epilogue) {
  using Params = kernels::GemmTilesParams<Epilogue>;
  const TileShape& s = kShapes[plan.config[0]];
  Params p{};
  p.a = rows;
  p.b = cols;
  p.c = matrix_of(args.c);
  p.tiles = {static_cast<int>(ceil_div(p.a.rows, s.bm)),
             static_cast<int>(ceil_div(p.b.rows, s.bn)),
             static_cast<int>(ceil_div(p.a.cols, s.bk)),
             static_cast<int>(args.batch()),
             p.a.rows,
             p.b.rows,
             static_cast<int>(plan.config[1])};
  p.epilogue = epilogue;
  const Grid grid{plan.device->units, 0};  // as many programs as fit share the tiles
  reinterpret_cast<KernelFn<Params>>(const_cast<void*>(plan.kernel))(stream, grid, p);
}

void run(const Plan<GemmArgs>& plan, Stream& stream, const GemmArgs& args, void* workspace) {
  if (args.c.size() == 0) return;
  const lang::matrix_view a = matrix_of(packed_operand(plan, plan.config[2], stream, args.a, workspace), args.form == ProductForm::tn),
                          b = matrix_of(packed_operand(plan, plan.config[3], stream, args.b, static_cast<unsigned char*>(workspace) + plan.config[4]),
                                        args.form != ProductForm::nt);
  if (args.gated()) {
    kernels::GatedEpilogue gated;
    gated.tanh_form = args.activation == Activation::gelu_tanh;
    if (args.bias.defined()) gated.bias = column_vector(args.bias);
    if (args.gate.defined()) gated.gate = matrix_of(args.gate);
    if (args.residual.defined()) gated.residual = matrix_of(args.residual);
    return launch(plan, stream, args, a, b, gated);
  }
  kernels::AffineEpilogue affine;
  if (args.bias.defined()) affine.bias = column_vector(args.bias);
  if (args.residual.defined()) affine.residual = matrix_of(args.residual);
  const bool across = tiles::lies_across(static_cast<uint32_t>(plan.config[0]));
  if (!is_code(args.a.dtype)) {
    return across ? launch(plan, stream, args, b, a, kernels::AcrossEpilogue{affine})
                  : launch(plan, stream, args, a, b, affine);
  }
  lang::cell_scales scales;
  set_scales(scales.rows, scales.row_step, across ? args.b_scale : args.a_scale);
  set_scales(scales.cols, scales.col_step, across ? args.a_scale : args.b_scale);
  across ? launch(plan, stream, args, b, a, kernels::ScaledAcrossEpilogue{scales, {affine}})
         : launch(plan, stream, args, a, b, kernels::ScaledEpilogue{scales, affine});
}

}  // namespace

std::vector<tiles::Candidate> tiles::candidates(const GemmArgs& args, const DeviceInfo& device) {
  std::vector<Candidate> all;
  Plan<GemmArgs> plan;
  plan.device = &device;
  if (gemm_portable.supports(args, device) == nullptr) {
    plan.implementation = &gemm_portable;
    gemm_portable.plan(args, device, plan);
    all.push_back({gemm_portable.name, "", 1, plan});
  }
  if (gemm_tiles.supports(args, device) != nullptr) return all;
  plan = {};
  plan.device = &device;
  plan.implementation = &gemm_tiles;
  const Usable here = usable(args, device);
  for (uint32_t c = 0; c < kConfigs; ++c) {
    for (const int split : kSplits) {
      const Way way = best_way(here, device, [&](uint32_t other) { return other == c && here.built(c); }, split);
      if (way.tile.config == kConfigs) continue;
      plan_tile(args, device, plan, way);
      all.push_back({gemm_tiles.name, kConfigNames[c], split, plan});
    }
  }
  return all;
}

const Implementation<GemmArgs> gemm_tiles{"tiles", Tier::portable, supports, cost, make_plan, run};

}  // namespace monotile::ops
