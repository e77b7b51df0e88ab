#pragma once
// What kernels are given: typed views with 64-bit offsets. Plain data, the same on every target, made on the host.

#include <cstdint>

#include "monotile/dtype.hpp"
#include "monotile/lang/backend/target.hpp"

namespace monotile::lang {

/// Bytes at which vectors of 8 elements of `size` bytes start: 16, or 8 where they are no longer.
constexpr int64_t vector_bytes(int64_t size) { return size == 1 ? 8 : 16; }

/// 2^64 / n rounded up; 0 where n is 1. With it a quotient by n is two multiplications: a division is some fifteen instructions on GPUs, and one of 64 bits a
/// function call.
MT_FN uint64_t inverse_of_divisor(uint32_t n) { return n <= 1 ? 0 : UINT64_MAX / n + 1; }
MT_FN uint32_t times_inverse(uint64_t n, uint64_t inverse) {
  return static_cast<uint32_t>((n * (inverse >> 32) + (n * static_cast<uint32_t>(inverse) >> 32)) >> 32);
}

/// A divisor that the host knows, of numbers below 2^32.
struct divisor {
  uint32_t value;
  uint64_t inverse;

  /// n / value.
  MT_FN uint32_t of(uint32_t n) const { return inverse == 0 ? n : times_inverse(n, inverse); }
};
MT_FN divisor divisor_of(uint32_t n) { return {n, inverse_of_divisor(n)}; }

/// Rows of `cols` consecutive elements. The row index is split in two (row = outer * inner_rows + inner), so that [token, head, dim] tensors
/// with a free stride each are rows as well.
template <class T>
struct view {
  using element = T;
  T* data = nullptr;
  int64_t outer_stride = 0;  ///< elements between outer indices
  int64_t inner_stride = 0;  ///< elements between inner indices
  int64_t cols = 0;
  uint32_t inner_rows = 1;    ///< set by split_rows
  bool vectors = false;       ///< every row starts on `vector_bytes` of T: whole vectors may be moved
  uint64_t inner_inverse = 0;  ///< see inverse_of_divisor

  MT_FN void split_rows(uint32_t inner) {
    inner_rows = inner;
    inner_inverse = inverse_of_divisor(inner);
  }

  MT_FN T* row(int64_t r) const {
    if (inner_inverse == 0) return data + r * outer_stride;
    const int64_t outer = times_inverse(static_cast<uint32_t>(r), inner_inverse);
    return data + outer * outer_stride + (r - outer * inner_rows) * inner_stride;
  }
};

/// The same rows from column `first` on.
template <class T>
MT_FN view<T> from_column(view<T> v, int64_t first) {
  v.data += first;
  v.cols -= first;
  v.vectors = v.vectors && first * static_cast<int64_t>(sizeof(T)) % vector_bytes(sizeof(T)) == 0;
  return v;
}

/// Rows whose dtype is known at run time only (codes, caches and masks of several types). Strides count elements.
struct any_view {
  void* data = nullptr;
  int64_t outer_stride = 0, inner_stride = 0, cols = 0;
  uint32_t inner_rows = 1;
  bool vectors = false;
  DType dtype = DType::none;
  uint64_t inner_inverse = 0;

  template <class T>
  MT_FN view<T> as() const {
    return {static_cast<T*>(data), outer_stride, inner_stride, cols, inner_rows, vectors, inner_inverse};
  }
};
MT_FN any_view from_column(any_view v, int64_t first) {
  if (v.data == nullptr) return v;
  const int64_t size = dtype_info(v.dtype).block_bytes;
  v.data = static_cast<unsigned char*>(v.data) + first * size;
  v.cols -= first;
  v.vectors = v.vectors && first * size % vector_bytes(size) == 0;
  return v;
}

/// A vector over columns whose dtype is known at run time only (gamma, beta, bias): read as fp32.
struct any_vector {
  const void* data = nullptr;
  DType dtype = DType::none;
  bool vectors = false;  ///< starts on 16 bytes

  /// The same for every row, where the host has checked the dtype; itself for void.
  template <class T>
  MT_FN auto as() const {
    if constexpr (__is_same(T, void)) {
      return *this;
    } else {
      return view<const T>{static_cast<const T*>(data), 0, 0, 0, 1, vectors, 0};
    }
  }
};

MT_FN any_vector from_column(const any_vector& v, int64_t first) {
  const int64_t bytes = first * (v.dtype == DType::f32 ? 4 : 2);
  return {static_cast<const unsigned char*>(v.data) + bytes, v.dtype, v.vectors && bytes % 16 == 0};
}

/// Indices (ids, positions, slots), one per row, i32 or i64 known at run time only.
struct any_index {
  const void* data = nullptr;
  bool wide = false;  ///< i64

  MT_FN int64_t at(int64_t r) const {
    return wide ? static_cast<const int64_t*>(data)[r] : static_cast<int64_t>(static_cast<const int32_t*>(data)[r]);
  }
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

/// Rows of plain elements whose dtype is known at run time only (outputs and addends of products): touched element by element.
struct any_rows {
  void* data = nullptr;
  DType dtype = DType::none;
  int64_t stride = 0;  ///< elements between rows
};

/// Rows rounded to int8 in blocks of 32: value = code * scale of the block, scale = max|value| / 127. One row lies in one piece; besides
/// codes and scales it holds what integer products want: the sums of the codes, and the codes once more as 16-bit integers.
struct int8_rows {
  static constexpr int block_elements = 32;
  uint8_t* data = nullptr;  ///< 64-byte aligned
  int64_t cols = 0;         ///< a multiple of 32

  static MT_FN constexpr int64_t row_bytes(int64_t cols) { return (cols * 3 + cols / 32 * 12 + 63) / 64 * 64; }
  MT_FN uint8_t* row(int64_t r) const { return data + r * row_bytes(cols); }
  MT_FN int8_t* codes(int64_t r) const { return reinterpret_cast<int8_t*>(row(r)); }
  MT_FN int16_t* wide_codes(int64_t r) const { return reinterpret_cast<int16_t*>(row(r) + cols); }
  MT_FN float* scales(int64_t r) const { return reinterpret_cast<float*>(row(r) + cols * 3); }
  MT_FN int32_t* sums(int64_t r) const { return reinterpret_cast<int32_t*>(row(r) + cols * 3 + cols / 32 * 4); }       ///< of each block
  MT_FN int16_t* half_sums(int64_t r) const { return reinterpret_cast<int16_t*>(row(r) + cols * 3 + cols / 32 * 8); }  ///< of each 16
};

}  // namespace monotile::lang
