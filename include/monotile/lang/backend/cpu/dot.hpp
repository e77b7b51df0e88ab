#pragma once
// Products of rows on CPU. A program takes `n_per_program` rows of b and `m_per_program` rows of a.
//   MT = 1: for few rows of a. Rows of b are streamed one after the other and unpacked in registers.
//   MT > 1: for many. 16 rows of b at a time are unpacked into a panel (one pass over 256 or 512 columns, in the
//           first-level cache) that all rows of a are multiplied with, four at a time.
// Either way the order of a sum depends on k alone. Activations in int8 blocks are multiplied as integers with AVX2;
// elsewhere they are turned back into fp32.

#include <algorithm>

#include "monotile/lang/backend/cpu/panels.hpp"
#include "monotile/lang/backend/cpu/tile.hpp"
#include "monotile/lang/backend/cpu/unpack.hpp"
#include "monotile/lang/quant.hpp"

namespace monotile::lang::inline MONOTILE_TARGET_NAME {

/// Rows [first_m, first_m + m) of a times rows [first_n, first_n + n) of b.
template <int MT>
struct dot_block {
  int64_t first_m, m, first_n, n, k;
};
/// Their dots in scratch, rows of a `stride` apart.
struct dot_sums {
  float* values;
  int64_t stride;
  MT_FN float* row(int64_t r) const { return values + r * stride; }
};

template <class L, int MT, class Shape>
MT_FN dot_block<MT> dot_block_of(const Context& ctx, const Shape& shape) {
  const int64_t m_blocks = (shape.m + shape.m_per_program - 1) / shape.m_per_program;
  const int64_t group = ctx.program / m_blocks;
  dot_block<MT> block;
  block.first_m = (ctx.program - group * m_blocks) * shape.m_per_program;
  block.m = std::min(shape.m_per_program, shape.m - block.first_m);
  block.first_n = group * shape.n_per_program;
  block.n = std::min(shape.n_per_program, shape.n - block.first_n);
  block.k = shape.k;
  return block;
}

// --- rows of b streamed ---------------------------------------------------------------------------------------------
#if defined(__AVX2__)
MT_FN __m256 as_m256(float8 v) { return reinterpret_cast<__m256>(v); }
MT_FN float8 as_float8(__m256 v) { return reinterpret_cast<float8>(v); }
MT_FN float sum_lanes(float8 v) {
  const __m256 a = as_m256(v);
  const __m128 q = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  const __m128 h = _mm_add_ps(q, _mm_movehl_ps(q, q));
  return _mm_cvtss_f32(_mm_add_ss(h, _mm_movehdup_ps(h)));
}
#else
MT_FN float sum_lanes(float8 v) { return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7])); }
#endif

/// Memory is asked for this far ahead. With one row after the other (so that addresses only rise) and 8 KB, q8_0 from
/// memory went from 8 to 34 GB/s on one core of a Zen 5 machine; four rows side by side defeat the hardware's own
/// prefetching.
inline constexpr int kAheadBytes = 8192;
/// Asks for the lines that lie kAheadBytes past [p, p + bytes).
template <int Bytes>
MT_FN void prefetch_ahead(const void* p) {
  for (int i = 0; i < Bytes; i += 64) __builtin_prefetch(static_cast<const char*>(p) + kAheadBytes + i);
}

/// The dot of row `row` of w and a.
template <class T>
MT_FN float stream_row(const view<const T>& w, int64_t row, const float* a, int64_t k) {
  const T* p = w.row(row);
  float8 sum[4] = {};
  int64_t c = 0;
  for (; c + 32 <= k; c += 32) {
    prefetch_ahead<32 * sizeof(T)>(p + c);
    for (int i = 0; i < 4; ++i) sum[i] += load8(p + c + 8 * i) * load8(a + c + 8 * i);
  }
  for (; c + 8 <= k; c += 8) sum[0] += load8(p + c) * load8(a + c);
  if (c < k) {
    const int count = static_cast<int>(k - c);
    sum[0] += load_pack_tail<8>(p + c, count, 0.0f).part[0] * load_pack_tail<8>(a + c, count, 0.0f).part[0];
  }
  return sum_lanes((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

template <DType Q>
MT_FN float stream_row(const quant_view<Q>& w, int64_t row, const float* a, int64_t k) {
  constexpr int kSubs = kSubBlocks<Q>;
  const uint8_t* p = w.row(row);
  float8 sum{};
  for (int64_t c = 0; c < k; c += 32 * kSubs, p += w.block_bytes) {
    prefetch_ahead<w.block_bytes>(p);
    for (int sub = 0; sub < kSubs; ++sub) {
      const float* x = a + c + 32 * sub;
      float8 v[4];
#if defined(__AVX2__)
      if constexpr (Q != DType::q4_k) {  // the scale once per sum instead of once per element
        unpacker<Q>::float_codes(p, sub, v);
        if constexpr (kSubs == 1) {
          sum += ((v[0] * load8(x) + v[1] * load8(x + 8)) + (v[2] * load8(x + 16) + v[3] * load8(x + 24))) *
                 as_float8(half_in_all(p));
        } else {
          const sub_scales s = unpacker<Q>::scales(p, sub);
          sum +=
              (v[0] * load8(x) + v[1] * load8(x + 8)) * s.low + (v[2] * load8(x + 16) + v[3] * load8(x + 24)) * s.high;
        }
        continue;
      }
#endif
      unpacker<Q>::values(p, sub, v);
      sum += (v[0] * load8(x) + v[1] * load8(x + 8)) + (v[2] * load8(x + 16) + v[3] * load8(x + 24));
    }
  }
  return sum_lanes(sum);
}

#if defined(__AVX2__)
/// One row of int8 activations, as the integer products read it.
struct int8_row {
  const int8_t* codes;
  const int16_t* wide;
  const float* scales;
  const int32_t* sums;
  const int16_t* half_sums;
};
MT_FN int8_row row_of_int8(const int8_rows& a, int64_t r) {
  return {a.codes(r), a.wide_codes(r), a.scales(r), a.sums(r), a.half_sums(r)};
}

/// One block of 32: sum + d * scale * (integer dot). The offset of unsigned codes is taken off the integers: offset /
/// 8 times the sum of the activations in each of eight lanes.
template <DType Q>
MT_FN __m256 add_block(__m256 sum, const uint8_t* block, const int8_row& a, int64_t b) {
  using U = unpacker<Q>;
  const __m256i ones = _mm256_set1_epi16(1), x = load32(a.codes + 32 * b), q = U::codes(block, 0);
  __m256i dot;
  if constexpr (U::kSigned) {  // |q| * (x with the sign of q); codes of x never are -128, so negation is exact
    dot = _mm256_madd_epi16(_mm256_maddubs_epi16(_mm256_abs_epi8(q), _mm256_sign_epi8(x, q)), ones);
  } else {
    const __m256i offset = _mm256_slli_epi32(_mm256_set1_epi32(a.sums[b]), U::kOffset == 16 ? 1 : 0);
    dot = _mm256_sub_epi32(_mm256_madd_epi16(_mm256_maddubs_epi16(q, x), ones), offset);
  }
  return _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot), _mm256_mul_ps(half_in_all(block), _mm256_broadcast_ss(a.scales + b)),
                         sum);
}
template <DType Q>
requires(kSubBlocks<Q> == 1) MT_FN float stream_row(const quant_view<Q>& w, int64_t row, const int8_row& a, int64_t k) {
  const uint8_t* p = w.row(row);
  __m256 even = _mm256_setzero_ps(), odd = even;
  int64_t b = 0;
  for (; b + 2 <= k / 32; b += 2, p += 2 * w.block_bytes) {
    prefetch_ahead<64>(p);
    even = add_block<Q>(even, p, a, b);
    odd = add_block<Q>(odd, p + w.block_bytes, a, b + 1);
  }
  if (b < k / 32) even = add_block<Q>(even, p, a, b);
  return sum_lanes(as_float8(_mm256_add_ps(even, odd)));
}

/// The 16-bit lane `index` of each 128-bit half, in all lanes of that half.
MT_FN __m256i spread16(__m256i v, int index) {
  return _mm256_shuffle_epi8(v, _mm256_set1_epi16(static_cast<short>((2 * index + 1) << 8 | 2 * index)));
}

/// Scales of sub-blocks are integers and join the integer product.
MT_FN float stream_row(const quant_view<DType::q4_k>& w, int64_t row, const int8_row& a, int64_t k) {
  const uint8_t* block = w.row(row);
  __m256 sum = _mm256_setzero_ps();
  for (int64_t b = 0; b < k / 256; ++b, block += w.block_bytes) {
    prefetch_ahead<w.block_bytes>(block);
    const int8_t* x = a.codes + 256 * b;
    const float* scale = a.scales + 8 * b;
    const __m128i packed = q4_k_scales(block);
    const __m256i scales = _mm256_broadcastsi128_si256(_mm_cvtepu8_epi16(packed));
    const __m256 minima = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_srli_si128(packed, 8)));
    __m256 part = _mm256_setzero_ps();
#pragma GCC unroll 4
    for (int pair = 0; pair < 4; ++pair) {
      const __m256i bytes = load32(block + 16 + 32 * pair);
      const __m256i even = _mm256_madd_epi16(_mm256_maddubs_epi16(low_nibbles(bytes), load32(x + 64 * pair)),
                                             spread16(scales, 2 * pair));
      const __m256i odd = _mm256_madd_epi16(_mm256_maddubs_epi16(high_nibbles(bytes), load32(x + 64 * pair + 32)),
                                            spread16(scales, 2 * pair + 1));
      part = _mm256_fmadd_ps(_mm256_cvtepi32_ps(even), _mm256_broadcast_ss(scale + 2 * pair), part);
      part = _mm256_fmadd_ps(_mm256_cvtepi32_ps(odd), _mm256_broadcast_ss(scale + 2 * pair + 1), part);
    }
    const __m256 scaled_sums = _mm256_mul_ps(_mm256_cvtepi32_ps(load32(a.sums + 8 * b)), _mm256_loadu_ps(scale));
    sum = _mm256_fmadd_ps(part, half_in_all(block), sum);
    sum = _mm256_fnmadd_ps(_mm256_mul_ps(minima, half_in_all(block + 2)), scaled_sums, sum);
  }
  return sum_lanes(as_float8(sum));
}

MT_FN float stream_row(const quant_view<DType::q6_k>& w, int64_t row, const int8_row& a, int64_t k) {
  const __m128i even_odd = _mm_set_epi8(15, 13, 11, 9, 7, 5, 3, 1, 14, 12, 10, 8, 6, 4, 2, 0);
  const __m256i pairs = _mm256_set1_epi8(0x30);
  const uint8_t* block = w.row(row);
  __m256 sum = _mm256_setzero_ps();
  for (int64_t b = 0; b < k / 256; ++b, block += w.block_bytes) {
    prefetch_ahead<w.block_bytes>(block);
    const int8_t* x = a.codes + 256 * b;
    const float* scale = a.scales + 8 * b;
    const __m128i packed = _mm_loadu_si128(reinterpret_cast<const __m128i*>(block + 192));
    // scales of first halves in the low 128 bits, of second halves in the high ones: what a product of 32 elements
    // wants
    const __m256i scales = _mm256_cvtepi8_epi16(_mm_shuffle_epi8(packed, even_odd));
    const __m256i offset =
        _mm256_slli_epi32(_mm256_madd_epi16(_mm256_cvtepi8_epi16(packed), load32(a.half_sums + 16 * b)), 5);
    __m256 part = _mm256_mul_ps(_mm256_cvtepi32_ps(offset), _mm256_sub_ps(_mm256_setzero_ps(), _mm256_loadu_ps(scale)));
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      const __m256i low0 = load32(block + 64 * half), low1 = load32(block + 64 * half + 32),
                    high = load32(block + 128 + 32 * half);
      const __m256i q[4] = {
          _mm256_or_si256(low_nibbles(low0), _mm256_and_si256(_mm256_slli_epi16(high, 4), pairs)),
          _mm256_or_si256(low_nibbles(low1), _mm256_and_si256(_mm256_slli_epi16(high, 2), pairs)),
          _mm256_or_si256(high_nibbles(low0), _mm256_and_si256(high, pairs)),
          _mm256_or_si256(high_nibbles(low1), _mm256_and_si256(_mm256_srli_epi16(high, 2), pairs)),
      };
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) {
        const int sub = 4 * half + j;
        const __m256i dot = _mm256_madd_epi16(_mm256_maddubs_epi16(q[j], load32(x + 32 * sub)), spread16(scales, sub));
        part = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot), _mm256_broadcast_ss(scale + sub), part);
      }
    }
    sum = _mm256_fmadd_ps(part, half_in_all(block + 208), sum);
  }
  return sum_lanes(as_float8(sum));
}
#endif

MT_FN const float* activation_row(const view<const float>& a, int64_t r) { return a.row(r); }
#if defined(__AVX2__)
MT_FN int8_row activation_row(const int8_rows& a, int64_t r) { return row_of_int8(a, r); }
#endif

/// Rows of b stay in the first-level cache for all rows of a: about 16 KB of them at a time.
template <int MT, class A, class W>
MT_FN void stream_block(const dot_block<MT>& block, const A& a, const W& w, const dot_sums& sums) {
  const int64_t row_bytes = reinterpret_cast<const char*>(w.row(1)) - reinterpret_cast<const char*>(w.row(0));
  const int64_t step = block.m == 1 ? block.n : std::max<int64_t>(1, 16384 / std::max<int64_t>(1, row_bytes));
  for (int64_t n = 0; n < block.n; n += step) {
    const int64_t end = std::min(n + step, block.n);
    for (int64_t r = 0; r < block.m; ++r) {
      const auto row = activation_row(a, block.first_m + r);
      float* out = sums.row(r);
      for (int64_t i = n; i < end; ++i) out[i] = stream_row(w, block.first_n + i, row, block.k);
    }
  }
}

// --- rows of b unpacked into panels ---------------------------------------------------------------------------------
inline constexpr int kPanelRows = 16;
// Rows of a at a time: 6 x 16 sums in twelve vector registers; integers need registers for their products too.
inline constexpr int kFloatRowsOfA = 6, kInt8RowsOfA = 4;
inline constexpr int64_t kFloatPanelCols = 256, kInt8PanelCols = 512;  // 16 KB either way

/// panel[col][row] of columns [first_col, first_col + cols) and 16 rows, those past `rows` 0.
template <class T>
MT_FN void pack_float_panel(const view<const T>& w, int64_t first, int64_t rows, int64_t first_col, int64_t cols,
                            float* panel) {
  for (int group = 0; group < kPanelRows; group += 8) {
    int64_t c = 0;
    for (; c < cols; c += 8) {
      const int count = static_cast<int>(std::min<int64_t>(8, cols - c));
      float8 v[8];
      for (int i = 0; i < 8; ++i) {
        if (group + i >= rows) {
          v[i] = float8{};
        } else {
          const T* p = w.row(first + group + i) + first_col + c;
          v[i] = count == 8 ? load8(p) : load_pack_tail<8>(p, count, 0.0f).part[0];
        }
      }
      transpose8(v);
      for (int i = 0; i < count; ++i) store8(panel + (c + i) * kPanelRows + group, v[i]);
    }
  }
}
template <DType Q>
MT_FN void pack_float_panel(const quant_view<Q>& w, int64_t first, int64_t rows, int64_t first_col, int64_t cols,
                            float* panel) {
  constexpr int kSubs = kSubBlocks<Q>;
  for (int group = 0; group < kPanelRows; group += 8) {
    for (int64_t c = 0; c < cols; c += 32) {
      const int64_t sub = (first_col + c) / 32;
      float8 v[8][4];
      for (int i = 0; i < 8; ++i) {
        if (group + i < rows) {
          unpacker<Q>::values(w.row(first + group + i) + sub / kSubs * w.block_bytes, static_cast<int>(sub % kSubs),
                              v[i]);
        } else {
          for (float8& part : v[i]) part = float8{};
        }
      }
      for (int part = 0; part < 4; ++part) {
        float8 t[8];
        for (int i = 0; i < 8; ++i) t[i] = v[i][part];
        transpose8(t);
        for (int i = 0; i < 8; ++i) store8(panel + (c + 8 * part + i) * kPanelRows + group, t[i]);
      }
    }
  }
}

/// sums[r][0..16) += a[r] . panel, R rows of a.
template <int R>
__attribute__((noinline)) void multiply_float_panel(const float* panel, int64_t cols,
                                                    const float* const (&a)[kFloatRowsOfA], float* sums,
                                                    int64_t stride) {
  float8 s[R][2];
  for (int r = 0; r < R; ++r) {
    s[r][0] = load8(sums + r * stride);
    s[r][1] = load8(sums + r * stride + 8);
  }
  for (int64_t c = 0; c < cols; ++c) {
    const float8 w0 = load8(panel + c * kPanelRows), w1 = load8(panel + c * kPanelRows + 8);
    for (int r = 0; r < R; ++r) {
      const float8 x = float8{} + a[r][c];
      s[r][0] += w0 * x;
      s[r][1] += w1 * x;
    }
  }
  for (int r = 0; r < R; ++r) {
    store8(sums + r * stride, s[r][0]);
    store8(sums + r * stride + 8, s[r][1]);
  }
}

/// Calls f(integral constant rows, first row) over m rows of a, Most at a time.
template <int Most, class F>
MT_FN void each_rows_of_a(int64_t m, F f, int64_t r = 0) {
  for (; r + Most <= m; r += Most) f(std::integral_constant<int, Most>{}, r);
  if constexpr (Most > 1) {
    if (r < m) each_rows_of_a<Most - 1>(m, f, r);
  }
}

template <int MT, class W>
MT_FN void panel_block(Context& ctx, const dot_block<MT>& block, const view<const float>& a, const W& w,
                       const dot_sums& sums) {
  float* panel = ctx.take<float>(kFloatPanelCols * kPanelRows);
  for (int64_t c = 0; c < block.k; c += kFloatPanelCols) {
    const int64_t cols = std::min(kFloatPanelCols, block.k - c);
    for (int64_t n = 0; n < block.n; n += kPanelRows) {
      pack_float_panel(w, block.first_n + n, block.n - n, c, cols, panel);
      each_rows_of_a<kFloatRowsOfA>(block.m, [&](auto rows, int64_t r) {
        const float* x[kFloatRowsOfA] = {};
        for (int i = 0; i < rows; ++i) x[i] = a.row(block.first_m + r + i) + c;
        multiply_float_panel<rows>(panel, cols, x, sums.row(r) + n, sums.stride);
      });
    }
  }
}

#if defined(__AVX2__)
/// 32 columns of 16 rows as 16-bit integers: pair[p][row] = columns 2p and 2p + 1 of the row, with a scale per row
/// (scales of halves and of q4_k's sub-blocks join the integers: at most 12 bits) and a minimum.
struct alignas(64) int16_block {
  int16_t pair[16][kPanelRows][2];
  float scale[kPanelRows];
  float minimum[kPanelRows];
};

template <DType Q>
MT_FN void pack_int16_panel(const quant_view<Q>& w, int64_t first, int64_t rows, int64_t first_col, int64_t cols,
                            int16_block* panel) {
  constexpr int kSubs = kSubBlocks<Q>;
  using U = unpacker<Q>;
  for (int64_t b = 0; b < cols / 32; ++b) {
    int16_block& to = panel[b];
    const int64_t sub_block = first_col / 32 + b;
    const int sub = static_cast<int>(sub_block % kSubs);
    for (int group = 0; group < kPanelRows; group += 8) {
      float8 low[8], high[8];
      for (int i = 0; i < 8; ++i) {
        if (group + i >= rows) {
          low[i] = high[i] = float8{};
          to.scale[group + i] = to.minimum[group + i] = 0.0f;
          continue;
        }
        const uint8_t* block = w.row(first + group + i) + sub_block / kSubs * w.block_bytes;
        const __m256i codes = U::signed_codes(block, sub);
        __m256i first16 = _mm256_cvtepi8_epi16(_mm256_castsi256_si128(codes)),
                last16 = _mm256_cvtepi8_epi16(_mm256_extracti128_si256(codes, 1));
        to.minimum[group + i] = 0.0f;
        if constexpr (Q == DType::q4_k) {
          const scale_minimum sm = q4_k_scale(block, sub);
          const __m256i scale = _mm256_set1_epi16(static_cast<short>(sm.scale));
          first16 = _mm256_mullo_epi16(first16, scale);
          last16 = _mm256_mullo_epi16(last16, scale);
          to.scale[group + i] = fast_half(block);
          to.minimum[group + i] = fast_half(block + 2) * static_cast<float>(sm.minimum);
        } else if constexpr (Q == DType::q6_k) {
          const int8_t* scales = reinterpret_cast<const int8_t*>(block + 192 + 2 * sub);
          first16 = _mm256_mullo_epi16(first16, _mm256_set1_epi16(scales[0]));
          last16 = _mm256_mullo_epi16(last16, _mm256_set1_epi16(scales[1]));
          to.scale[group + i] = fast_half(block + 208);
        } else {
          to.scale[group + i] = fast_half(block);
        }
        low[i] = reinterpret_cast<float8>(first16);
        high[i] = reinterpret_cast<float8>(last16);
      }
      transpose8(low);  // moves 32-bit words: pairs of columns
      transpose8(high);
      for (int i = 0; i < 8; ++i) {
        std::memcpy(to.pair[i][group], &low[i], 32);
        std::memcpy(to.pair[8 + i][group], &high[i], 32);
      }
    }
  }
}

/// Keeps a sum where it is: otherwise GCC rotates the sums through registers with a move each.
MT_FN void keep_in_register(__m256i& v) { asm("" : "+x"(v)); }

/// sums[r][0..16) += a[r] . panel, R rows of a; integers within a block of 32.
template <int R, bool Minimum>
__attribute__((noinline)) void multiply_int16_panel(const int16_block* panel, int64_t blocks,
                                                    const int8_row (&a)[kInt8RowsOfA], float* sums, int64_t stride) {
  for (int64_t b = 0; b < blocks; ++b) {
    const int16_block& w = panel[b];
    __m256i dot[R][2];
    const int16_t* codes[R];
    for (int r = 0; r < R; ++r) {
      dot[r][0] = dot[r][1] = _mm256_setzero_si256();
      codes[r] = a[r].wide + 32 * b;
    }
#pragma GCC unroll 16
    for (int p = 0; p < 16; ++p) {
      const __m256i w0 = load32(w.pair[p]), w1 = load32(w.pair[p][8]);
      for (int r = 0; r < R; ++r) {
        int32_t pair;
        std::memcpy(&pair, codes[r] + 2 * p, 4);
        const __m256i x = _mm256_set1_epi32(pair);
        dot[r][0] = _mm256_add_epi32(dot[r][0], _mm256_madd_epi16(w0, x));
        dot[r][1] = _mm256_add_epi32(dot[r][1], _mm256_madd_epi16(w1, x));
        keep_in_register(dot[r][0]);
        keep_in_register(dot[r][1]);
      }
    }
    for (int r = 0; r < R; ++r) {
      const __m256 scale = _mm256_broadcast_ss(a[r].scales + b);
      const __m256 total = _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_set1_epi32(Minimum ? a[r].sums[b] : 0)), scale);
      for (int half = 0; half < 2; ++half) {
        float* to = sums + r * stride + 8 * half;
        __m256 sum = _mm256_loadu_ps(to);
        sum = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot[r][half]),
                              _mm256_mul_ps(_mm256_load_ps(w.scale + 8 * half), scale), sum);
        if constexpr (Minimum) sum = _mm256_fnmadd_ps(_mm256_load_ps(w.minimum + 8 * half), total, sum);
        _mm256_storeu_ps(to, sum);
      }
    }
  }
}

template <int MT, DType Q>
MT_FN void panel_block(Context& ctx, const dot_block<MT>& block, const int8_rows& a, const quant_view<Q>& w,
                       const dot_sums& sums) {
  int16_block* panel = ctx.take<int16_block>(kInt8PanelCols / 32);
  for (int64_t c = 0; c < block.k; c += kInt8PanelCols) {
    const int64_t cols = std::min(kInt8PanelCols, block.k - c);
    for (int64_t n = 0; n < block.n; n += kPanelRows) {
      pack_int16_panel(w, block.first_n + n, block.n - n, c, cols, panel);
      each_rows_of_a<kInt8RowsOfA>(block.m, [&](auto rows, int64_t r) {
        int8_row x[kInt8RowsOfA] = {};
        for (int i = 0; i < rows; ++i) {
          x[i] = row_of_int8(a, block.first_m + r + i);
          x[i].wide += c;
          x[i].scales += c / 32;
          x[i].sums += c / 32;
        }
        multiply_int16_panel<rows, Q == DType::q4_k>(panel, cols / 32, x, sums.row(r) + n, sums.stride);
      });
    }
  }
}
#endif

// --- the words ------------------------------------------------------------------------------------------------------
template <int MT, class A, class W>
MT_FN dot_sums block_dots(Context& ctx, const dot_block<MT>& block, const A& a, const W& w) {
  const int64_t stride = (block.n + kPanelRows - 1) / kPanelRows * kPanelRows;
  const dot_sums sums{ctx.take<float>(block.m * stride), stride};
  if constexpr (MT == 1) {
    stream_block(block, a, w, sums);
  } else {
    std::memset(sums.values, 0, static_cast<size_t>(block.m * stride) * sizeof(float));
    panel_block(ctx, block, a, w, sums);
  }
  return sums;
}

template <int MT, class A, class W>
MT_FN dot_sums row_dots(Context& ctx, const dot_block<MT>& block, const A& a, const W& w) {
#if !defined(__AVX2__)
  if constexpr (std::is_same_v<A, int8_rows>) {  // no integer products: back to fp32, in scratch
    float* values = ctx.take<float>(block.m * block.k);
    for (int64_t r = 0; r < block.m; ++r) {
      const int8_t* codes = a.codes(block.first_m + r);
      const float* scales = a.scales(block.first_m + r);
      for (int64_t c = 0; c < block.k; ++c) values[r * block.k + c] = scales[c / 32] * static_cast<float>(codes[c]);
    }
    view<const float> rows;
    rows.data = values - block.first_m * block.k;
    rows.outer_stride = block.k;
    rows.cols = block.k;
    return block_dots(ctx, block, rows, w);
  } else {
    return block_dots(ctx, block, a, w);
  }
#else
  return block_dots(ctx, block, a, w);
#endif
}

/// f(pointer to element `offset`), in the type that it has.
template <class F>
MT_FN void with_elements(void* data, DType dtype, int64_t offset, F f) {
  if (dtype == DType::f32) return f(static_cast<float*>(data) + offset);
  if (dtype == DType::bf16) return f(static_cast<bfloat16_t*>(data) + offset);
  f(static_cast<half_t*>(data) + offset);
}
template <class T>
MT_FN void add_to(float* sums, const T* p, int64_t n) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) store8(sums + i, load8(sums + i) + load8(p + i));
  for (; i < n; ++i) sums[i] += promote(p[i]);
}

template <int MT>
MT_FN void add_columns(Context&, const dot_block<MT>& block, const dot_sums& sums, const any_vector& columns) {
  with_elements(const_cast<void*>(columns.data), columns.dtype, block.first_n, [&](auto* p) {
    for (int64_t r = 0; r < block.m; ++r) add_to(sums.row(r), p, block.n);
  });
}
template <int MT>
MT_FN void add_cells(Context&, const dot_block<MT>& block, const dot_sums& sums, const any_rows& cells) {
  with_elements(cells.data, cells.dtype, block.first_m * cells.stride + block.first_n, [&](auto* p) {
    for (int64_t r = 0; r < block.m; ++r) add_to(sums.row(r), p + r * cells.stride, block.n);
  });
}
template <int MT>
MT_FN void store_cells(Context&, const dot_block<MT>& block, const any_rows& to, const dot_sums& sums) {
  with_elements(to.data, to.dtype, block.first_m * to.stride + block.first_n, [&](auto* p) {
    using T = std::remove_reference_t<decltype(*p)>;
    for (int64_t r = 0; r < block.m; ++r) {
      const float* from = sums.row(r);
      int64_t i = 0;
      for (; i + 8 <= block.n; i += 8) store8(p + r * to.stride + i, load8(from + i));
      for (; i < block.n; ++i) p[r * to.stride + i] = from_float<T>(from[i]);
    }
  });
}

/// Rounds a row to int8 blocks. A block that holds NaN or infinity gets the scale NaN, so that it stays visible.
template <class T, class L>
MT_FN void store_int8_blocks(Context&, const int8_rows& to, const place<L>& at, const view<const T>& from) {
  const T* x = from.row(at.row);
  int8_t* codes = to.codes(at.row);
  int16_t* wide = to.wide_codes(at.row);
  for (int64_t b = 0; b < at.cols / 32; ++b) {
    float8 v[4];
    int8x32 largest{};  // bits of |x|: as integers they order like the values, and NaN is the largest
    for (int i = 0; i < 4; ++i) {
      v[i] = load8(x + 32 * b + 8 * i);
      int8x32 bits;
      std::memcpy(&bits, &v[i], 32);
      bits &= 0x7fffffff;
      largest = bits > largest ? bits : largest;
    }
    int32_t most_bits = 0;
    for (int i = 0; i < 8; ++i) most_bits = std::max(most_bits, largest[i]);
    float most;
    std::memcpy(&most, &most_bits, 4);
    const float inverse = most > 0x1p-110f ? 127.0f / most : 0.0f;  // below, the quotient could be infinite
    int32_t sums[2] = {0, 0};
    for (int i = 0; i < 4; ++i) {
      float8 scaled = v[i] * inverse;
      scaled = scaled < 127.0f ? scaled : float8{} + 127.0f;
      scaled = scaled > -127.0f ? scaled : float8{} - 127.0f;
      const float8 rounded =
          (scaled + 12582912.0f) - 12582912.0f;  // 1.5 * 2^23: to the nearest integer, halves to even
      const int8x32 code = __builtin_convertvector(rounded, int8x32);
      for (int e = 0; e < 8; ++e) {
        codes[32 * b + 8 * i + e] = static_cast<int8_t>(code[e]);
        wide[32 * b + 8 * i + e] = static_cast<int16_t>(code[e]);
        sums[i / 2] += code[e];
      }
    }
    to.scales(at.row)[b] = most / 127.0f + (most - most);
    to.sums(at.row)[b] = sums[0] + sums[1];
    to.half_sums(at.row)[2 * b] = static_cast<int16_t>(sums[0]);
    to.half_sums(at.row)[2 * b + 1] = static_cast<int16_t>(sums[1]);
  }
}

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME
