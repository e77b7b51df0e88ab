#pragma once
// Rows that lie anywhere: query heads of ragged sequences, pages of a cache. Plain data, made on the host.

#include <cstdint>

#include "monotile/lang/view.hpp"

namespace monotile::lang {

/// Rows of `cols` consecutive elements, found by three coordinates. A box is what is copied at once: `box_x` rows along
/// x at each of `box_y` places along y, x fastest.
struct alignas(64) box_view {
  /// How a copy engine sees the rows: filled when the kernel is launched, on machines that have one.
  unsigned char map[128] = {};
  void* data = nullptr;
  DType dtype = DType::none;
  bool vectors = false;  ///< every row starts on 16 bytes
  int32_t cols = 0;
  int32_t extent_x = 0, extent_y = 0, extent_z = 0;
  int32_t box_x = 1, box_y = 1;
  int64_t stride_x = 0, stride_y = 0, stride_z = 0;  ///< in elements

  MT_FN int64_t offset(int x, int y, int z) const { return x * stride_x + y * stride_y + z * stride_z; }
};

/// A scale for each row of a box_view. Strides of 0 where rows share one.
struct row_scales {
  const float* data = nullptr;
  int64_t stride_x = 0, stride_y = 0, stride_z = 0;

  MT_FN const float* at(int x, int y, int z) const { return data + (x * stride_x + y * stride_y + z * stride_z); }
};
/// Rows of codes: value = code * the scale of its row.
struct coded_view {
  const box_view& rows;
  const row_scales& scales;
};

/// Rows that are given as T: with their scales where they are stored otherwise.
template <class T, class Stored>
MT_FN decltype(auto) stored_rows(const box_view& rows, const row_scales& scales) {
  if constexpr (__is_same(Stored, T)) {
    return (rows);
  } else {
    return coded_view{rows, scales};
  }
}

/// Where a box starts, and how many of its rows exist: the others are zeros in a tile, and are not written.
struct box_at {
  int x, y, z, rows;
};

}  // namespace monotile::lang
