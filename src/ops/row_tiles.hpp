#pragma once
// Policy shared by the operators that keep a row on chip: from the number of columns alone (never the number of rows, so that results do not
// change with the batch) to a layout, the lanes of a program and the rows it takes.

#include <algorithm>
#include <cstdint>

#include "monotile/lang/view.hpp"
#include "monotile/tensor.hpp"
#include "ops/row_layouts.hpp"
#include "runtime/kernels.hpp"

namespace monotile::ops {

struct RowTile {
  uint32_t layout;
  int threads;
  int rows_per_program;
};

/// Devices that compile a kernel when it is first used, anew for each number of waves: few shapes of programs are worth more there than the best one.
inline bool compiles_on_use(const DeviceInfo& device) { return device.device.kind == DeviceKind::opencl; }
/// Their programs have one wave wherever the host may choose: without barriers a driver compiles a kernel in a tenth of the time.
inline int lanes_on(const DeviceInfo& device, int lanes) { return compiles_on_use(device) ? device.wave : lanes; }
/// Two waves, where a program is to have something to exchange.
inline int few_threads(const DeviceInfo& device) { return 2 * device.wave; }

/// Whole waves that hold `vectors` vectors at `per_lane` a lane.
inline int whole_waves(int64_t vectors, int64_t per_lane, const DeviceInfo& device) {
  const int64_t lanes = (vectors + per_lane - 1) / per_lane, wave = device.wave;
  return static_cast<int>((lanes + wave - 1) / wave * wave);
}

/// How rows of whole aligned vectors are spread: by how many vectors a row has, and by nothing else.
struct RowStep {
  int64_t most_vectors;
  RowLayout layout;
};
enum class RowPolicy { sums, quads };
/// What one multiprocessor has in flight decides (about 40 KB are wanted), and how many programs take turns there: two to four vectors a lane leave room for
/// six to ten programs of a common row, where one vector a lane had three. H200, 2026-11-30 (docs/notes/row-operators-h200.md), 16384 x 4096 fp16, us with 1, 2
/// and 4 vectors a lane: rms_norm 80.0, 65.4, 66.0; residual norm 132.3, 131.9, 131.2; softmax 83.4, 67.7, 66.2; quantise_fp8 64.8, 50.3, 48.0; groups of 128
/// columns 80.3 with 16 lanes of one, 49.1 with 4 lanes of four.
/// `sums`: the norms, whose fused forms hold more beside the row. Narrow rows keep one vector a lane: norms of heads add up in that order, too. Longer ones
/// than 1,024 vectors take four, so that at least two programs share a multiprocessor.
inline constexpr RowStep kSumSteps[] = {{16, kRows16}, {32, kRows32}, {1024, kBlock2}, {2048, kBlock4}};
/// `quads`: everything else that reduces rows.
inline constexpr RowStep kQuadSteps[] = {{16, kRows4x4}, {32, kRows8x4}, {128, kRows32x4}, {2048, kBlock4}};
/// Rows that are not whole aligned vectors: few layouts.
inline constexpr RowStep kGeneralSteps[] = {{32, kRows32}, {1024, kBlock2}};

/// A row's tile in one of the layouts above.
inline RowTile tile_in(RowLayout layout, int64_t vectors, const DeviceInfo& device) {
  switch (layout) {
    case kRows4x4: return {layout, 128, 32};
    case kRows8x4: return {layout, 128, 16};
    case kRows16: return {layout, 128, 8};
    case kRows32:
    case kRows32x4: return {layout, 128, 4};
    case kBlock1: return {layout, whole_waves(vectors, 1, device), 1};
    case kBlock2: return {layout, whole_waves(vectors, 2, device), 1};
    case kBlock4: return {layout, whole_waves(vectors, 4, device), 1};
    default: return {layout, 512, 1};
  }
}
template <size_t N>
RowTile first_that_holds(const RowStep (&steps)[N], int64_t vectors, const DeviceInfo& device) {
  for (const RowStep& step : steps) {
    if (vectors <= step.most_vectors) return tile_in(step.layout, vectors, device);
  }
  return tile_in(kStream, vectors, device);  // 8 vectors a lane were tried and spill (504 bytes and more at 512 lanes)
}

/// True if a program of this layout has one row, and finds it by one stride (see one_stride) where the layout is exact.
constexpr bool one_row_each(uint32_t layout) { return layout % kExact >= kBlock1; }

/// The tile of a row of `cols` columns; `exact`: rows are whole aligned vectors.
inline RowTile pick_row_tile(int64_t cols, bool exact, const DeviceInfo& device, RowPolicy policy) {
  if (device.device.kind == DeviceKind::cpu) return {0, 1, 1};
  const int64_t vectors = (cols + 7) / 8;
  if (compiles_on_use(device)) return vectors <= 32 ? RowTile{kRows32, device.wave, device.wave / 32} : RowTile{kStream, device.wave, 1};
  if (!exact) return first_that_holds(kGeneralSteps, vectors, device);
  RowTile tile = policy == RowPolicy::sums ? first_that_holds(kSumSteps, vectors, device) : first_that_holds(kQuadSteps, vectors, device);
  tile.layout += kExact;
  return tile;
}

/// Rows too long for the registers of one program, where programs can form teams that hold them, eight vectors to a lane. 128 lanes where a team of those is
/// enough: small programs are in different phases, so that some load while others compute. Depends on the columns alone, as all tiles of rows do.
inline constexpr int64_t kTeamVectors = kTeamThreads * team_layout::vectors, kMostTeam = 8;
inline constexpr size_t kTeamScratch = 128;
struct TeamTile {
  int64_t chunks = 0;  ///< 0: no team
  int threads = 0;
};
/// `tile` is what the row would take else.
inline TeamTile pick_team_tile(int64_t cols, const RowTile& tile, const DeviceInfo& device) {
  if (tile.layout != kExact + kStream || cols > kMostTeam * kTeamVectors * 8) return {};
  const int64_t vectors = cols / 8, wanted = kTeamVectors / 2,
                chunks = std::min(kMostTeam, (vectors + wanted - 1) / wanted);
  return {chunks, whole_waves((vectors + chunks - 1) / chunks, team_layout::vectors, device)};
}

/// The same for operators that want a row to have its program for itself, of at most `most_threads` lanes. Layouts: kBlock1, kBlock2, kWide.
inline RowTile pick_block_tile(int64_t cols, const DeviceInfo& device, int most_threads) {
  if (device.device.kind == DeviceKind::cpu) return {kBlock1, 1, 1};
  if (compiles_on_use(device)) return {kWide, device.wave, 1};
  const int64_t vectors = (cols + 7) / 8;
  if (vectors <= 256) return {kBlock1, whole_waves(vectors, 1, device), 1};
  if (vectors <= 1024) return {kBlock2, whole_waves(vectors, 2, device), 1};
  return {kWide, most_threads, 1};
}

/// A tile of elementwise work: `chunks` tiles side by side cover a row.
struct ChunkTile {
  uint32_t layout;
  int threads;
  int rows_per_program;
  int64_t chunks;

  int64_t programs(int64_t rows) const { return (rows + rows_per_program - 1) / rows_per_program * chunks; }
};
/// For elementwise work, whose results depend on no partition: programs of up to 256 vectors, and smaller ones of one vector a lane where the data is small
/// (latency counts). Layouts: kRows16, kBlock1, kExact + kBlock1, and kExact + kBlock2 where `vectors_per_lane` is 2: kernels that read little beside
/// what they write want more in flight (H200, 2026-11-30, embedding of 16384 x 4096: 73.2 us with 256 lanes of one vector, 67.4 with 128 of two).
inline ChunkTile pick_chunk_tile(int64_t rows, int64_t cols, bool exact, const DeviceInfo& device, int64_t vectors_per_lane = 1) {
  if (device.device.kind == DeviceKind::cpu) return {0, 1, 1, 1};
  const int64_t vectors = (cols + 7) / 8;
  if (vectors <= 16) return {kRows16, lanes_on(device, 128), lanes_on(device, 128) / 16, 1};
  if (compiles_on_use(device)) return {kBlock1, device.wave, 1, (vectors + device.wave - 1) / device.wave};
  const bool small = rows * vectors <= static_cast<int64_t>(device.units) * 256;
  const int64_t most = small ? 64 : 256, chunks = (vectors + most - 1) / most, per_lane = exact && !small ? vectors_per_lane : 1;
  const int threads = whole_waves(vectors, chunks * per_lane, device);
  return {(exact ? kExact : 0) + (per_lane == 2 ? kBlock2 : kBlock1), threads, 1, (vectors + threads * per_lane - 1) / (threads * per_lane)};
}

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
inline bool vector_aligned(const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; }

/// True if every row of these views is whole 16-byte vectors of 8 elements.
inline bool whole_vectors(const TensorView& t) {
  if (!t.defined()) return true;
  const int64_t size = dtype_info(t.dtype).block_bytes, vector = lang::vector_bytes(size);
  if (t.dim(-1) % 8 != 0 || reinterpret_cast<uintptr_t>(t.data) % static_cast<uintptr_t>(vector) != 0) return false;
  for (int i = 0; i + 1 < t.rank; ++i) {
    // Also where the extent is 1: a row sliced from a padded matrix must take the layout that it has in the batch.
    if (t.step(i) * size % vector != 0) return false;
  }
  return true;
}

/// True if elements lie one after the other: elementwise work may then take a matrix as one long row.
inline bool packed_rows(const TensorView& t) { return !t.defined() || (t.rank == 2 && t.step(0) == t.dim(1)); }

/// True if one stride leads from row to row. Judged by strides alone, also where an extent is 1: see whole_vectors.
inline bool one_stride(const TensorView& t) { return !t.defined() || t.rank < 3 || t.step(-3) == t.dim(-2) * t.step(-2); }

inline int64_t programs_for(const RowTile& tile, int64_t rows) { return (rows + tile.rows_per_program - 1) / tile.rows_per_program; }

/// Rows of about 16 KB in all are what one CPU thread takes at a time.
inline int64_t cpu_grain(int64_t row_bytes) { return std::max<int64_t>(1, 16384 / std::max<int64_t>(1, row_bytes)); }

/// Rows of a rank 1 to 3 tensor whose innermost stride is 1; the two outer dimensions keep their own strides.
template <class T>
lang::view<T> row_view(const TensorView& t) {
  lang::view<T> v;
  v.data = static_cast<T*>(t.data);
  v.cols = t.dim(-1);
  v.split_rows(t.rank >= 3 ? static_cast<uint32_t>(std::max<int64_t>(1, t.dim(-2))) : 1);
  v.inner_stride = t.rank >= 3 ? t.step(-2) : 0;
  v.outer_stride = t.rank >= 3 ? t.step(-3) : (t.rank == 2 ? t.step(-2) : 0);
  if (t.rank >= 3 && t.dim(-2) == 1) v.inner_stride = 0;
  // [a, b, cols] whose strides fold into one becomes plain rows: no division on the device.
  if (v.inner_rows > 1 && v.outer_stride == static_cast<int64_t>(v.inner_rows) * v.inner_stride) {
    v.outer_stride = v.inner_stride;
    v.inner_stride = 0;
    v.split_rows(1);
  }
  const int64_t size = static_cast<int64_t>(sizeof(T));
  const int64_t vector = lang::vector_bytes(size);
  v.vectors = reinterpret_cast<uintptr_t>(t.data) % static_cast<uintptr_t>(vector) == 0 && v.outer_stride * size % vector == 0 &&
              v.inner_stride * size % vector == 0;
  return v;
}
/// The same where the dtype is known at run time only.
inline lang::any_view any_rows_view(const TensorView& t) {
  if (!t.defined()) return {};
  const auto make = [&](const auto& v) {
    return lang::any_view{t.data, v.outer_stride, v.inner_stride, v.cols, v.inner_rows, v.vectors, t.dtype, v.inner_inverse};
  };
  switch (dtype_info(t.dtype).block_bytes) {
    case 1: return make(row_view<uint8_t>(t));
    case 2: return make(row_view<half_t>(t));
    default: return make(row_view<float>(t));
  }
}
inline int64_t row_count(const TensorView& t) {
  int64_t n = 1;
  for (int i = 0; i + 1 < t.rank; ++i) n *= t.dim(i);
  return n;
}
inline lang::any_index index_vector(const TensorView& t) { return {t.data, t.dtype == DType::i64}; }
inline lang::any_vector column_vector(const TensorView& t) { return {t.data, t.dtype, vector_aligned(t.data)}; }

/// The narrowest layout, from `narrowest` on, that holds `cols` columns.
inline RowTile pick_head_tile(int64_t cols, const DeviceInfo& device, HeadLayout narrowest = kHeads4) {
  if (device.device.kind == DeviceKind::cpu) return {0, 1, 1};
  const int threads = lanes_on(device, 128);
  for (uint32_t layout = narrowest; layout < kHeadsStream; ++layout) {
    const int lanes = 4 << layout;
    if (cols <= lanes * 8) return {layout, threads, threads / lanes};
  }
  return {kHeadsStream, threads, 1};
}

}  // namespace monotile::ops
