#pragma once
// Products of packed operands on CPU. What an instruction takes at a time is a word of 32 bits: one fp32, or two bf16,
// two int16 or four int8 that are neighbours along k. Operand a lies row by row, kRowBytes apart; operand b in panels
// of kPanel rows, the first words of all of them, then the second ones. So one loop serves every instruction that
// multiplies a word of a with a vector of words of b, and the same memory serves the tile registers (AMX).
//
// A sum is one chain over k, in memory between steps: its bits depend on no tile size and on no other row or column.

#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "monotile/lang/backend/cpu/simd.hpp"

namespace monotile::lang::inline MONOTILE_TARGET_NAME {

inline constexpr int kWordBytes = 4;
/// A row of a tile: 1 KB at most, and a line more so that rows do not fall into the same sets of the cache.
inline constexpr int kRowBytes = 1088, kMostRowBytes = 1024;
/// Tiles hold a whole number of these along k; what does not exist is 0.
inline constexpr int kChunkWords = 16;

/// How elements of type T lie in packed operands, and what their products add up to.
template <class T>
struct packed_form {
  using type = float;
  using sum = float;
};

#if defined(__AVX512F__)
using sum_vector = __m512;
inline constexpr int kLanesOfSum = 16, kVectorsOfPanel = 2, kRowsAtOnce = 14;
#elif defined(__AVX2__)
using sum_vector = __m256;
inline constexpr int kLanesOfSum = 8, kVectorsOfPanel = 2, kRowsAtOnce = 6;
#else
using sum_vector = float8;
inline constexpr int kLanesOfSum = 8, kVectorsOfPanel = 1, kRowsAtOnce = 4;
#endif
inline constexpr int kPanel = kLanesOfSum * kVectorsOfPanel;

MT_FN sum_vector load_words(const void* p) {
  sum_vector v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

MT_FN void store_words(void* p, sum_vector v) { std::memcpy(p, &v, sizeof v); }

/// sum + (word of a, in all lanes) * (words of b), element by element of the words.
template <class P>
struct lane_product;
template <>
struct lane_product<float> {
#if defined(__AVX512F__)
  static MT_FN sum_vector spread(const void* p) { return _mm512_set1_ps(*static_cast<const float*>(p)); }
  static MT_FN sum_vector add(sum_vector s, sum_vector a, sum_vector b) { return _mm512_fmadd_ps(a, b, s); }
#elif defined(__AVX2__)
  static MT_FN sum_vector spread(const void* p) { return _mm256_broadcast_ss(static_cast<const float*>(p)); }
  static MT_FN sum_vector add(sum_vector s, sum_vector a, sum_vector b) { return _mm256_fmadd_ps(a, b, s); }
#else
  static MT_FN sum_vector spread(const void* p) { return float8{} + *static_cast<const float*>(p); }
  static MT_FN sum_vector add(sum_vector s, sum_vector a, sum_vector b) { return s + a * b; }
#endif
};

#if defined(__AVX512BF16__)
template <>
struct packed_form<bfloat16_t> {
  using type = bfloat16_t;
  using sum = float;
};
template <>
struct packed_form<e4m3_t> : packed_form<bfloat16_t> {};  // which holds 8-bit floats exactly
template <>
struct packed_form<e5m2_t> : packed_form<bfloat16_t> {};
template <>
struct lane_product<bfloat16_t> {
  static MT_FN sum_vector spread(const void* p) { return _mm512_set1_ps(*static_cast<const float*>(p)); }
  static MT_FN sum_vector add(sum_vector s, sum_vector a, sum_vector b) {
    return _mm512_dpbf16_ps(s, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b));
  }
};
#endif

#if defined(__AVX512VNNI__)
/// The instruction takes unsigned a: 128 is added as a is packed, and taken off again with the sums of b's columns.
inline constexpr bool kBiasedInt8 = true;
template <>
struct packed_form<int8_t> {
  using type = int8_t;
  using sum = int32_t;
};
template <>
struct lane_product<int8_t> {
  static MT_FN sum_vector spread(const void* p) { return _mm512_set1_ps(*static_cast<const float*>(p)); }
  static MT_FN sum_vector add(sum_vector s, sum_vector a, sum_vector b) {
    return reinterpret_cast<sum_vector>(
        _mm512_dpbusd_epi32(reinterpret_cast<__m512i>(s), reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
  }
};
#elif defined(__AVX2__)
inline constexpr bool kBiasedInt8 = false;
template <>
struct packed_form<int8_t> {
  using type = int16_t;
  using sum = int32_t;
};
template <>
struct lane_product<int16_t> {
  static MT_FN sum_vector spread(const void* p) { return _mm256_broadcast_ss(static_cast<const float*>(p)); }
  static MT_FN sum_vector add(sum_vector s, sum_vector a, sum_vector b) {
    const __m256i pairs = _mm256_madd_epi16(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b));
    return reinterpret_cast<sum_vector>(_mm256_add_epi32(reinterpret_cast<__m256i>(s), pairs));
  }
};
#else
inline constexpr bool kBiasedInt8 = false;
template <>
struct packed_form<int8_t> {
  using type = int32_t;
  using sum = int32_t;
};
template <>
struct lane_product<int32_t> {
  static MT_FN sum_vector spread(const void* p) {
    const int8x32 v = int8x32{} + *static_cast<const int32_t*>(p);
    return reinterpret_cast<sum_vector>(v);
  }
  static MT_FN sum_vector add(sum_vector s, sum_vector a, sum_vector b) {
    return reinterpret_cast<sum_vector>(reinterpret_cast<int8x32>(s) +
                                        reinterpret_cast<int8x32>(a) * reinterpret_cast<int8x32>(b));
  }
};
#endif

/// Keeps a sum in its register: compilers otherwise rotate sums through registers, with a move each.
MT_FN void keep_sum(sum_vector& v) {
#if defined(__AVX512F__)
  asm("" : "+v"(v));
#elif defined(__AVX2__)
  asm("" : "+x"(v));
#else
  (void)v;
#endif
}

/// sums[r][0, kPanel) += a[r] . panel for R rows of a; `fresh` sums start at 0. Sums of a panel lie row after row.
template <class P, int R>
__attribute__((noinline)) void multiply_rows(const unsigned char* a, const unsigned char* b, int words, float* sums,
                                             bool fresh) {
  using Product = lane_product<P>;
  sum_vector s[R][kVectorsOfPanel];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectorsOfPanel; ++v)
      s[r][v] = fresh ? sum_vector{} : load_words(sums + r * kPanel + v * kLanesOfSum);
  }
  // The sums of the next rows are needed when this loop ends, and may lie in a far cache.
#pragma GCC unroll 32
  for (int i = 0; i < R * kPanel; i += 16) __builtin_prefetch(sums + R * kPanel + i, 1);
  for (int w = 0; w < words; ++w, a += kWordBytes, b += kPanel * kWordBytes) {
    sum_vector y[kVectorsOfPanel];
#pragma GCC unroll 2
    for (int v = 0; v < kVectorsOfPanel; ++v) y[v] = load_words(b + v * kLanesOfSum * kWordBytes);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      const sum_vector x = Product::spread(a + r * kRowBytes);
#pragma GCC unroll 2
      for (int v = 0; v < kVectorsOfPanel; ++v) {
        s[r][v] = Product::add(s[r][v], x, y[v]);
        keep_sum(s[r][v]);
      }
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectorsOfPanel; ++v) store_words(sums + r * kPanel + v * kLanesOfSum, s[r][v]);
  }
}

/// The same for any number of rows up to R.
template <class P, int R>
MT_FN void multiply_some_rows(int rows, const unsigned char* a, const unsigned char* b, int words, float* sums,
                              bool fresh) {
  if constexpr (R > 1) {
    if (rows < R) return multiply_some_rows<P, R - 1>(rows, a, b, words, sums, fresh);
  }
  multiply_rows<P, R>(a, b, words, sums, fresh);
}

#if defined(__AMX_TILE__)
/// Tile registers: 16 rows of 16 words. 32 x 32 sums in four of them.
inline constexpr int kTileRows = 16;
template <class P>
inline constexpr bool kTileRegisters = sizeof(P) < 4;

struct alignas(64) tile_shapes {
  unsigned char palette = 1, start_row = 0, reserved[14] = {};
  unsigned short row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  unsigned char rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
/// The registers are shaped while one of these lives, and given back at its end, so that no context switch saves them.
struct tile_registers {
  tile_registers() {
    static constexpr tile_shapes shapes;
    _tile_loadconfig(&shapes);
  }
  ~tile_registers() { _tile_release(); }
  tile_registers(const tile_registers&) = delete;
  tile_registers& operator=(const tile_registers&) = delete;
};

#define MT_TILE_PRODUCTS(instruction, tall)                                  \
  for (int w = 0; w < words; w += kChunkWords) {                             \
    const unsigned char* y = b + w * kPanel * kWordBytes;                    \
    _tile_loadd(6, y, kPanel* kWordBytes);                                   \
    _tile_loadd(7, y + 64, kPanel * kWordBytes);                             \
    _tile_loadd(4, a + w * kWordBytes, kRowBytes);                           \
    instruction(0, 4, 6);                                                    \
    instruction(1, 4, 7);                                                    \
    if constexpr (tall) {                                                    \
      _tile_loadd(5, a + w * kWordBytes + kTileRows * kRowBytes, kRowBytes); \
      instruction(2, 5, 6);                                                  \
      instruction(3, 5, 7);                                                  \
    }                                                                        \
  }

/// 16 or 32 rows of a times a panel.
template <class P, bool Tall>
__attribute__((noinline)) void multiply_tile_registers(const unsigned char* a, const unsigned char* b, int words,
                                                       float* sums, bool fresh) {
  constexpr int64_t row_bytes = kPanel * kWordBytes;
  float* const below = sums + kTileRows * kPanel;
  if (fresh) {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  } else {
    _tile_loadd(0, sums, row_bytes);
    _tile_loadd(1, sums + kLanesOfSum, row_bytes);
    if constexpr (Tall) {
      _tile_loadd(2, below, row_bytes);
      _tile_loadd(3, below + kLanesOfSum, row_bytes);
    }
  }
  if constexpr (sizeof(P) == 2) {
    MT_TILE_PRODUCTS(_tile_dpbf16ps, Tall)
  } else {
    MT_TILE_PRODUCTS(_tile_dpbssd, Tall)
  }
  _tile_stored(0, sums, row_bytes);
  _tile_stored(1, sums + kLanesOfSum, row_bytes);
  if constexpr (Tall) {
    _tile_stored(2, below, row_bytes);
    _tile_stored(3, below + kLanesOfSum, row_bytes);
  }
}
#undef MT_TILE_PRODUCTS
#else
template <class P>
inline constexpr bool kTileRegisters = false;
#endif

/// int8 operands of a carry an offset of 128 on this target.
template <class P>
inline constexpr bool kOffsetA = kBiasedInt8 && sizeof(P) == 1 && !kTileRegisters<P>;

/// sums[rows][kPanel] += a . panel.
template <class P>
MT_FN void multiply_panel(int rows, const unsigned char* a, const unsigned char* b, int words, float* sums,
                          bool fresh) {
#if defined(__AMX_TILE__)
  if constexpr (kTileRegisters<P>) {  // rows that do not exist are computed too: tiles have room for them
    const int whole = (words + kChunkWords - 1) / kChunkWords * kChunkWords;
    int r = 0;
    for (; r + kTileRows < rows; r += 2 * kTileRows)
      multiply_tile_registers<P, true>(a + r * kRowBytes, b, whole, sums + r * kPanel, fresh);
    if (r < rows) multiply_tile_registers<P, false>(a + r * kRowBytes, b, whole, sums + r * kPanel, fresh);
    return;
  }
#endif
  int r = 0;
  for (; r + kRowsAtOnce <= rows; r += kRowsAtOnce)
    multiply_rows<P, kRowsAtOnce>(a + r * kRowBytes, b, words, sums + r * kPanel, fresh);
  if (r < rows) multiply_some_rows<P, kRowsAtOnce - 1>(rows - r, a + r * kRowBytes, b, words, sums + r * kPanel, fresh);
}

/// Rows of a taken at once: what heights of tiles are rounded up to.
template <class P>
inline constexpr int kRowStep = kTileRegisters<P> ? 32 : kRowsAtOnce;
/// Products of words per clock, for sharing out work: two instructions, or one tile of 16 x 16 x 16 in 16 clocks.
template <class P>
inline constexpr int kWordsPerClock = kTileRegisters<P> ? 256 : 2 * kLanesOfSum;

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME
