#pragma once
// What kernels of matrix tiles are given: plain data, made on the host.

#include <cstdint>

#include "monotile/lang/view.hpp"

namespace monotile::lang {

/// A batch of equal matrices with rows of consecutive elements.
struct alignas(64) matrix_view {
  /// How a copy engine sees the matrix: filled when the kernel is launched, on machines that have one.
  unsigned char map[128] = {};
  void* data = nullptr;
  int32_t rows = 0, cols = 0, batch = 1;
  DType dtype = DType::none;
  bool vectors = false;      ///< every row starts on 16 bytes
  bool transposed = false;   ///< columns are stored one after the other: `stride` lies between columns
  int64_t stride = 0;        ///< elements between rows
  int64_t batch_stride = 0;  ///< elements between matrices
};

/// Factors of a result's rows and columns; null: 1. A step of 0 is one factor for all.
struct cell_scales {
  const float *rows = nullptr, *cols = nullptr;
  int row_step = 0, col_step = 0;

  MT_FN float row(int r) const { return rows == nullptr ? 1.0f : rows[r * row_step]; }
  MT_FN float column(int c) const { return cols == nullptr ? 1.0f : cols[c * col_step]; }
  MT_FN bool any() const { return rows != nullptr || cols != nullptr; }
};

/// A tile of the result, by its first element.
struct tile_coord {
  int batch, m, n;
};

/// All tiles of the result (counted in tiles), the steps along k, and the extents of the result in elements.
struct tile_space {
  int m, n, k, batch;
  int rows, cols;
  int split = 1;  ///< programs that share the steps of a tile, where the schedule does that: up to 8
};

}  // namespace monotile::lang
