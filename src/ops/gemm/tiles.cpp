// Products by tiles, portable tier: which shapes, which tile, and the launch.

#include <algorithm>
#include <cmath>

#include "monotile/kernels/gemm/tiles_params.hpp"
#include "ops/gemm/gemm.hpp"
#include "ops/gemm/tile_configs.hpp"
#include "ops/row_tiles.hpp"

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
    shape_of<tiles::kRing>(1.0, 4.0),
    shape_of<tiles::kWide>(0.657, 5.0),
    shape_of<tiles::kBroad>(0.504, 3.0),
    shape_of<tiles::kSquare>(0.353, 1.8),
    shape_of<tiles::kNarrow>(0.187, 4.0),
    shape_of<tiles::kSplit>(0.363, 6.7),
    // Not measured yet: a step moves 16 KB of weights, at most 100 GB/s a multiprocessor.
    shape_of<tiles::kFewRing>(0.5, 3.0),
    shape_of<tiles::kFew16>(0.17, 1.0),
    shape_of<tiles::kFew64>(0.2, 1.5),
    shape_of<tiles::kFewSplit16>(0.17, 3.0),
    shape_of<tiles::kFewSplit64>(0.2, 4.5),
};
/// Products so long that power limits the clock: there two warpgroups that share a tile lose against two that take
/// turns.
constexpr double kLongProduct = 2e11, kHotCooperative = 1.035;

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

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

Pick pick(const GemmArgs& args, const DeviceInfo& device) {
  const bool engine = suits_copy_engine(args.a) && suits_copy_engine(args.b);
  const Target target = target_of(device);
  const int64_t m = args.c.dim(0), n = args.c.dim(1), k = args.a.dim(1);
  Pick best;
  for (uint32_t c = 0; c < tiles::kConfigs; ++c) {
    const TileShape& s = kShapes[c];
    if (s.kind != lang::schedule::plain && s.kind != lang::schedule::ring && !engine) continue;
    if (find_kernel(tiles::kernel_name(c), target, tiles::variant(args.a.dtype, c)) == nullptr) continue;
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
  if (args.a.dtype != DType::f16 && args.a.dtype != DType::bf16) return "activations of 16 bits only";
  if (args.b.dtype != args.a.dtype) return "weights of the dtype of the activations only";
  if (args.a.dim(1) == 0) return "k = 0";
  if (std::max({args.c.dim(0), args.c.dim(1), args.a.dim(1)}) > INT32_MAX / 2) return "an extent above 2^30";
  if (pick(args, device).config == tiles::kConfigs) return "not built for this target";
  return nullptr;
}

/// On CPU packed loops stand behind the products of rows, which have kernels of their own there.
double cost(const GemmArgs& args, const DeviceInfo& device) {
  return device.device.kind == DeviceKind::cpu ? 1e9 : pick(args, device).us;
}

/// config: index of the tile, programs that share its steps.
void make_plan(const GemmArgs& args, const DeviceInfo& device, Plan<GemmArgs>& plan) {
  const Pick best = pick(args, device);
  plan.kernel = reinterpret_cast<const void*>(
      find_kernel(tiles::kernel_name(best.config), target_of(device), tiles::variant(args.a.dtype, best.config)));
  plan.config = {static_cast<int64_t>(best.config), best.split};
}

lang::matrix_view matrix_of(const TensorView& t) {
  lang::matrix_view v;
  v.data = t.data;
  v.rows = static_cast<int32_t>(t.dim(0));
  v.cols = static_cast<int32_t>(t.dim(1));
  v.dtype = t.dtype;
  v.stride = t.step(0);
  v.vectors = vector_aligned(t.data) && v.stride * dtype_info(t.dtype).block_bytes % 16 == 0;
  return v;
}

/// `rows` and `cols` are the operands that tiles run along; the result is theirs, or lies across.
template <class Epilogue>
void launch(const Plan<GemmArgs>& plan, Stream& stream, const GemmArgs& args, const TensorView& rows,
            const TensorView& cols) {
  using Params = kernels::GemmTilesParams<Epilogue>;
  const TileShape& s = kShapes[plan.config[0]];
  Params p{};
  p.a = matrix_of(rows);
  p.b = matrix_of(cols);
  p.c = matrix_of(args.c);
  p.tiles = {static_cast<int>(ceil_div(p.a.rows, s.bm)),
             static_cast<int>(ceil_div(p.b.rows, s.bn)),
             static_cast<int>(ceil_div(p.a.cols, s.bk)),
             1,
             p.a.rows,
             p.b.rows,
             static_cast<int>(plan.config[1])};
  if (args.bias.defined()) p.epilogue.bias = column_vector(args.bias);
  if (args.residual.defined()) p.epilogue.residual = matrix_of(args.residual);
  const Grid grid{plan.device->units, 0};  // as many programs as fit share the tiles
  reinterpret_cast<KernelFn<Params>>(const_cast<void*>(plan.kernel))(stream, grid, p);
}

void run(const Plan<GemmArgs>& plan, Stream& stream, const GemmArgs& args, void*) {
  if (args.c.size() == 0) return;
  if (tiles::lies_across(static_cast<uint32_t>(plan.config[0])))
    return launch<kernels::AcrossEpilogue>(plan, stream, args, args.b, args.a);
  launch<kernels::AffineEpilogue>(plan, stream, args, args.a, args.b);
}

}  // namespace

const Implementation<GemmArgs> gemm_tiles{"tiles", Tier::portable, supports, cost, make_plan, run};

}  // namespace monotile::ops
