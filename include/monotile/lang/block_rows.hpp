#pragma once
// How programs of matrix instructions take rows of GGUF blocks: the same for the host, which sizes scratch by it, and for targets with `row_dots` of
// this form (backend/simt/block_dots.hpp).

#include <cstddef>

#include "monotile/dtype.hpp"

namespace monotile::lang {

/// In place of a layout of lanes: a program has groups of 16 rows of b, and each of its waves every eighth stretch of 256 elements of them. One row of a, or
/// eight, fill the columns of the instruction. Rows of b start on 16 bytes and are multiples of them apart.
struct block_rows {
  static constexpr int rows = 16, rows_of_a = 8, waves = 8, lanes = waves * 32;
  static constexpr int stretch = 256;  ///< elements that a wave copies at a time
  static constexpr int alignment = 16;
  /// Programs that share a multiprocessor: 128 registers a lane, and twice what `scratch_bytes` says, which a chip with 164 KB has.
  static constexpr int programs_at_once = 2;
  /// Bytes of a stretch.
  static constexpr int stretch_bytes(DType b) {
    return stretch / dtype_info(b).block_elements * dtype_info(b).block_bytes;
  }
  /// Bytes between the rows of a stretch in shared memory. Stretches that do not start on 16 bytes are copied with what is before them; 240 instead of
  /// 224, so that the same word of eight rows lies in different banks.
  static constexpr int pitch(DType b) { return stretch_bytes(b) % alignment == 0 ? stretch_bytes(b) : 240; }
  /// Copies of stretches in shared memory: as many as fit into 72 KB, two of q8_0, four of q4_0.
  static constexpr int stages(DType b) { return 72 * 1024 / (waves * rows * pitch(b)); }
  /// With room for two rounds of sums of each wave.
  static constexpr size_t scratch_bytes(DType b) { return static_cast<size_t>(waves * rows * (stages(b) * pitch(b) + 2 * rows_of_a * 4)); }
};

}  // namespace monotile::lang
