// Products by tiles, portable tier: which shapes, which tile, and the launch.

#include <algorithm>

#include "monotile/kernels/gemm/tiles_params.hpp"
#include "ops/gemm/gemm.hpp"
#include "ops/gemm/tile_cost.hpp"
#include "ops/row_tiles.hpp"
#include "runtime/cpu_features.hpp"

namespace monotile::ops {
namespace {

using tiles::kShapes;
using tiles::Pick;
using tiles::TileShape;

/// Rows that the copy engine can take: 16-byte bases and pitches, no overlap of rows.
bool suits_copy_engine(const TensorView& t) {
  return vector_aligned(t.data) && t.step(0) * dtype_info(t.dtype).block_bytes % 16 == 0 && t.step(0) >= t.dim(1);
}

bool is_cpu(const DeviceInfo& device) { return device.device.kind == DeviceKind::cpu; }

/// What operands are multiplied as. GPUs copy them as they are; CPUs convert both as they are packed.
DType operands_of(const GemmArgs& args, const DeviceInfo& device) {
  if (!is_cpu(device) || is_code(args.a.dtype)) return args.a.dtype;
  const Target target = target_of(device);
  const bool allowed = args.cast == ProductCast::bf16 || (args.a.dtype == DType::bf16 && args.b.dtype == DType::bf16);
  const bool built = find_kernel("gemm.tiles", target, tiles::variant(DType::bf16, tiles::kPlain16)) != nullptr;
  return allowed && built && cpu_has_fast_bf16(target) ? DType::bf16 : DType::f32;
}

Pick pick(const GemmArgs& args, const DeviceInfo& device) {
  const bool engine = args.form == ProductForm::nt && args.k() > 0 && suits_copy_engine(args.a) && suits_copy_engine(args.b);
  const Target target = target_of(device);
  const DType operands = operands_of(args, device);
  return tiles::pick_tile(args.m(), args.n(), args.k(), engine, std::max(1, device.units), [&](uint32_t c) {
    return find_kernel(tiles::kernel_name(c), target, tiles::variant(operands, c)) != nullptr;
  });
}

const char* supports(const GemmArgs& args, const DeviceInfo& device) {
  if (args.c.rank != 2 || args.a.rank != 2 || args.b.rank != 2) return "rank 2 only";
  if (args.cast == ProductCast::int8_block) return "no int8 blocks";
  if (!is_cpu(device)) {
    if (args.a.dtype == DType::i8) return "int8 on CPU only";
    if (args.a.dtype == DType::f32) return "activations of 16 or 8 bits only";
    if (args.b.dtype != args.a.dtype) return "weights of the dtype of the activations only";
  }
  if (args.k() == 0 && args.form == ProductForm::nt && !is_code(args.a.dtype)) return "k = 0";
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
  if (!is_code(args.a.dtype)) return launch(plan, stream, args, a, b, affine);
  kernels::ScaledEpilogue scaled{{}, affine};
  set_scales(scaled.scales.rows, scaled.scales.row_step, args.a_scale);
  set_scales(scaled.scales.cols, scaled.scales.col_step, args.b_scale);
  launch(plan, stream, args, a, b, scaled);
}

}  // namespace

const Implementation<GemmArgs> gemm_tiles{"tiles", Tier::portable, supports, cost, make_plan, run};

}  // namespace monotile::ops
