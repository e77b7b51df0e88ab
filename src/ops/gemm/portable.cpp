// Products, portable tier: how activations are cast, how many rows a program takes, and the launches.

#include <algorithm>
#include <cmath>

#include "monotile/kernels/gemm/params.hpp"
#include "monotile/lang/block_rows.hpp"
#include "ops/gemm/gemm.hpp"
#include "ops/gemm/tuning.hpp"
#include "ops/gemm/variants.hpp"
#include "ops/row_tiles.hpp"

namespace monotile::ops {
namespace {

using dots::Activations;

bool is_cpu(const DeviceInfo& device) { return device.device.kind == DeviceKind::cpu; }

/// Up to this many rows of a, rows of b are streamed on CPU; above, unpacked once into panels. From the rates of both
/// on one core of a Zen 5 machine (docs/notes/gemm-cpu.md).
int64_t most_streamed_rows(DType b, ProductCast cast) {
  if (!is_quantised(b)) return 6;
  if (cast == ProductCast::none) return 2;
  return b == DType::q4_0 || b == DType::q5_0 ? 4 : 7;
}

int rows_of_a(const GemmArgs& args, const DeviceInfo& device) {
  return args.c.dim(0) <= (is_cpu(device) ? most_streamed_rows(args.b.dtype, args.cast) : 1) ? 1 : dots::kManyRows;
}

Activations activations_for(const GemmArgs& args, const DeviceInfo& device) {
  if (args.cast == ProductCast::int8_block) return dots::as_int8;
  return is_cpu(device) ? dots::as_f32 : dots::activations_of(args.a.dtype);
}

/// Rows that programs of matrix instructions take.
bool suits_block_rows(const TensorView& b) {
  const DTypeInfo info = dtype_info(b.dtype);
  const int64_t row_bytes = b.step(0) / info.block_elements * info.block_bytes;
  return row_bytes % lang::block_rows::alignment == 0 && row_bytes <= INT32_MAX / (lang::block_rows::rows + 1) && vector_aligned(b.data);
}
/// The kernel of matrix instructions for GGUF weights, or null. It takes however many rows of a, which get the same bits in every batch: a single one, or
/// eight at a time.
void (*block_dots_for(const GemmArgs& args, const DeviceInfo& device))() {
  if (is_cpu(device) || !is_quantised(args.b.dtype) || !suits_block_rows(args.b)) return nullptr;
  if (std::max({args.a.dim(0), args.a.dim(1), args.c.dim(1)}) > INT32_MAX / 2) return nullptr;
  const int rows = args.a.dim(0) == 1 ? 1 : dots::kManyRows;
  return find_kernel("gemm.block_dots", target_of(device), dots::variant(activations_for(args, device), args.b.dtype, rows));
}

/// The kernel that casts the activations beforehand, and how much room its result takes.
struct Cast {
  const char* kernel = nullptr;
  int64_t row_bytes = 0;
};
Cast cast_for(const GemmArgs& args, const DeviceInfo& device) {
  const int64_t k = args.a.dim(1);
  if (args.cast == ProductCast::int8_block) return {"gemm.to_int8", lang::int8_rows::row_bytes(k)};
  if (is_cpu(device) && args.a.dtype != DType::f32) return {"gemm.to_float", (k + 15) / 16 * 64};
  return {};
}

const char* supports(const GemmArgs& args, const DeviceInfo& device) {
  if (args.c.rank != 2 || args.a.rank != 2 || args.b.rank != 2) return "rank 2 only";
  if (args.form != ProductForm::nt) return "form nt only";
  if (args.gated()) return "no activation";
  if (is_code(args.a.dtype)) return "no int8 or fp8 operands";
  const Target target = target_of(device);
  const uint32_t variant = dots::variant(activations_for(args, device), args.b.dtype, rows_of_a(args, device));
  if (find_kernel("gemm.row_dots", target, variant) == nullptr) return "not built for this target";
  const Cast cast = cast_for(args, device);
  if (cast.kernel != nullptr && find_kernel(cast.kernel, target, dots::activations_of(args.a.dtype)) == nullptr) {
    return "no cast of these activations for this target";
  }
  return nullptr;
}

/// What the kernel of matrix instructions issues for a wave's stretch of 16 rows of b and eight of a, one of which takes four fifths: counted in the code for
/// sm_90a.
double instructions_per_stretch(DType b) {
  switch (b) {
    case DType::q4_0: return 410;
    case DType::q8_0: return 500;
    case DType::q4_k: return 600;
    case DType::q5_0: return 590;
    default: return 720;
  }
}
/// Weights at 4 TB/s, or instructions: four a clock and multiprocessor, of which four fifths are assumed. Not measured.
double block_dots_us(double m, double n, double k, DType b, const DeviceInfo& device) {
  const DTypeInfo info = dtype_info(b);
  const double stream_us = n * k * info.block_bytes / info.block_elements * 1e6 / 4e12,
               stretches = std::ceil(n / lang::block_rows::rows) * std::ceil(k / lang::block_rows::stretch),
               issue_us = std::ceil(m / dots::kManyRows) * stretches * instructions_per_stretch(b) / (device.units * 4 * 1500.0 * 0.8);
  return 3.0 + std::max(stream_us, issue_us);
}

/// Microseconds, roughly, to weigh against tiles. On GPUs weights are streamed once per `rows` rows of a, taken at 3
/// TB/s, and every product is one multiplication of a lane (128 per clock and multiprocessor, a quarter of them
/// assumed).
double cost(const GemmArgs& args, const DeviceInfo& device) {
  if (const tiles::Tuned* const row = tiles::tuned(args, device)) return row->implementation == gemm_portable.name ? 0.0 : 9e5;
  if (is_cpu(device)) return 1.0;
  const double m = static_cast<double>(args.c.dim(0)), n = static_cast<double>(args.c.dim(1)),
               k = static_cast<double>(args.a.dim(1));
  if (block_dots_for(args, device) != nullptr) return block_dots_us(m, n, k, args.b.dtype, device);
  const DTypeInfo b = dtype_info(args.b.dtype);
  const double stream_us = n * k * b.block_bytes / b.block_elements * 1e6 / 3e12,
               product_us = m * n * k / (device.units * 128 * 1500.0 / 4);
  // A wave goes along k by itself, two chunks of 256 at a time: 1.3 us for one row of a, 7.7 for eight, with 64 and 24 waves at a time on a
  // multiprocessor (H200, 2026-12-01, docs/results/h200-gemm-every-2026-12-01.txt.gz).
  const int rows = rows_of_a(args, device);
  const double waves = n * std::ceil(m / rows), at_once = device.units * (rows == 1 ? 64.0 : 24.0);
  const double live = std::min<double>(m, rows), wave_us = 1.3 + (live - 1) * 6.4 / 7;
  const double along_us = std::ceil(k / 512) * wave_us * std::max(1.0, waves / at_once);
  return 3.0 + std::max({stream_us * std::ceil(m / rows), product_us, along_us});
}

/// config: activations, rows of a per program, entry of the cast kernel, lanes per program, entry of the kernel of matrix instructions (which the
/// plan's kernel replaces where weights turn out not to lie as it wants them).
void make_plan(const GemmArgs& args, const DeviceInfo& device, Plan<GemmArgs>& plan) {
  const Target target = target_of(device);
  const Activations activations = activations_for(args, device);
  auto* const block_dots = block_dots_for(args, device);
  const int rows = block_dots != nullptr ? dots::kManyRows : rows_of_a(args, device);
  plan.kernel = reinterpret_cast<const void*>(
      find_kernel("gemm.row_dots", target, dots::variant(activations, args.b.dtype, rows)));
  const Cast cast = cast_for(args, device);
  int64_t cast_entry = 0;
  if (cast.kernel != nullptr) {
    cast_entry = reinterpret_cast<int64_t>(find_kernel(cast.kernel, target, dots::activations_of(args.a.dtype)));
    plan.workspace_bytes = static_cast<size_t>(args.c.dim(0) * cast.row_bytes);
  }
  plan.config = {static_cast<int64_t>(activations), rows, cast_entry, is_cpu(device) ? 1 : lanes_on(device, 256),
                 reinterpret_cast<int64_t>(block_dots)};
}

struct Tiling {
  kernels::ProductShape shape;
  Grid grid;
};
Tiling tile_product(const Plan<GemmArgs>& plan, const GemmArgs& args, bool by_blocks) {
  const int64_t m = args.c.dim(0), n = args.c.dim(1), k = args.a.dim(1);
  Tiling t{{m, n, k, plan.config[1], 0}, {}};
  t.grid.threads = static_cast<int>(plan.config[3]);
  if (by_blocks) {
    t.grid.threads = lang::block_rows::lanes;
    t.grid.scratch_bytes = lang::block_rows::scratch_bytes(args.b.dtype);
    t.grid.programs = t.shape.programs =
        std::min<int64_t>(ceil_div(n, lang::block_rows::rows), plan.device->units * lang::block_rows::programs_at_once);
    return t;
  } else if (!is_cpu(*plan.device)) {
    t.shape.n_per_program = t.grid.threads / 32;
  } else if (plan.config[1] == 1) {
    // One stretch of b per thread, or several of at least 256 KB: at the start of each the memory has to get going
    // again (32 KB pieces cost a third of the speed), and at most eight keep threads busy that were held up
    // elsewhere.
    constexpr int64_t kStretchBytes = 256 * 1024, kMostStretches = 8;
    const DTypeInfo b = dtype_info(args.b.dtype);
    const int64_t threads = std::max(1, cpu_threads()), bytes = n * (k / b.block_elements * b.block_bytes);
    const int64_t stretches = threads * std::clamp<int64_t>(bytes / (threads * kStretchBytes), 1, kMostStretches);
    t.shape.n_per_program = ceil_div(ceil_div(n, stretches), 8) * 8;
    t.shape.m_per_program = m;
  } else {
    constexpr int64_t kMostRows = 512;  // with 32 columns 64 KB of sums
    t.shape.m_per_program = ceil_div(ceil_div(m, ceil_div(m, kMostRows)), 4) * 4;
    t.shape.n_per_program = 32;
  }
  t.grid.programs = ceil_div(m, t.shape.m_per_program) * ceil_div(n, t.shape.n_per_program);
  return t;
}

lang::any_rows any_rows_of(const TensorView& view) { return {view.data, view.dtype, view.step(0)}; }

template <class T>
void cast_rows(const Plan<GemmArgs>& plan, Stream& stream, const TensorView& a, const lang::int8_rows& to_int8,
               const lang::view<float>& to_float) {
  using Params = kernels::CastRowsParams<T>;
  Params p{};
  p.from = row_view<const T>(a);
  p.to_int8 = to_int8;
  p.to_float = to_float;
  p.rows = a.dim(0);
  p.cols = a.dim(1);
  const int threads = static_cast<int>(plan.config[3]);
  const int64_t rows_per_program = is_cpu(*plan.device) ? 1 : threads / 32;
  const Grid grid{ceil_div(p.rows, rows_per_program), threads, 0, cpu_grain(p.cols * 4)};
  reinterpret_cast<KernelFn<Params>>(plan.config[2])(stream, grid, p);
}
void cast_activations(const Plan<GemmArgs>& plan, Stream& stream, const TensorView& a, const lang::int8_rows& to_int8,
                      const lang::view<float>& to_float) {
  if (a.dtype == DType::f32) return cast_rows<float>(plan, stream, a, to_int8, to_float);
  if (a.dtype == DType::f16) return cast_rows<half_t>(plan, stream, a, to_int8, to_float);
  cast_rows<bfloat16_t>(plan, stream, a, to_int8, to_float);
}

template <class A, class W>
void launch(const Plan<GemmArgs>& plan, Stream& stream, const GemmArgs& args, const A& a, const W& b) {
  using Params = kernels::RowDotsParams<A, W>;
  const bool by_blocks = plan.config[4] != 0 && suits_block_rows(args.b);
  const Tiling tiling = tile_product(plan, args, by_blocks);
  Params p{};
  p.shape = tiling.shape;
  p.a = a;
  p.b = b;
  p.c = any_rows_of(args.c);
  if (args.residual.defined()) p.residual = any_rows_of(args.residual);
  if (args.bias.defined()) p.bias = column_vector(args.bias);
  void* const kernel = by_blocks ? reinterpret_cast<void*>(plan.config[4]) : const_cast<void*>(plan.kernel);
  reinterpret_cast<KernelFn<Params>>(kernel)(stream, tiling.grid, p);
}

template <DType Q>
lang::quant_view<Q> blocks_of(const TensorView& b) {
  constexpr DTypeInfo info = dtype_info(Q);
  return {b.as<const uint8_t>(), b.step(0) / info.block_elements * info.block_bytes, b.dim(1)};
}

template <class A>
void with_blocks(const Plan<GemmArgs>& plan, Stream& stream, const GemmArgs& args, const A& a) {
  switch (args.b.dtype) {
    case DType::q4_0: return launch(plan, stream, args, a, blocks_of<DType::q4_0>(args.b));
    case DType::q5_0: return launch(plan, stream, args, a, blocks_of<DType::q5_0>(args.b));
    case DType::q8_0: return launch(plan, stream, args, a, blocks_of<DType::q8_0>(args.b));
    case DType::q4_k: return launch(plan, stream, args, a, blocks_of<DType::q4_k>(args.b));
    default: return launch(plan, stream, args, a, blocks_of<DType::q6_k>(args.b));
  }
}
template <class A>
void with_weights(const Plan<GemmArgs>& plan, Stream& stream, const GemmArgs& args, const A& a) {
  switch (args.b.dtype) {
    case DType::f32: return launch(plan, stream, args, a, row_view<const float>(args.b));
    case DType::f16: return launch(plan, stream, args, a, row_view<const half_t>(args.b));
    case DType::bf16: return launch(plan, stream, args, a, row_view<const bfloat16_t>(args.b));
    default: return with_blocks(plan, stream, args, a);
  }
}

void run(const Plan<GemmArgs>& plan, Stream& stream, const GemmArgs& args, void* workspace) {
  if (args.c.size() == 0) return;
  const int64_t k = args.a.dim(1);
  switch (static_cast<Activations>(plan.config[0])) {
    case dots::as_int8: {
      const lang::int8_rows rows{static_cast<uint8_t*>(workspace), k};
      cast_activations(plan, stream, args.a, rows, {});
      return with_blocks(plan, stream, args, rows);
    }
    case dots::as_f16: return with_weights(plan, stream, args, row_view<const half_t>(args.a));
    case dots::as_bf16: return with_weights(plan, stream, args, row_view<const bfloat16_t>(args.a));
    default: break;
  }
  if (plan.config[2] == 0) return with_weights(plan, stream, args, row_view<const float>(args.a));
  lang::view<float> rows;
  rows.data = static_cast<float*>(workspace);
  rows.outer_stride = (k + 15) / 16 * 16;
  rows.cols = k;
  cast_activations(plan, stream, args.a, {}, rows);
  lang::view<const float> a;
  a.data = rows.data;
  a.outer_stride = rows.outer_stride;
  a.cols = k;
  with_weights(plan, stream, args, a);
}

}  // namespace

const Implementation<GemmArgs> gemm_portable{"portable", Tier::portable, supports, cost, make_plan, run};

}  // namespace monotile::ops
