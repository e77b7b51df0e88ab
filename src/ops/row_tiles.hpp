#pragma once
// Policy shared by the operators that keep a row on chip: from the number of columns alone (never the number of rows, so that results do not
// change with the batch) to a layout, the lanes of a program and the rows it takes.

#include <algorithm>
#include <cstdint>

#include "monotile/lang/layout.hpp"
#include "monotile/lang/view.hpp"
#include "monotile/tensor.hpp"
#include "runtime/kernels.hpp"

namespace monotile::ops {

/// The layouts, all with vectors of 8 elements (16 bytes of 16-bit types). Kernels are instantiated over these by index.
enum RowLayout : uint32_t { kRows16, kRows32, kBlock1, kBlock2, kBlock4, kStream, kWide, kRowLayouts };

template <uint32_t Index>
struct row_layout_at;
template <> struct row_layout_at<kRows16> { using type = lang::blocked<8, 1, 16>; };
template <> struct row_layout_at<kRows32> { using type = lang::blocked<8, 1, 32>; };
template <> struct row_layout_at<kBlock1> { using type = lang::blocked<8, 1, 0>; };
template <> struct row_layout_at<kBlock2> { using type = lang::blocked<8, 2, 0>; };
template <> struct row_layout_at<kBlock4> { using type = lang::blocked<8, 4, 0>; };
template <> struct row_layout_at<kStream> { using type = lang::blocked<8, 2, 0, true>; };
template <> struct row_layout_at<kWide> { using type = lang::blocked<8, 4, 0, true>; };
/// Added to a layout's index: rows are whole aligned vectors, checked by the host.
inline constexpr uint32_t kExact = kRowLayouts;
template <uint32_t Index>
  requires(Index >= kExact)
struct row_layout_at<Index> {
  using base = typename row_layout_at<Index - kExact>::type;
  using type = lang::blocked<base::vector_elements, base::vectors, base::lanes_per_row, base::streaming, true>;
};
template <uint32_t Index>
using row_layout = typename row_layout_at<Index>::type;

/// Most lanes that the policy gives a program of this layout: bounds a lane's registers.
template <class L>
constexpr int max_row_threads() {
  return L::lanes_per_row != 0 ? 256 : L::streaming ? 512 : L::exact && L::vectors == 2 ? 1024 : L::vectors == 1 && !L::exact ? 256 : 512;
}
/// Lanes that should fit on one multiprocessor at once: memory-bound programs hide latency by their number, and this bounds their registers.
template <class L>
constexpr int resident_row_threads() {
  return L::vectors >= 4 || (L::streaming && !L::exact) ? 512 : L::vectors == 2 ? 1024 : 1536;
}

struct RowTile {
  uint32_t layout;
  int threads;
  int rows_per_program;
};

/// Devices that compile a kernel when it is first used, anew for each number of waves: few shapes of programs are worth more there than the best one.
inline bool compiles_on_use(const DeviceInfo& device) { return device.device.kind == DeviceKind::opencl; }
/// Two waves, so that a row's program has something to exchange.
inline int few_threads(const DeviceInfo& device) { return 2 * device.wave; }

/// Whole waves that hold `vectors` vectors at `per_lane` a lane.
inline int whole_waves(int64_t vectors, int64_t per_lane, const DeviceInfo& device) {
  const int64_t lanes = (vectors + per_lane - 1) / per_lane, wave = device.wave;
  return static_cast<int>((lanes + wave - 1) / wave * wave);
}

/// Up to 16,384 columns stay in registers: 8 vectors a lane were tried and spill (504 bytes and more at 512 lanes).
inline RowTile pick_row_tile(int64_t cols, const DeviceInfo& device) {
  if (device.device.kind == DeviceKind::cpu) return {0, 1, 1};
  const int64_t vectors = (cols + 7) / 8;
  if (compiles_on_use(device)) return vectors <= 32 ? RowTile{kRows32, device.wave, device.wave / 32} : RowTile{kStream, device.wave, 1};
  if (vectors <= 16) return {kRows16, 128, 8};
  if (vectors <= 32) return {kRows32, 128, 4};
  if (vectors <= 256) return {kBlock1, whole_waves(vectors, 1, device), 1};
  if (vectors <= 1024) return {kBlock2, whole_waves(vectors, 2, device), 1};
  if (vectors <= 2048) return {kBlock4, whole_waves(vectors, 4, device), 1};
  return {kStream, 512, 1};
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
/// For elementwise work, whose results depend on no partition: one vector a lane, and smaller programs where the data is small (latency
/// counts). Layouts: kRows16, kBlock1, kExact + kBlock1.
inline ChunkTile pick_chunk_tile(int64_t rows, int64_t cols, bool exact, const DeviceInfo& device) {
  if (device.device.kind == DeviceKind::cpu) return {0, 1, 1, 1};
  const int64_t vectors = (cols + 7) / 8;
  if (vectors <= 16) return {kRows16, 128, 8, 1};
  if (compiles_on_use(device)) return {kBlock1, device.wave, 1, (vectors + device.wave - 1) / device.wave};
  const int64_t most = rows * vectors <= static_cast<int64_t>(device.units) * 256 ? 64 : 256, chunks = (vectors + most - 1) / most;
  const int threads = whole_waves(vectors, chunks, device);
  return {(exact ? kExact : 0) + kBlock1, threads, 1, (vectors + threads - 1) / threads};
}

/// Where exact layouts are built too: rows that are not whole aligned vectors take one of three general layouts.
inline RowTile pick_row_tile(int64_t cols, bool exact, const DeviceInfo& device) {
  RowTile tile = pick_row_tile(cols, device);
  if (device.device.kind == DeviceKind::cpu || compiles_on_use(device)) return tile;
  const int64_t vectors = (cols + 7) / 8;
  if (exact) {
    // H200, 2026-11-29, hand-written trials of the fp16 residual norm (docs/notes/add-rms-norm-h200.md): 4096 columns 134.5 us with 512 lanes of one vector, 135.3 with 256
    // of two; 16384 columns 132.2 with 1024 of two, 133.3 with 512 of four.
    if (tile.layout == kBlock2 && vectors <= 512) tile = {kBlock1, whole_waves(vectors, 1, device), 1};
    if (tile.layout == kBlock4) tile = {kBlock2, whole_waves(vectors, 2, device), 1};
    tile.layout += kExact;
  } else if (tile.layout == kRows16) {
    tile = {kRows32, 128, 4};
  } else if (tile.layout == kBlock1 || tile.layout == kBlock4) {
    tile = vectors <= 1024 ? RowTile{kBlock2, whole_waves(vectors, 2, device), 1} : RowTile{kStream, 512, 1};
  }
  return tile;
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

/// Several rows side by side in a wave, or rows of any length in chunks: for operators on heads (rotary embedding, cache writes).
enum HeadLayout : uint32_t { kHeads4, kHeads8, kHeads16, kHeads32, kHeadsStream, kHeadLayouts };

template <uint32_t Index>
struct head_layout_at {
  using type = lang::blocked<8, 1, 4 << Index>;
};
template <> struct head_layout_at<kHeadsStream> { using type = lang::blocked<8, 1, 0, true>; };
/// Added to a layout's index: heads are whole aligned vectors, checked by the host.
inline constexpr uint32_t kExactHeads = kHeadLayouts;
template <uint32_t Index>
  requires(Index >= kExactHeads)
struct head_layout_at<Index> {
  using base = typename head_layout_at<Index - kExactHeads>::type;
  using type = lang::blocked<base::vector_elements, base::vectors, base::lanes_per_row, base::streaming, true>;
};
template <uint32_t Index>
using head_layout = typename head_layout_at<Index>::type;

/// The narrowest layout, from `narrowest` on, that holds `cols` columns.
inline RowTile pick_head_tile(int64_t cols, const DeviceInfo& device, HeadLayout narrowest = kHeads4) {
  if (device.device.kind == DeviceKind::cpu) return {0, 1, 1};
  for (uint32_t layout = narrowest; layout < kHeadsStream; ++layout) {
    const int lanes = 4 << layout;
    if (cols <= lanes * 8) return {layout, 128, 128 / lanes};
  }
  return {kHeadsStream, 128, 1};
}

/// Number of a kernel whose instantiations differ in one dtype and the layout, or in two dtypes and the layout.
constexpr uint32_t variant_of(DType dtype, uint32_t layout) { return static_cast<uint32_t>(dtype) << 8 | layout; }
constexpr uint32_t variant_of(DType first, DType second, uint32_t layout) {
  return static_cast<uint32_t>(first) << 16 | static_cast<uint32_t>(second) << 8 | layout;
}

template <class Params>
void (*erase(KernelFn<Params> f))() {
  return reinterpret_cast<void (*)()>(f);
}

}  // namespace monotile::ops
