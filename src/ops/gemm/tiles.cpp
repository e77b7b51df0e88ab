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
  /// Share of the matrix units' rate that long products reach, and microseconds that a tile costs besides its steps
  /// (filling the ring, storing what is not hidden behind the other warpgroup's products).
  double rate, per_tile_us;
};
template <uint32_t C>
constexpr TileShape shape_of(double rate, double per_tile_us) {
  using Cfg = tiles::config_at<C>;
  return {Cfg::kind, Cfg::bm, Cfg::bn, Cfg::bk, Cfg::cluster, rate, per_tile_us};
}
constexpr TileShape kShapes[tiles::kConfigs] = {
    shape_of<tiles::kPlain>(1.0, 0.0), shape_of<tiles::kRing>(0.40, 3.0),   shape_of<tiles::kWide>(0.80, 2.0),
    shape_of<tiles::kTall>(0.78, 2.0), shape_of<tiles::kSquare>(0.78, 0.5), shape_of<tiles::kSmall>(0.60, 0.5),
    shape_of<tiles::kFlat>(0.72, 0.5),
};

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Rows that the copy engine can take: 16-byte bases and pitches, no overlap of rows.
bool suits_copy_engine(const TensorView& t) {
  return vector_aligned(t.data) && t.step(0) % 8 == 0 && t.step(0) >= t.dim(1);
}

/// Estimated microseconds of a product, from the rounds that its tiles take over the multiprocessors. Matrix units of
/// sm_90 multiply 4096 pairs per clock and multiprocessor.
double predicted_us(const TileShape& s, int64_t m, int64_t n, int64_t k, const DeviceInfo& device) {
  constexpr double kPairsPerUs = 4096 * 1755.0;
  const int64_t tall = ceil_div(ceil_div(m, s.bm), s.cluster) * s.cluster, all = tall * ceil_div(n, s.bn);
  const int64_t at_once = std::max(1, device.units / s.cluster * s.cluster);
  const double steps = static_cast<double>(ceil_div(k, s.bk)) * s.bm * s.bn * s.bk / (kPairsPerUs * s.rate);
  return 3.0 + static_cast<double>(ceil_div(all, at_once)) * (steps + s.per_tile_us);
}

struct Pick {
  uint32_t config = tiles::kConfigs;
  double us = 0;
};
Pick pick(const GemmArgs& args, const DeviceInfo& device) {
  const bool engine = suits_copy_engine(args.a) && suits_copy_engine(args.b);
  Pick best;
  for (uint32_t c = 0; c < tiles::kConfigs; ++c) {
    const bool warpgroups =
        kShapes[c].kind == lang::schedule::cooperative || kShapes[c].kind == lang::schedule::pingpong;
    if (warpgroups && !engine) continue;
    if (find_kernel("gemm.tiles", target_of(device), tiles::variant(args.a.dtype, c)) == nullptr) continue;
    const double us = predicted_us(kShapes[c], args.c.dim(0), args.c.dim(1), args.a.dim(1), device);
    if (best.config == tiles::kConfigs || us < best.us) best = {c, us};
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

double cost(const GemmArgs& args, const DeviceInfo& device) { return pick(args, device).us; }

/// config: index of the tile.
void make_plan(const GemmArgs& args, const DeviceInfo& device, Plan<GemmArgs>& plan) {
  const uint32_t config = pick(args, device).config;
  plan.kernel =
      reinterpret_cast<const void*>(find_kernel("gemm.tiles", target_of(device), tiles::variant(args.a.dtype, config)));
  plan.config = {static_cast<int64_t>(config)};
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

void run(const Plan<GemmArgs>& plan, Stream& stream, const GemmArgs& args, void*) {
  if (args.c.size() == 0) return;
  using Params = kernels::GemmTilesParams<kernels::AffineEpilogue>;
  const TileShape& s = kShapes[plan.config[0]];
  Params p{};
  p.a = matrix_of(args.a);
  p.b = matrix_of(args.b);
  p.c = matrix_of(args.c);
  p.tiles = {static_cast<int>(ceil_div(p.c.rows, s.bm)),
             static_cast<int>(ceil_div(p.c.cols, s.bn)),
             static_cast<int>(ceil_div(p.a.cols, s.bk)),
             1,
             p.c.rows,
             p.c.cols};
  if (args.bias.defined()) p.epilogue.bias = column_vector(args.bias);
  if (args.residual.defined()) p.epilogue.residual = matrix_of(args.residual);
  const Grid grid{plan.device->units, 0};  // as many programs as fit share the tiles
  reinterpret_cast<KernelFn<Params>>(const_cast<void*>(plan.kernel))(stream, grid, p);
}

}  // namespace

const Implementation<GemmArgs> gemm_tiles{"tiles", Tier::portable, supports, cost, make_plan, run};

}  // namespace monotile::ops
