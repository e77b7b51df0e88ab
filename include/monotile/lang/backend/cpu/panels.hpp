#pragma once
// Packing of operands on CPU: rows of any type, GGUF blocks too, to words (micro_kernels.hpp), and rows of words to
// panels.

#include "monotile/lang/backend/cpu/micro_kernels.hpp"
#include "monotile/lang/backend/cpu/unpack.hpp"
#include "monotile/lang/matrix_view.hpp"

namespace monotile::lang::inline MONOTILE_TARGET_NAME {

/// Eight rows of eight: out[j] = lane j of each row.
MT_FN void transpose8(float8 (&r)[8]) {
  float8 a[8], b[8];
  for (int i = 0; i < 4; ++i) {
    a[2 * i] = __builtin_shufflevector(r[2 * i], r[2 * i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
    a[2 * i + 1] = __builtin_shufflevector(r[2 * i], r[2 * i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
  }
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 2; ++j) {
      b[4 * i + 2 * j] = __builtin_shufflevector(a[4 * i + j], a[4 * i + j + 2], 0, 1, 8, 9, 4, 5, 12, 13);
      b[4 * i + 2 * j + 1] = __builtin_shufflevector(a[4 * i + j], a[4 * i + j + 2], 2, 3, 10, 11, 6, 7, 14, 15);
    }
  }
  for (int j = 0; j < 4; ++j) {
    r[j] = __builtin_shufflevector(b[j], b[j + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    r[j + 4] = __builtin_shufflevector(b[j], b[j + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  }
}

/// Words of kGroup rows to the columns of a panel: to[w][0, kGroup) = word w of each row. `words` is a multiple of
/// kChunkWords.
#if defined(__AVX512F__)
inline constexpr int kGroup = 16;
/// Four rows of four words at a time are brought into place by the loads; the rest is two rounds within 128 bits.
MT_FN void transpose_group(const float* const (&rows)[kGroup], int words, float* to) {
  for (int w = 0; w < words; w += 4) {
    __m512 r[4];
    for (int i = 0; i < 4; ++i) {  // quarter q: row 4 q + i
      const __m512 a = _mm512_castps128_ps512(_mm_loadu_ps(rows[i] + w));
      const __m512 b = _mm512_mask_broadcast_f32x4(a, 0x00f0, _mm_loadu_ps(rows[4 + i] + w));
      const __m512 c = _mm512_mask_broadcast_f32x4(b, 0x0f00, _mm_loadu_ps(rows[8 + i] + w));
      r[i] = _mm512_mask_broadcast_f32x4(c, 0xf000, _mm_loadu_ps(rows[12 + i] + w));
    }
    const __m512 low0 = _mm512_unpacklo_ps(r[0], r[1]), high0 = _mm512_unpackhi_ps(r[0], r[1]);
    const __m512 low1 = _mm512_unpacklo_ps(r[2], r[3]), high1 = _mm512_unpackhi_ps(r[2], r[3]);
    float* const p = to + w * kPanel;
    _mm512_storeu_ps(p, _mm512_shuffle_ps(low0, low1, 0x44));
    _mm512_storeu_ps(p + kPanel, _mm512_shuffle_ps(low0, low1, 0xee));
    _mm512_storeu_ps(p + 2 * kPanel, _mm512_shuffle_ps(high0, high1, 0x44));
    _mm512_storeu_ps(p + 3 * kPanel, _mm512_shuffle_ps(high0, high1, 0xee));
  }
}
#else
inline constexpr int kGroup = 8;
MT_FN void transpose_group(const float* const (&rows)[kGroup], int words, float* to) {
  for (int w = 0; w < words; w += 8) {
    float8 v[8];
    for (int i = 0; i < 8; ++i) v[i] = load8(rows[i] + w);
    transpose8(v);
    for (int i = 0; i < 8; ++i) store8(to + (w + i) * kPanel, v[i]);
  }
}
#endif

template <class P>
MT_FN P packed_element(float v) {
  return from_float<P>(v);
}
template <>
MT_FN float packed_element<float>(float v) {
  return v;
}
/// Eight values to the packed form.
template <class P>
MT_FN void store_packed(P* to, float8 v) {
#if defined(__AVX512BF16__)
  if constexpr (std::is_same_v<P, bfloat16_t>) {  // subnormals become 0, as in the product
    const __m128bh h = _mm256_cvtneps_pbh(reinterpret_cast<__m256>(v));
    std::memcpy(to, &h, 16);
    return;
  }
#endif
  store8(to, v);
}

/// `cols` elements of a row, converted.
template <class P, class S>
__attribute__((noinline)) void pack_plain(P* to, const void* from, int cols) {
  const S* p = static_cast<const S*>(from);
  if constexpr (std::is_same_v<P, S>) {
    std::memcpy(to, p, static_cast<size_t>(cols) * sizeof(P));
  } else if constexpr (std::is_integral_v<S>) {
    for (int c = 0; c < cols; ++c) to[c] = static_cast<P>(p[c]);
  } else {
    int c = 0;
    for (; c + 8 <= cols; c += 8) store_packed(to + c, load8(p + c));
    for (; c < cols; ++c) to[c] = packed_element<P>(promote(p[c]));
  }
}
/// `cols` elements from element `col` of a row of blocks; both are multiples of 32.
template <class P, DType Q>
__attribute__((noinline)) void pack_blocks(P* to, const void* row, int col, int cols) {
  constexpr int kSubs = kSubBlocks<Q>, kBytes = dtype_info(Q).block_bytes;
  for (int c = 0; c < cols; c += 32) {
    const int sub = (col + c) / 32;
    float8 v[4];
    unpacker<Q>::values(static_cast<const uint8_t*>(row) + int64_t{sub / kSubs} * kBytes, sub % kSubs, v);
    for (int i = 0; i < 4; ++i) store_packed(to + c + 8 * i, v[i]);
  }
}

/// Elements of type `dtype` from memory, as the operands of T.
template <class T>
MT_FN void pack_row(typename packed_form<T>::type* to, const unsigned char* row, DType dtype, int col, int cols) {
  using P = typename packed_form<T>::type;
  if constexpr (std::is_same_v<T, int8_t>) {
    pack_plain<P, int8_t>(to, row + col, cols);
  } else {
    switch (dtype) {
      case DType::f32: return pack_plain<P, float>(to, row + int64_t{col} * 4, cols);
      case DType::f16: return pack_plain<P, half_t>(to, row + int64_t{col} * 2, cols);
      case DType::bf16: return pack_plain<P, bfloat16_t>(to, row + int64_t{col} * 2, cols);
      case DType::f8_e4m3: return pack_plain<P, e4m3_t>(to, row + col, cols);
      case DType::f8_e5m2: return pack_plain<P, e5m2_t>(to, row + col, cols);
      case DType::q4_0: return pack_blocks<P, DType::q4_0>(to, row, col, cols);
      case DType::q5_0: return pack_blocks<P, DType::q5_0>(to, row, col, cols);
      case DType::q8_0: return pack_blocks<P, DType::q8_0>(to, row, col, cols);
      case DType::q4_k: return pack_blocks<P, DType::q4_k>(to, row, col, cols);
      case DType::q6_k: return pack_blocks<P, DType::q6_k>(to, row, col, cols);
      default: return;
    }
  }
}

/// Bytes that `elements` of a row take.
MT_FN int64_t bytes_of(DType dtype, int64_t elements) {
  const DTypeInfo info = dtype_info(dtype);
  return elements / info.block_elements * info.block_bytes;
}

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME
