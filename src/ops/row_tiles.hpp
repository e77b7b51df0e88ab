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
enum RowLayout : uint32_t { kRows16, kRows32, kBlock1, kBlock2, kBlock4, kStream, kRowLayouts };

template <uint32_t Index>
struct row_layout_at;
template <> struct row_layout_at<kRows16> { using type = lang::blocked<8, 1, 16>; };
template <> struct row_layout_at<kRows32> { using type = lang::blocked<8, 1, 32>; };
template <> struct row_layout_at<kBlock1> { using type = lang::blocked<8, 1, 0>; };
template <> struct row_layout_at<kBlock2> { using type = lang::blocked<8, 2, 0>; };
template <> struct row_layout_at<kBlock4> { using type = lang::blocked<8, 4, 0>; };
template <> struct row_layout_at<kStream> { using type = lang::blocked<8, 2, 0, true>; };
template <uint32_t Index>
using row_layout = typename row_layout_at<Index>::type;

/// Most lanes that the policy gives a program of this layout: bounds a lane's registers.
template <class L>
constexpr int max_row_threads() {
  return L::lanes_per_row != 0 || L::vectors == 1 ? 256 : 512;
}

struct RowTile {
  uint32_t layout;
  int threads;
  int rows_per_program;
};

/// Up to 16,384 columns stay in registers: 8 vectors a lane were tried and spill (504 bytes and more at 512 lanes).
inline RowTile pick_row_tile(int64_t cols, const DeviceInfo& device) {
  if (device.device.kind == DeviceKind::cpu) return {0, 1, 1};
  const int64_t vectors = (cols + 7) / 8, wave = device.wave;
  const auto block = [&](uint32_t layout, int64_t vectors_per_lane) {
    const int64_t lanes = (vectors + vectors_per_lane - 1) / vectors_per_lane;
    return RowTile{layout, static_cast<int>((lanes + wave - 1) / wave * wave), 1};
  };
  if (vectors <= 16) return {kRows16, 128, 8};
  if (vectors <= 32) return {kRows32, 128, 4};
  if (vectors <= 256) return block(kBlock1, 1);
  if (vectors <= 1024) return block(kBlock2, 2);
  if (vectors <= 2048) return block(kBlock4, 4);
  return {kStream, 512, 1};
}

inline int64_t programs_for(const RowTile& tile, int64_t rows) { return (rows + tile.rows_per_program - 1) / tile.rows_per_program; }

/// Rows of about 16 KB in all are what one CPU thread takes at a time.
inline int64_t cpu_grain(int64_t row_bytes) { return std::max<int64_t>(1, 16384 / std::max<int64_t>(1, row_bytes)); }

inline bool vector_aligned(const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; }

/// Rows of a rank 1 to 3 tensor whose innermost stride is 1; the two outer dimensions keep their own strides.
template <class T>
lang::view<T> row_view(const TensorView& t) {
  lang::view<T> v;
  v.data = static_cast<T*>(t.data);
  v.cols = t.dim(-1);
  v.inner_rows = t.rank >= 3 ? static_cast<uint32_t>(std::max<int64_t>(1, t.dim(-2))) : 1;
  v.inner_stride = t.rank >= 3 ? t.step(-2) : 0;
  v.outer_stride = t.rank >= 3 ? t.step(-3) : (t.rank == 2 ? t.step(-2) : 0);
  if (t.rank >= 3 && t.dim(-2) == 1) v.inner_stride = 0;
  // [a, b, cols] whose strides fold into one becomes plain rows: no division on the device.
  if (v.inner_rows > 1 && v.outer_stride == static_cast<int64_t>(v.inner_rows) * v.inner_stride) {
    v.outer_stride = v.inner_stride;
    v.inner_stride = 0;
    v.inner_rows = 1;
  }
  const int64_t size = static_cast<int64_t>(sizeof(T));
  v.vectors = vector_aligned(t.data) && v.outer_stride * size % 16 == 0 && v.inner_stride * size % 16 == 0;
  return v;
}
inline int64_t row_count(const TensorView& t) {
  int64_t n = 1;
  for (int i = 0; i + 1 < t.rank; ++i) n *= t.dim(i);
  return n;
}
inline lang::any_vector column_vector(const TensorView& t) { return {t.data, t.dtype, vector_aligned(t.data)}; }

template <class Params>
void (*erase(KernelFn<Params> f))() {
  return reinterpret_cast<void (*)()>(f);
}

}  // namespace monotile::ops
