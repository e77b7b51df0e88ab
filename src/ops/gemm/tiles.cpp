// Products by tiles, portable tier: which shapes, which tile, and the launch.

#include <algorithm>
#include <cmath>

#include "monotile/kernels/gemm/tiles_params.hpp"
#include "ops/gemm/gemm.hpp"
#include "ops/gemm/tile_configs.hpp"
#include "ops/row_tiles.hpp"
#include "runtime/cpu_features.hpp"

namespace monotile::ops {
namespace {

using tiles::Config;

/// What the cost model knows of a configuration.
struct TileShape {
  lang::schedule kind;
  int bm, bn, bk, cluster;
  /// Microseconds of a step along k and of the rest of a tile (filling the ring, storing what is not hidden), while all
  /// multiprocessors work. Fitted to 42 shapes on an H200, 2026-11-29 (docs/notes/gemm-h200.md).
  double step_us, per_tile_us;
};
template <uint32_t C>
constexpr TileShape shape_of(double step_us, double per_tile_us) {
  using Cfg = tiles::config_at<C>;
  return {Cfg::kind, Cfg::bm, Cfg::bn, Cfg::bk, Cfg::cluster, step_us, per_tile_us};
}
constexpr TileShape kShapes[tiles::kConfigs] = {
    shape_of<tiles::kPlain>(100, 0),
    shape_of<tiles::kPlain16>(100, 0),
    shape_of<tiles::kPlain8>(100, 0),
    shape_of<tiles::kRing>(1.0, 4.0),
    shape_of<tiles::kWide>(0.657, 5.0),
    shape_of<tiles::kBroad>(0.504, 3.0),
    shape_of<tiles::kSquare>(0.353, 1.8),
    shape_of<tiles::kNarrow>(0.187, 4.0),
    shape_of<tiles::kSplit>(0.363, 6.7),
    shape_of<tiles::kStaged>(0.5, 4.0),
    // Not measured yet: a step moves 16 KB of weights, at most 100 GB/s a multiprocessor.
    shape_of<tiles::kFewRing>(0.5, 3.0),
    shape_of<tiles::kFew16>(0.17, 1.0),
    shape_of<tiles::kFew64>(0.2, 1.5),
    shape_of<tiles::kFewSplit16>(0.17, 3.0),
    shape_of<tiles::kFewSplit64>(0.2, 4.5),
    shape_of<tiles::kFewStaged>(0.25, 3.0),
};
/// Products so long that power limits the clock: there two warpgroups that share a tile lose against two that take
/// turns.
constexpr double kLongProduct = 2e11, kHotCooperative = 1.035;

/// Rows that the copy engine can take: 16-byte bases and pitches, no overlap of rows.
bool suits_copy_engine(const TensorView& t) {
  return vector_aligned(t.data) && t.step(0) % 8 == 0 && t.step(0) >= t.dim(1);
}

struct Pick {
  uint32_t config = tiles::kConfigs;
  int split = 1;
  double us = 0;
};

/// Estimated microseconds of a product: rounds of tiles over the multiprocessors, and no less than all bytes take.
double predicted_us(const TileShape& s, int split, int64_t m, int64_t n, int64_t k, const DeviceInfo& device) {
  constexpr double kBytesPerUs = 4.2e6, kLaunchUs = 3.0;
  const int cluster = split > 1 ? split : s.cluster;
  const int64_t programs = ceil_div(ceil_div(m, s.bm), s.cluster) * s.cluster * ceil_div(n, s.bn) * split;
  const int64_t at_once = std::max(1, device.units / cluster * cluster);
  const double size = static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  const bool hot = s.kind == lang::schedule::cooperative && 2 * size > kLongProduct;
  const double steps = static_cast<double>(ceil_div(ceil_div(k, s.bk), split));
  const double tiles_us = static_cast<double>(ceil_div(programs, at_once)) *
                          (steps * s.step_us * (hot ? kHotCooperative : 1.0) + s.per_tile_us);
  const double bytes =
      2.0 * size * (1.0 / static_cast<double>(m) + 1.0 / static_cast<double>(n) + 1.0 / static_cast<double>(k));
  return kLaunchUs + std::max(tiles_us, bytes / kBytesPerUs);
}

bool is_cpu(const DeviceInfo& device) { return device.device.kind == DeviceKind::cpu; }

/// What operands are multiplied as. GPUs copy them as they are; CPUs convert both as they are packed.
DType operands_of(const GemmArgs& args, const DeviceInfo& device) {
  if (!is_cpu(device) || args.a.dtype == DType::i8) return args.a.dtype;
  const Target target = target_of(device);
  const bool allowed = args.cast == ProductCast::bf16 || (args.a.dtype == DType::bf16 && args.b.dtype == DType::bf16);
  const bool built = find_kernel("gemm.tiles", target, tiles::variant(DType::bf16, tiles::kPlain16)) != nullptr;
  return allowed && built && cpu_has_fast_bf16(target) ? DType::bf16 : DType::f32;
}

Pick pick(const GemmArgs& args, const DeviceInfo& device) {
  const bool engine = args.form == ProductForm::nt && suits_copy_engine(args.a) && suits_copy_engine(args.b);
  const Target target = target_of(device);
  const DType operands = operands_of(args, device);
  const int64_t m = args.m(), n = args.n(), k = args.k();
  Pick best;
  for (uint32_t c = 0; c < tiles::kConfigs; ++c) {
    const TileShape& s = kShapes[c];
    const bool any_alignment =
        s.kind == lang::schedule::plain || s.kind == lang::schedule::ring || s.kind == lang::schedule::staged;
    if (!any_alignment && !engine) continue;
    if (find_kernel(tiles::kernel_name(c), target, tiles::variant(operands, c)) == nullptr) continue;
    const bool across = tiles::lies_across(c);
    if (across && m > tiles::kMostFewRows) continue;
    for (const int split : {1, 2, 4, 8}) {
      if ((split > 1) != (s.kind == lang::schedule::split)) continue;
      if (split > 1 && ceil_div(k, s.bk) < 4 * split) break;  // too few steps to share
      const double us = across ? predicted_us(s, split, n, m, k, device) : predicted_us(s, split, m, n, k, device);
      if (best.config == tiles::kConfigs || us < best.us) best = {c, split, us};
    }
  }
  return best;
}

const char* supports(const GemmArgs& args, const DeviceInfo& device) {
  if (args.c.rank != 2 || args.a.rank != 2 || args.b.rank != 2) return "rank 2 only";
  if (args.cast == ProductCast::int8_block) return "no int8 blocks";
  if (!is_cpu(device)) {
    if (args.a.dtype == DType::i8) return "int8 on CPU only";
    if (args.a.dtype != DType::f16 && args.a.dtype != DType::bf16) return "activations of 16 bits only";
    if (args.b.dtype != args.a.dtype) return "weights of the dtype of the activations only";
  }
  if (args.k() == 0 && args.form == ProductForm::nt && args.a.dtype != DType::i8) return "k = 0";
  if (std::max({args.m(), args.n(), args.k()}) > INT32_MAX / 2) return "an extent above 2^30";
  if (pick(args, device).config == tiles::kConfigs) return "not built for this target";
  return nullptr;
}

/// Rows of a from which packing both operands beats the products of rows (docs/notes/gemm-cpu.md, 2026-11-30).
constexpr int64_t kLeastRowsOnCpu = 8, kLeastRowsOfBlocks = 16;

double cost(const GemmArgs& args, const DeviceInfo& device) {
  const int64_t least = is_quantised(args.b.dtype) ? kLeastRowsOfBlocks : kLeastRowsOnCpu;
  if (is_cpu(device)) return args.m() < least ? 2.0 : 0.5;  // that of the products of rows is 1
  return pick(args, device).us;
}

/// config: index of the tile, programs that share its steps.
void make_plan(const GemmArgs& args, const DeviceInfo& device, Plan<GemmArgs>& plan) {
  const Pick best = pick(args, device);
  plan.kernel = reinterpret_cast<const void*>(find_kernel(tiles::kernel_name(best.config), target_of(device),
                                                          tiles::variant(operands_of(args, device), best.config)));
  plan.config = {static_cast<int64_t>(best.config), best.split};
}

/// `by_k`: the operand is stored with k along its rows' number.
lang::matrix_view matrix_of(const TensorView& t, bool by_k = false) {
  lang::matrix_view v;
  v.data = t.data;
  v.rows = static_cast<int32_t>(t.dim(by_k ? 1 : 0));
  v.cols = static_cast<int32_t>(t.dim(by_k ? 0 : 1));
  v.dtype = t.dtype;
  v.stride = t.step(0);
  v.vectors = vector_aligned(t.data) && v.stride * dtype_info(t.dtype).block_bytes % 16 == 0;
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
             1,
             p.a.rows,
             p.b.rows,
             static_cast<int>(plan.config[1])};
  p.epilogue = epilogue;
  const Grid grid{plan.device->units, 0};  // as many programs as fit share the tiles
  reinterpret_cast<KernelFn<Params>>(const_cast<void*>(plan.kernel))(stream, grid, p);
}

void run(const Plan<GemmArgs>& plan, Stream& stream, const GemmArgs& args, void*) {
  if (args.c.size() == 0) return;
  const lang::matrix_view a = matrix_of(args.a, args.form == ProductForm::tn),
                          b = matrix_of(args.b, args.form != ProductForm::nt);
  kernels::AffineEpilogue affine;
  if (args.bias.defined()) affine.bias = column_vector(args.bias);
  if (args.residual.defined()) affine.residual = matrix_of(args.residual);
  if (tiles::lies_across(static_cast<uint32_t>(plan.config[0])))
    return launch(plan, stream, args, b, a, kernels::AcrossEpilogue{affine});
  if (args.a.dtype != DType::i8) return launch(plan, stream, args, a, b, affine);
  kernels::ScaledEpilogue scaled{{}, affine};
  set_scales(scaled.scales.rows, scaled.scales.row_step, args.a_scale);
  set_scales(scaled.scales.cols, scaled.scales.col_step, args.b_scale);
  launch(plan, stream, args, a, b, scaled);
}

}  // namespace

const Implementation<GemmArgs> gemm_tiles{"tiles", Tier::portable, supports, cost, make_plan, run};

}  // namespace monotile::ops
