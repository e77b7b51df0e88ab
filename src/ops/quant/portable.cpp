// Quantisation, portable tier: which layout a row or a group of columns gets, and the launches.

#include "monotile/kernels/quant/params.hpp"
#include "ops/quant/quant.hpp"
#include "ops/row_tiles.hpp"

namespace monotile::ops {
namespace {

int64_t ceil_divide(int64_t a, int64_t b) { return (a + b - 1) / b; }

template <class P>
int64_t pack(P pointer) {
  return static_cast<int64_t>(reinterpret_cast<intptr_t>(pointer));
}
template <class Params, class Grid_>
void launch_packed(int64_t kernel, Stream& stream, const Grid_& grid, const Params& p) {
  reinterpret_cast<KernelFn<Params>>(static_cast<intptr_t>(kernel))(stream, grid, p);
}
/// Beside the rows of a program, where a team holds each row: its programs.
constexpr int64_t kChunksFrom = int64_t{1} << 16;
/// `rows`: of a program, and the programs of a team; see Tile.
template <class X>
void launch_rows(int64_t kernel, Stream& stream, kernels::QuantiseParams<X>& p, int64_t threads, int64_t rows,
                 int64_t row_bytes) {
  const RowTile tile{0, static_cast<int>(threads), static_cast<int>(rows % kChunksFrom)};
  p.chunks = rows / kChunksFrom;
  Grid grid{programs_for(tile, p.rows), tile.threads, 0, cpu_grain(row_bytes)};
  if (p.chunks != 0) grid = {p.rows * p.chunks, tile.threads, kTeamScratch, 1};
  launch_packed(kernel, stream, grid, p);
}

/// Columns of a row cut into groups: whole ones, then one that is shorter.
struct Groups {
  int64_t cols, whole, tail;
};
Groups groups_of(int64_t cols, int64_t block_cols) {
  const int64_t width = std::min(cols, block_extent(block_cols, cols));
  return {width, cols / width, cols % width};
}

/// Rows (row, group) of a matrix, from column `first` on; `per_byte` elements to an element of T.
template <class T>
lang::view<T> group_view(const TensorView& t, int64_t first, int64_t groups, int64_t cols, int64_t per_byte = 1) {
  lang::view<T> v;
  const int64_t size = static_cast<int64_t>(sizeof(T)), vector = per_byte == 2 ? 4 : lang::vector_bytes(size);
  v.data = t.as<T>() + first / per_byte;
  v.outer_stride = t.step(0);
  v.inner_stride = groups > 1 ? cols / per_byte : 0;
  v.split_rows(static_cast<uint32_t>(groups));
  v.cols = cols;
  v.vectors = reinterpret_cast<uintptr_t>(v.data) % static_cast<uintptr_t>(vector) == 0 &&
              v.outer_stride * size % vector == 0 && v.inner_stride * size % vector == 0;
  if (groups > 1 && v.outer_stride == groups * v.inner_stride) {
    v.outer_stride = v.inner_stride;
    v.inner_stride = 0;
    v.split_rows(1);
  }
  return v;
}
lang::any_view group_view(const TensorView& t, int64_t first, int64_t groups, int64_t cols) {
  const auto make = [&](const auto& v) {
    return lang::any_view{v.data, v.outer_stride, v.inner_stride, v.cols, v.inner_rows, v.vectors, t.dtype, v.inner_inverse};
  };
  switch (dtype_info(t.dtype).block_bytes) {
    case 1: return make(group_view<uint8_t>(t, first, groups, cols));
    case 2: return make(group_view<half_t>(t, first, groups, cols));
    default: return make(group_view<float>(t, first, groups, cols));
  }
}
/// One value per (band of rows, group).
template <class T>
lang::view<T> scale_view(const TensorView& t, int64_t first_group, int64_t groups) {
  lang::view<T> v;
  v.data = t.as<T>() + first_group * t.step(1);
  v.outer_stride = t.step(0);
  v.inner_stride = t.step(1);
  v.split_rows(static_cast<uint32_t>(std::max<int64_t>(1, groups)));
  v.cols = 1;
  return v;
}

/// Layouts of one row per program rely on one stride from row to row: groups have two, and must be narrow.
bool groups_are_whole_vectors(const TensorView& t, const Groups& g) {
  return whole_vectors(t) && g.cols % 8 == 0 && (g.whole <= 1 || g.cols <= 128);
}

/// Gated_quantise is built for the common rows alone: groups of up to 128 columns, short rows with one vector a lane (all of a row asked for at once: four
/// vectors, taken in halves, wait for memory twice), and long rows. Where no two rows share a multiprocessor, long ones take two vectors a lane, for the
/// same reason; the largest magnitude and what is rounded by it are the same in every layout, so that the number of rows may choose.
RowTile gated_tile(int64_t rows, int64_t cols, bool exact, const DeviceInfo& device) {
  RowTile tile = pick_row_tile(cols, exact, device, RowPolicy::quads);
  const int64_t vectors = (cols + 7) / 8;
  if (device.device.kind == DeviceKind::cpu || tile.layout == kExact + kRows4x4) return tile;
  if (tile.layout % kExact == kStream) return tile_in(kStream, vectors, device);
  if (tile.layout < kExact) return tile_in(kBlock2, vectors, device);
  tile = tile_in(vectors <= 256 ? kBlock1 : rows <= device.units ? kBlock2 : kBlock4, vectors, device);
  tile.layout += kExact;
  return tile;
}

// --- quantise ----------------------------------------------------------------------------------------------------------------------
/// Plan: config = layout, threads, rows per program and of a team, threads and rows per program of the tail, kernel of the tail, kernel of the scales, kernel of
/// the parts' maxima.
enum Config : size_t {
  kLayout,
  kThreads,
  kRowsPerProgram,
  kTailThreads,
  kTailRows,
  kTailKernel,
  kScalesKernel,
  kPartsKernel
};

bool two_steps(const QuantiseArgs& a) {
  return !a.given_scales && a.codes.dtype != DType::u8 && block_extent(a.block_rows, a.x.dim(0)) > 1;
}

/// Large blocks are cut into parts, so that one scale per tensor still fills the machine.
struct Parts {
  int64_t bands, groups, parts, part_rows;
  int64_t blocks() const { return bands * groups; }
};
Parts parts_of(const QuantiseArgs& a) {
  const int64_t rows = a.x.dim(0), cols = a.x.dim(1);
  const int64_t block_rows = std::min(rows, block_extent(a.block_rows, rows)),
                block_cols = std::min(cols, block_extent(a.block_cols, cols));
  Parts p{ceil_divide(rows, block_rows), ceil_divide(cols, block_cols), 1, block_rows};
  constexpr int64_t kPart = 32768;
  if (block_rows * block_cols > 4 * kPart) {
    p.part_rows = std::max<int64_t>(1, kPart / block_cols);
    p.parts = ceil_divide(block_rows, p.part_rows);
  }
  return p;
}

template <class Args>
const char* too_many_groups(const Args& a, const TensorView& x) {
  const int64_t width = block_extent(a.block_cols, x.dim(1));
  return x.dim(0) * ceil_divide(x.dim(1), width) > INT32_MAX ? "more than 2^31 - 1 groups" : nullptr;
}

constexpr const char *kTeam = "quantise_team", *kGatedTeam = "gated_quantise_team";
const char* name_of(const QuantiseArgs& a, bool team = false) {
  return team ? kTeam : a.codes.dtype == DType::u8 ? "quantise_int4" : "quantise";
}

/// A row's tile, or that of the team which holds it.
struct Tile : RowTile {
  int64_t chunks = 0;

  int64_t packed_rows() const { return rows_per_program + chunks * kChunksFrom; }
};
Tile with_team(const RowTile& tile, const char* team, const TensorView& x, int64_t cols, const DeviceInfo& device) {
  const TeamTile t = pick_team_tile(cols, tile, device);
  if (t.chunks == 0 || find_kernel(team, target_of(device), variant_of(x.dtype, 0)) == nullptr) return {tile};
  return {{0, t.threads, 1}, t.chunks};
}

Tile tile_of(const QuantiseArgs& a, const DeviceInfo& device) {
  const Groups g = groups_of(a.x.dim(1), a.block_cols);
  if (a.codes.dtype == DType::u8) {
    if (device.device.kind == DeviceKind::cpu) return {{0, 1, 1}};
    const int threads = lanes_on(device, 128);
    return {g.cols <= 128 ? RowTile{kRows16, threads, threads / 16} : RowTile{kRows32, threads, threads / 32}};
  }
  const RowTile tile = pick_row_tile(g.cols, groups_are_whole_vectors(a.x, g), device, RowPolicy::quads);
  return with_team(tile, kTeam, a.x, g.cols, device);
}

const char* supports(const QuantiseArgs& a, const DeviceInfo& device) {
  if (const char* why = too_many_groups(a, a.x)) return why;
  const Target target = target_of(device);
  const Tile tile = tile_of(a, device);
  return find_kernel(name_of(a, tile.chunks != 0), target, variant_of(a.x.dtype, tile.layout)) == nullptr
             ? "not built for this target"
             : nullptr;
}

template <class Args>
double cost(const Args&, const DeviceInfo&) {
  return 1.0;
}

void make_plan(const QuantiseArgs& a, const DeviceInfo& device, Plan<QuantiseArgs>& plan) {
  const Target target = target_of(device);
  const Tile tile = tile_of(a, device);
  plan.kernel = reinterpret_cast<const void*>(
      find_kernel(name_of(a, tile.chunks != 0), target, variant_of(a.x.dtype, tile.layout)));
  plan.config = {tile.layout, tile.threads, tile.packed_rows()};
  const Groups g = groups_of(a.x.dim(1), a.block_cols);
  if (g.tail != 0) {
    const RowTile tail = pick_row_tile(g.tail, false, device, RowPolicy::quads);
    plan.config[kTailThreads] = tail.threads;
    plan.config[kTailRows] = tail.rows_per_program;
    plan.config[kTailKernel] = pack(find_kernel(name_of(a), target, variant_of(a.x.dtype, tail.layout)));
  }
  if (two_steps(a)) {
    const Parts parts = parts_of(a);
    plan.config[kPartsKernel] = pack(find_kernel("block_scales", target, variant_of(a.x.dtype, 0)));
    plan.config[kScalesKernel] = pack(find_kernel("block_scales", target, variant_of(DType::f32, 0)));
    if (parts.parts > 1) plan.workspace_bytes = static_cast<size_t>(parts.blocks() * parts.parts) * sizeof(float);
  }
}

constexpr kernels::GateFunction function_of(Activation activation) {
  return static_cast<kernels::GateFunction>(activation);
}

/// The scales of all blocks, in one launch or by way of the parts' maxima.
template <class X>
void launch_scales(const Plan<QuantiseArgs>& plan, Stream& stream, const QuantiseArgs& a, void* workspace) {
  const Parts parts = parts_of(a);
  const bool lanes = plan.device->device.kind != DeviceKind::cpu;
  const float largest = largest_code(a.codes.dtype);
  kernels::BlockScalesParams<X> p{};
  p.x = row_view<const X>(a.x);
  p.rows = a.x.dim(0);
  p.cols = a.x.dim(1);
  p.block_rows = block_extent(a.block_rows, p.rows);
  p.block_cols = block_extent(a.block_cols, p.cols);
  p.groups = parts.groups;
  p.parts = parts.parts;
  p.part_rows = parts.part_rows;
  p.step = lanes ? 128 : std::min(p.cols, p.block_cols);
  const lang::view<float> scales = scale_view<float>(a.scales, 0, parts.groups);
  const Grid grid{parts.blocks() * parts.parts, lanes_on(*plan.device, 256), 0,
                  cpu_grain(p.part_rows * p.step * static_cast<int64_t>(sizeof(X)))};
  if (parts.parts == 1) {
    p.out = scales;
    p.largest_code = largest;
    return launch_packed(plan.config[kPartsKernel], stream, grid, p);
  }
  p.out = {static_cast<float*>(workspace), 1, 0, 1, 1, false};
  launch_packed(plan.config[kPartsKernel], stream, grid, p);

  kernels::BlockScalesParams<float> q{};
  q.x = {static_cast<const float*>(workspace), parts.parts, 0, parts.parts, 1, parts.parts % 4 == 0};
  q.out = scales;
  q.rows = parts.blocks();
  q.cols = q.block_cols = parts.parts;
  q.block_rows = q.groups = q.parts = q.part_rows = 1;
  q.step = lanes ? 128 : q.cols;
  q.largest_code = largest;
  launch_packed(plan.config[kScalesKernel], stream, Grid{q.rows, lanes ? plan.device->wave : 1, 0, 1}, q);
}

template <class X>
void launch_int4(const Plan<QuantiseArgs>& plan, Stream& stream, const QuantiseArgs& a) {
  const Groups g = groups_of(a.x.dim(1), a.block_cols);
  kernels::QuantiseInt4Params<X> p{};
  p.nibbles = group_view<uint8_t>(a.codes, 0, g.whole, g.cols, 2);
  p.scales = scale_view<float>(a.scales, 0, g.whole);
  p.symmetric = !a.zero_points.defined();
  if (!p.symmetric) p.zero_points = scale_view<uint8_t>(a.zero_points, 0, g.whole);
  p.x = group_view<const X>(a.x, 0, g.whole, g.cols);
  p.rows = a.x.dim(0) * g.whole;
  p.cols = g.cols;
  const RowTile tile{static_cast<uint32_t>(plan.config[kLayout]), static_cast<int>(plan.config[kThreads]),
                     static_cast<int>(plan.config[kRowsPerProgram])};
  const Grid grid{programs_for(tile, p.rows), tile.threads, 0, cpu_grain(g.cols * static_cast<int64_t>(sizeof(X)))};
  launch_packed(pack(plan.kernel), stream, grid, p);
}

template <class X>
void launch(const Plan<QuantiseArgs>& plan, Stream& stream, const QuantiseArgs& a, void* workspace) {
  if (a.codes.dtype == DType::u8) return launch_int4<X>(plan, stream, a);
  if (two_steps(a)) launch_scales<X>(plan, stream, a, workspace);
  const Groups g = groups_of(a.x.dim(1), a.block_cols);
  const auto columns = [&](int64_t first, int64_t first_group, int64_t groups, int64_t cols, int64_t kernel,
                           int64_t threads, int64_t rows_per_program) {
    kernels::QuantiseParams<X> p{};
    p.codes = group_view(a.codes, first, groups, cols);
    p.scales = scale_view<float>(a.scales, first_group, groups);
    p.x = group_view<const X>(a.x, first, groups, cols);
    p.rows = a.x.dim(0) * groups;
    p.cols = cols;
    p.groups = static_cast<uint32_t>(groups);
    p.block_rows = static_cast<uint32_t>(std::min<int64_t>(block_extent(a.block_rows, a.x.dim(0)), INT32_MAX));
    p.largest_code = largest_code(a.codes.dtype);
    p.given = a.given_scales || two_steps(a);
    launch_rows(kernel, stream, p, threads, rows_per_program, cols * static_cast<int64_t>(sizeof(X)));
  };
  if (g.whole > 0)
    columns(0, 0, g.whole, g.cols, pack(plan.kernel), plan.config[kThreads], plan.config[kRowsPerProgram]);
  if (g.tail > 0)
    columns(g.whole * g.cols, g.whole, 1, g.tail, plan.config[kTailKernel], plan.config[kTailThreads],
            plan.config[kTailRows]);
}

void run(const Plan<QuantiseArgs>& plan, Stream& stream, const QuantiseArgs& a, void* workspace) {
  if (a.x.size() == 0) return;
  switch (a.x.dtype) {
    case DType::f32: return launch<float>(plan, stream, a, workspace);
    case DType::f16: return launch<half_t>(plan, stream, a, workspace);
    default: return launch<bfloat16_t>(plan, stream, a, workspace);
  }
}

// --- gated_quantise ----------------------------------------------------------------------------------------------------------------
Tile gated_tile_of(const GatedQuantiseArgs& a, const DeviceInfo& device) {
  const Groups g = groups_of(a.gate.dim(1), a.block_cols);
  const bool exact = groups_are_whole_vectors(a.gate, g) && groups_are_whole_vectors(a.up, g);
  const Tile team =
      with_team(pick_row_tile(g.cols, exact, device, RowPolicy::quads), kGatedTeam, a.gate, g.cols, device);
  return team.chunks != 0 ? team : Tile{gated_tile(a.gate.dim(0) * g.whole, g.cols, exact, device)};
}
auto gated_kernel(const GatedQuantiseArgs& a, const Tile& tile, const DeviceInfo& device) {
  return find_kernel(tile.chunks != 0 ? kGatedTeam : "gated_quantise", target_of(device),
                     variant_of(a.gate.dtype, tile.layout));
}

const char* supports_gated(const GatedQuantiseArgs& a, const DeviceInfo& device) {
  if (const char* why = too_many_groups(a, a.gate)) return why;
  return gated_kernel(a, gated_tile_of(a, device), device) == nullptr ? "not built for this target" : nullptr;
}

void plan_gated(const GatedQuantiseArgs& a, const DeviceInfo& device, Plan<GatedQuantiseArgs>& plan) {
  const Target target = target_of(device);
  const Tile tile = gated_tile_of(a, device);
  plan.kernel = reinterpret_cast<const void*>(gated_kernel(a, tile, device));
  plan.config = {tile.layout, tile.threads, tile.packed_rows()};
  const Groups g = groups_of(a.gate.dim(1), a.block_cols);
  if (g.tail == 0) return;
  const RowTile tail = gated_tile(a.gate.dim(0), g.tail, false, device);
  plan.config[kTailThreads] = tail.threads;
  plan.config[kTailRows] = tail.rows_per_program;
  plan.config[kTailKernel] = pack(find_kernel("gated_quantise", target, variant_of(a.gate.dtype, tail.layout)));
}

template <class X>
void launch_gated(const Plan<GatedQuantiseArgs>& plan, Stream& stream, const GatedQuantiseArgs& a) {
  const Groups g = groups_of(a.gate.dim(1), a.block_cols);
  const auto columns = [&](int64_t first, int64_t first_group, int64_t groups, int64_t cols, int64_t kernel,
                           int64_t threads, int64_t rows_per_program) {
    kernels::QuantiseParams<X> p{};
    p.codes = group_view(a.codes, first, groups, cols);
    p.scales = scale_view<float>(a.scales, first_group, groups);
    p.x = group_view<const X>(a.gate, first, groups, cols);
    p.up = group_view<const X>(a.up, first, groups, cols);
    p.rows = a.gate.dim(0) * groups;
    p.cols = cols;
    p.groups = static_cast<uint32_t>(groups);
    p.block_rows = 1;
    p.largest_code = largest_code(a.codes.dtype);
    p.given = a.given_scales;
    p.function = function_of(a.activation);
    if (p.given) p.block_rows = INT32_MAX;  // one for all
    launch_rows(kernel, stream, p, threads, rows_per_program, 2 * cols * static_cast<int64_t>(sizeof(X)));
  };
  if (g.whole > 0)
    columns(0, 0, g.whole, g.cols, pack(plan.kernel), plan.config[kThreads], plan.config[kRowsPerProgram]);
  if (g.tail > 0)
    columns(g.whole * g.cols, g.whole, 1, g.tail, plan.config[kTailKernel], plan.config[kTailThreads],
            plan.config[kTailRows]);
}

void run_gated(const Plan<GatedQuantiseArgs>& plan, Stream& stream, const GatedQuantiseArgs& a, void*) {
  if (a.gate.size() == 0) return;
  switch (a.gate.dtype) {
    case DType::f32: return launch_gated<float>(plan, stream, a);
    case DType::f16: return launch_gated<half_t>(plan, stream, a);
    default: return launch_gated<bfloat16_t>(plan, stream, a);
  }
}

// --- dequantise, plan: config = layout, threads, rows per program, chunks; threads, rows per program, chunks and kernel of the tail ----
DType kind_of(const DequantiseArgs& a) { return is_code(a.codes.dtype) ? DType::i8 : a.codes.dtype; }

ChunkTile chunk_of(const DequantiseArgs& a, const DeviceInfo& device) {
  const bool blocks = is_quantised(a.codes.dtype);
  const Groups g = groups_of(a.y.dim(1), blocks ? 0 : a.block_cols);
  const bool exact = is_code(a.codes.dtype) && groups_are_whole_vectors(a.y, g) && groups_are_whole_vectors(a.codes, g);
  const ChunkTile tile = pick_chunk_tile(a.y.dim(0) * g.whole, g.cols, exact, device, 2);
  if (device.device.kind == DeviceKind::cpu || tile.layout != kRows16) return tile;
  if (exact) return {kExact + kRows4x4, lanes_on(device, 128), lanes_on(device, 128) / 4, 1};
  return blocks ? ChunkTile{kBlock1, device.wave, 1, 1} : tile;
}

const char* supports_dequantise(const DequantiseArgs& a, const DeviceInfo& device) {
  if (const char* why = too_many_groups(a, a.y)) return why;
  return find_kernel("dequantise", target_of(device), variant_of(kind_of(a), chunk_of(a, device).layout)) == nullptr
             ? "not built for this target"
             : nullptr;
}

void plan_dequantise(const DequantiseArgs& a, const DeviceInfo& device, Plan<DequantiseArgs>& plan) {
  const ChunkTile tile = chunk_of(a, device);
  plan.kernel =
      reinterpret_cast<const void*>(find_kernel("dequantise", target_of(device), variant_of(kind_of(a), tile.layout)));
  plan.config = {tile.layout, tile.threads, tile.rows_per_program, tile.chunks};
  if (is_quantised(a.codes.dtype)) return;
  const Groups g = groups_of(a.y.dim(1), a.block_cols);
  if (g.tail == 0) return;
  const ChunkTile tail = pick_chunk_tile(a.y.dim(0), g.tail, false, device);
  plan.config[4] = tail.threads;
  plan.config[5] = tail.rows_per_program;
  plan.config[6] = tail.chunks;
  plan.config[7] = pack(find_kernel("dequantise", target_of(device), variant_of(kind_of(a), tail.layout)));
}

template <DType Q>
void launch_blocks(const Plan<DequantiseArgs>& plan, Stream& stream, const DequantiseArgs& a) {
  kernels::DequantiseBlocksParams<lang::quant_view<Q>> p{};
  p.y = group_view(a.y, 0, 1, a.y.dim(1));
  p.codes = {a.codes.as<const uint8_t>(), a.codes.step(0) / dtype_info(Q).block_elements * dtype_info(Q).block_bytes,
             a.codes.dim(1)};
  p.rows = a.y.dim(0);
  p.cols = a.y.dim(1);
  p.chunks = plan.config[3];
  const ChunkTile tile{0, static_cast<int>(plan.config[kThreads]), static_cast<int>(plan.config[kRowsPerProgram]),
                       p.chunks};
  launch_packed(pack(plan.kernel), stream, Grid{tile.programs(p.rows), tile.threads, 0, cpu_grain(p.cols * 2)}, p);
}

void run_dequantise(const Plan<DequantiseArgs>& plan, Stream& stream, const DequantiseArgs& a, void*) {
  if (a.y.size() == 0) return;
  switch (a.codes.dtype) {
    case DType::q4_0: return launch_blocks<DType::q4_0>(plan, stream, a);
    case DType::q5_0: return launch_blocks<DType::q5_0>(plan, stream, a);
    case DType::q8_0: return launch_blocks<DType::q8_0>(plan, stream, a);
    case DType::q4_k: return launch_blocks<DType::q4_k>(plan, stream, a);
    case DType::q6_k: return launch_blocks<DType::q6_k>(plan, stream, a);
    default: break;
  }
  const Groups g = groups_of(a.y.dim(1), a.block_cols);
  const auto columns = [&](int64_t first, int64_t first_group, int64_t groups, int64_t cols, int64_t kernel,
                           const ChunkTile& tile) {
    kernels::DequantiseParams p{};
    p.y = group_view(a.y, first, groups, cols);
    if (a.codes.dtype == DType::u8) {
      p.nibbles = group_view<const uint8_t>(a.codes, first, groups, cols, 2);
      if (a.zero_points.defined()) p.zero_points = scale_view<const uint8_t>(a.zero_points, first_group, groups);
    } else {
      p.codes = group_view(a.codes, first, groups, cols);
    }
    p.scales = scale_view<const float>(a.scales, first_group, groups);
    p.rows = a.y.dim(0) * groups;
    p.cols = cols;
    p.chunks = tile.chunks;
    p.groups = static_cast<uint32_t>(groups);
    p.block_rows = static_cast<uint32_t>(std::min<int64_t>(block_extent(a.block_rows, a.y.dim(0)), INT32_MAX));
    launch_packed(kernel, stream, Grid{tile.programs(p.rows), tile.threads, 0, cpu_grain(cols * 2)}, p);
  };
  const ChunkTile tile{0, static_cast<int>(plan.config[kThreads]), static_cast<int>(plan.config[kRowsPerProgram]),
                       plan.config[3]};
  if (g.whole > 0) columns(0, 0, g.whole, g.cols, pack(plan.kernel), tile);
  if (g.tail > 0) {
    const ChunkTile tail{0, static_cast<int>(plan.config[4]), static_cast<int>(plan.config[5]), plan.config[6]};
    columns(g.whole * g.cols, g.whole, 1, g.tail, plan.config[7], tail);
  }
}

}  // namespace

const Implementation<QuantiseArgs> quantise_portable{"portable", Tier::portable, supports, cost, make_plan, run};
const Implementation<GatedQuantiseArgs> gated_quantise_portable{"portable", Tier::portable, supports_gated,
                                                                cost,       plan_gated,     run_gated};
const Implementation<DequantiseArgs> dequantise_portable{"portable", Tier::portable,  supports_dequantise,
                                                         cost,       plan_dequantise, run_dequantise};

}  // namespace monotile::ops
