#pragma once
// How programs of matrix instructions take rows of GGUF blocks: the same for the host, which sizes scratch by it, and for targets with `row_dots` of
// this form (backend/simt/block_dots.hpp).

#include <cstddef>

#include "monotile/dtype.hpp"

namespace monotile::lang {

/// In place of a layout of lanes: a program has 16 rows of b, and each of its waves every eighth stretch of 256 elements of them. Up to eight rows of
/// a are the columns of the instruction. Rows of b start on 16 bytes and are multiples of them apart.
struct block_rows {
  static constexpr int rows = 16, rows_of_a = 8, waves = 8, lanes = waves * 32;
  static constexpr int stretch = 256;  ///< elements that a wave copies at a time
  static constexpr int stages = 2;     ///< of these copies in shared memory
  static constexpr int alignment = 16;
  /// Bytes of a stretch.
  static constexpr int stretch_bytes(DType b) {
    return stretch / dtype_info(b).block_elements * dtype_info(b).block_bytes;
  }
  /// Bytes between the rows of a stretch in shared memory. Stretches that do not start on 16 bytes are copied with what is before them; 240 instead of
  /// 224, so that the same word of eight rows lies in different banks.
  static constexpr int pitch(DType b) { return stretch_bytes(b) % alignment == 0 ? stretch_bytes(b) : 240; }
  static constexpr size_t scratch_bytes(DType b) { return static_cast<size_t>(waves * stages * rows * pitch(b)); }
};

}  // namespace monotile::lang
