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
  int64_t stride = 0;        ///< elements between rows
  int64_t batch_stride = 0;  ///< elements between matrices
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
