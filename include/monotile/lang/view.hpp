#pragma once
// What kernels are given: typed views with 64-bit offsets. Plain data, the same on every target, made on the host.

#include <cstdint>

#include "monotile/dtype.hpp"
#include "monotile/lang/backend/target.hpp"

namespace monotile::lang {

/// Rows of `cols` consecutive elements. The row index is split in two (row = outer * inner_rows + inner), so that [token, head, dim] tensors
/// with a free stride each are rows as well.
template <class T>
struct view {
  using element = T;
  T* data = nullptr;
  int64_t outer_stride = 0;  ///< elements between outer indices
  int64_t inner_stride = 0;  ///< elements between inner indices
  int64_t cols = 0;
  uint32_t inner_rows = 1;
  bool vectors = false;  ///< every row starts on 16 bytes: whole vectors may be moved

  MT_FN T* row(int64_t r) const {
    if (inner_rows == 1) return data + r * outer_stride;
    const uint32_t outer = static_cast<uint32_t>(r) / inner_rows, inner = static_cast<uint32_t>(r) - outer * inner_rows;
    return data + static_cast<int64_t>(outer) * outer_stride + static_cast<int64_t>(inner) * inner_stride;
  }
};

/// A vector over columns whose dtype is known at run time only (gamma, beta, bias): read as fp32.
struct any_vector {
  const void* data = nullptr;
  DType dtype = DType::none;
  bool vectors = false;  ///< starts on 16 bytes
};

/// Rows of GGUF blocks. `cols` counts elements, the stride bytes.
template <DType Q>
struct quant_view {
  static constexpr DType dtype = Q;
  static constexpr int block_elements = dtype_info(Q).block_elements;
  static constexpr int block_bytes = dtype_info(Q).block_bytes;
  const uint8_t* data = nullptr;
  int64_t row_bytes = 0;
  int64_t cols = 0;

  MT_FN const uint8_t* row(int64_t r) const { return data + r * row_bytes; }
};

}  // namespace monotile::lang
