#pragma once
// Products of few rows with GGUF blocks by mma.sync. Codes are whole numbers that 16-bit floats hold exactly, so the weights are operand a of an
// instruction without their scales, which multiply its fp32 sums: nothing is rounded that row_dots by lanes would not round. A wave copies its stretches of 16 rows
// into shared memory by itself, ahead of use; the waves of a program meet once, at the end.
//
// Instructions of 16 elements along k may take them in any order, if both operands agree: lane 4 g + t has elements 4 t to 4 t + 3 of each 16, which are a
// word of codes, for nibbles and bytes alike. Words are brought into the order 0, 2, 1, 3 as they are read: then two masks cut the pairs (0, 1) and (2, 3) out
// of them, which is how activations lie.

#include "monotile/lang/backend/simt/dot.hpp"
#include "monotile/lang/block_rows.hpp"

namespace monotile::lang::inline MONOTILE_TARGET_NAME {

/// What a program has of a product: rows [first_n, first_n + 16) of b that exist, rows [first_m, first_m + m) of a.
struct block_rows_place {
  int64_t first_n, n, first_m, k;
  int m;
};
/// The dot of row lane % 16 of b and row lane / 16 of a, for the first 128 lanes of a program.
struct block_rows_sums {
  float of[kLanes];
};

template <class L, int MT, class Shape>
requires(__is_same(L, block_rows)) MT_FN block_rows_place dot_block_of(const Context& ctx, const Shape& shape) {
  static_assert(MT == block_rows::rows_of_a, "the columns of an instruction");
  const int64_t blocks = (shape.m + MT - 1) / MT, group = ctx.program / blocks, first_m = (ctx.program - group * blocks) * MT;
  return {group * block_rows::rows, shape.n, first_m, shape.k, static_cast<int>(shape.m - first_m < MT ? shape.m - first_m : MT)};
}

// --- codes as 16-bit floats -----------------------------------------------------------------------------------------
/// The float under whose last bits a code may be put: 128 or 1024, one per unit.
template <class T>
inline constexpr uint32_t kUnder = dtype_of<T> == DType::bf16 ? 0x4300u : 0x6400u;
MT_FN constexpr uint32_t twice(uint32_t half) { return half << 16 | half; }

/// Codes of up to seven bits, one in the last bits of each byte under `Mask`, minus `Bias`, as two pairs.
template <class T, uint32_t Mask, uint32_t Bias>
MT_FN void values_of_codes(uint32_t (&pairs)[2], uint32_t codes) {
  MT_UNROLL
  for (int i = 0; i < 2; ++i)
    pairs[i] = subtract_pairs<T>(mask_and_set(codes >> (8 * i), twice(Mask), twice(kUnder<T>)), twice(kUnder<T> + Bias));
}
/// Signed bytes. bf16 has a bit too few: the lower seven bits and the sign are put under a float each, and the second is 128 more with the sign.
template <class T>
MT_FN void values_of_bytes(uint32_t (&pairs)[2], uint32_t bytes) {
  MT_UNROLL
  for (int i = 0; i < 2; ++i) {
    if constexpr (dtype_of<T> == DType::bf16) {
      const uint32_t w = bytes >> (8 * i);
      pairs[i] = subtract_pairs<T>(mask_and_set(w, twice(0x7f), twice(kUnder<T>)), mask_and_set(w, twice(0x80), twice(kUnder<T>)));
    } else {
      pairs[i] = subtract_pairs<T>(select_bytes(bytes ^ 0x80808080u, kUnder<T> >> 8, i == 0 ? 0x4240 : 0x4341),
                                   twice(kUnder<T> + 128));
    }
  }
}
/// Byte i as a float.
MT_FN float float_of_byte(uint32_t word, int i) {
  return __builtin_bit_cast(float, select_bytes(word, 0x4b000000u, 0x7440u + static_cast<uint32_t>(i))) - 8388608.0f;
}
/// The last four bits as bit 4 of a byte each, in the order of codes.
MT_FN uint32_t spread_bits(uint32_t bits) { return (bits & 15u) * 0x02080410u & 0x10101010u; }

// --- reads of shared memory -----------------------------------------------------------------------------------------
MT_FN uint32_t word_of(const unsigned char* p) { return shared(reinterpret_cast<const uint32_t*>(p)); }
MT_FN uint32_t half_word_of(const unsigned char* p) { return shared(reinterpret_cast<const uint16_t*>(p)); }
MT_FN float half_of(const unsigned char* p) { return promote(half_t{static_cast<uint16_t>(half_word_of(p))}); }
/// Two half words at an even address; `odd`: it is no multiple of four.
MT_FN uint32_t word_at(const unsigned char* p, bool odd) {
  return odd ? select_bytes(word_of(p - 2), word_of(p + 2), 0x5432) : word_of(p);
}
/// Four bytes there in the order 0, 2, 1, 3.
MT_FN uint32_t codes_at(const unsigned char* p, bool odd) {
  return odd ? select_bytes(word_of(p - 2), word_of(p + 2), 0x5342) : select_bytes(word_of(p), 0, 0x3120);
}

/// Operand a of the two halves of a block of 32.
using block_operand = uint32_t[2][4][kLanes];
MT_FN void put_pairs(block_operand& a, int half, int row, int l, const uint32_t (&pairs)[2]) {
  a[half][row][l] = pairs[0];
  a[half][2 + row][l] = pairs[1];
}

/// The codes of block b of a stretch: its row `row` (0 or 1 of a lane's two) at `from`. `odd`: the stretch does not start on four bytes.
template <DType Q, class T>
MT_FN void read_codes(block_operand& a, int row, int l, const unsigned char* from, int b, int t, bool odd) {
  constexpr DTypeInfo info = dtype_info(Q);
  uint32_t pairs[2];
  const auto put = [&](int half) { put_pairs(a, half, row, l, pairs); };
  if constexpr (Q == DType::q8_0) {
    const int at = info.block_bytes * b + 2;
    MT_UNROLL
    for (int half = 0; half < 2; ++half) values_of_bytes<T>(pairs, codes_at(from + at + 16 * half + 4 * t, at % 4 != 0)), put(half);
  } else if constexpr (Q == DType::q4_0) {
    const int at = info.block_bytes * b + 2;
    const uint32_t w = codes_at(from + at + 4 * t, at % 4 != 0);
    MT_UNROLL
    for (int half = 0; half < 2; ++half) values_of_codes<T, 15, 8>(pairs, w >> (4 * half)), put(half);
  } else if constexpr (Q == DType::q5_0) {
    const int at = info.block_bytes * b;
    const uint32_t w = codes_at(from + at + 6 + 4 * t, (at + 6) % 4 != 0),
                   high = word_at(from + at + 2, (at + 2) % 4 != 0) >> (4 * t);
    MT_UNROLL
    for (int half = 0; half < 2; ++half)
      values_of_codes<T, 31, 16>(pairs, mask_and_set(w >> (4 * half), 0x0f0f0f0fu, spread_bits(high >> (16 * half)))), put(half);
  } else if constexpr (Q == DType::q4_k) {
    MT_UNROLL
    for (int half = 0; half < 2; ++half)
      values_of_codes<T, 15, 0>(pairs, codes_at(from + 16 + b / 2 * 32 + 16 * half + 4 * t, false) >> (4 * (b % 2))), put(half);
  } else {
    static_assert(Q == DType::q6_k, "a GGUF block type");
    const int of_128 = b / 4, quarter = b % 4;
    MT_UNROLL
    for (int half = 0; half < 2; ++half) {
      const uint32_t low = codes_at(from + 64 * of_128 + 32 * (quarter % 2) + 16 * half + 4 * t, odd),
                     high = codes_at(from + 128 + 32 * of_128 + 16 * half + 4 * t, odd);
      values_of_codes<T, 63, 32>(
          pairs, mask_and_set(low >> (4 * (quarter / 2)), 0x0f0f0f0fu,
                              (quarter < 2 ? high << (4 - 2 * quarter) : high >> (2 * quarter - 4)) & 0x30303030u));
      put(half);
    }
  }
}

/// Activations of four blocks: of row g of a, for each half of a block the two words of operand b.
struct block_activations {
  uint32_t pair[4][2][2][kLanes];
};

/// What a wave works on.
template <DType Q, class T>
struct block_wave {
  const view<const T>& a;
  const unsigned char* weights[2][kLanes];  ///< rows g and g + 8, from chunk t on
  const T* row_of_a[kLanes];                ///< from element 4 t on; where there is no row g, another: nobody stores its sums
  int64_t payload;                          ///< bytes of a row
  int k;
  copy_queue copies;
};

/// Elements [first, first + 128) of the lane's row; what does not exist is 0.
template <DType Q, class T>
MT_FN void load_blocks_of_a(Context& ctx, block_activations& x, const block_wave<Q, T>& wave, int first) {
  const bool whole = wave.a.vectors && first + 128 <= wave.k;
  for (int l = 0; l < kLanes; ++l) {
    MT_TURN_OF(l);
    const T* const row = wave.row_of_a[l] + first;
    if (whole) {
      MT_UNROLL
      for (int i = 0; i < 8; ++i) {
        const vector8 v = load8(row + 16 * i);
        x.pair[i / 2][i % 2][0][l] = v.word[0];
        x.pair[i / 2][i % 2][1][l] = v.word[1];
      }
    } else {
      const int left = wave.k - first - 4 * (ctx.thread(l) % 4);
      MT_UNROLL
      for (int i = 0; i < 16; ++i) {
        const int e = i / 2 * 16 + i % 2 * 2;
        const uint32_t low = e < left ? MT_READ_AT(row + e)->bits : 0u, high = e + 1 < left ? MT_READ_AT(row + e + 1)->bits : 0u;
        x.pair[i / 4][i / 2 % 2][i % 2][l] = low | high << 16;
      }
    }
  }
}

/// Queues copies of stretch `stretch` of the wave's rows. Four lanes share two rows, chunk by chunk; what does not exist becomes 0.
template <DType Q, class T>
MT_FN void copy_stretch(Context& ctx, unsigned char* stage, block_wave<Q, T>& wave, int stretch) {
  constexpr int kBytes = block_rows::stretch_bytes(Q), kPitch = block_rows::pitch(Q);
  constexpr int kCopied = (kBytes + (kBytes % 16 == 0 ? 0 : 14) + 15) / 16;  // with up to 14 bytes that come before
  const int64_t start = static_cast<int64_t>(stretch) * kBytes / 16 * 16, left = wave.payload - start;
  const auto each_chunk = [&](auto bytes_from) {
    MT_UNROLL
    for (int j = 0; j < (kCopied + 3) / 4; ++j) {
      MT_UNROLL
      for (int row = 0; row < 2; ++row) {
        for (int l = 0; l < kLanes; ++l) {
          const int lane = ctx.thread(l) % kWave, r = lane / 4 + 8 * row, chunk = lane % 4 + 4 * j;
          if (4 * j + 3 >= kCopied && chunk >= kCopied) continue;
          const int bytes = bytes_from(16 * chunk);
          wave.copies.add(stage + r * kPitch + 16 * chunk, wave.weights[row][l] + (bytes != 0 ? start + 64 * j : 0), bytes, l, r, 0);
        }
      }
    }
  };
  if (left >= kCopied * 16) {
    each_chunk([](int) { return 16; });
  } else {
    each_chunk([&](int at) { return static_cast<int>(left - at < 0 ? 0 : left - at < 16 ? left - at : 16); });
  }
}

/// What half a stretch has beside its codes, and the stretch's sums where they are multiplied by a scale of all of it.
template <DType Q>
struct stretch_scales {
  uint32_t scales[2][kLanes], minima[2][kLanes];  ///< q4_k: of the lane's two rows, a byte for each block
  float sums[4][kLanes] = {}, below[4][kLanes] = {};
};
template <DType Q>
MT_FN void read_scales(stretch_scales<Q>& s, const unsigned char* const (&rows)[2][kLanes], int first) {
  if constexpr (Q == DType::q4_k) {
    for (int l = 0; l < kLanes; ++l) {
      MT_UNROLL
      for (int row = 0; row < 2; ++row) {
        const uint32_t w0 = word_of(rows[row][l] + 4), w1 = word_of(rows[row][l] + 8), w2 = word_of(rows[row][l] + 12);
        s.scales[row][l] = first == 0 ? w0 & 0x3f3f3f3fu : mask_and_set(w2, 0x0f0f0f0fu, w0 >> 2 & 0x30303030u);
        s.minima[row][l] = first == 0 ? w1 & 0x3f3f3f3fu : mask_and_set(w2 >> 4, 0x0f0f0f0fu, w1 >> 2 & 0x30303030u);
      }
    }
  }
}

/// Four blocks of a stretch, from `first` (0 or 4) on.
template <DType Q, class T>
MT_FN void add_four_blocks(Context& ctx, float (&sums)[4][kLanes], stretch_scales<Q>& s, const unsigned char* const (&rows)[2][kLanes],
                           const block_activations& x, int first, bool odd) {
  read_scales(s, rows, first);
  MT_UNROLL
  for (int j = 0; j < 4; ++j) {
    const int b = first + j;
    block_operand a;
    for (int l = 0; l < kLanes; ++l) {
      MT_UNROLL
      for (int row = 0; row < 2; ++row) read_codes<Q, T>(a, row, l, rows[row][l], b, ctx.thread(l) % 4, odd);
    }
    float d[2][4][kLanes] = {};
    if constexpr (Q == DType::q6_k) {  // a scale for each half
      matrix_unit::multiply<T>(d[0], a[0], x.pair[j][0]);
      matrix_unit::multiply<T>(d[1], a[1], x.pair[j][1]);
    } else {
      matrix_unit::multiply<T>(d[0], a[0], x.pair[j][0]);
      matrix_unit::multiply<T>(d[0], a[1], x.pair[j][1]);
    }
    if constexpr (Q == DType::q4_k) {
      // The minima are whole numbers, too: as an operand that is the same along k they add up over all blocks by themselves.
      uint32_t m[4][kLanes];
      for (int l = 0; l < kLanes; ++l) {
        MT_UNROLL
        for (int row = 0; row < 2; ++row) {
          m[row][l] = m[2 + row][l] = subtract_pairs<T>(
              select_bytes(s.minima[row][l], kUnder<T> >> 8, 0x4040u + 0x0101u * static_cast<uint32_t>(b % 4)), twice(kUnder<T>));
        }
      }
      matrix_unit::multiply<T>(s.below, m, x.pair[j][0]);
      matrix_unit::multiply<T>(s.below, m, x.pair[j][1]);
    }
    for (int l = 0; l < kLanes; ++l) {
      MT_UNROLL
      for (int row = 0; row < 2; ++row) {
        float scale[2];
        if constexpr (Q == DType::q4_k) {
          scale[0] = float_of_byte(s.scales[row][l], b % 4);
        } else if constexpr (Q == DType::q6_k) {
          const uint32_t both = half_word_of(rows[row][l] + 192 + 2 * b) ^ 0x8080u;
          scale[0] = float_of_byte(both, 0) - 128.0f;
          scale[1] = float_of_byte(both, 1) - 128.0f;
        } else {
          scale[0] = half_of(rows[row][l] + dtype_info(Q).block_bytes * b);
        }
        MT_UNROLL
        for (int e = 2 * row; e < 2 * row + 2; ++e) {
          if constexpr (Q == DType::q4_k) {
            s.sums[e][l] = fma_of(scale[0], d[0][e][l], s.sums[e][l]);
          } else if constexpr (Q == DType::q6_k) {
            s.sums[e][l] = fma_of(scale[1], d[1][e][l], fma_of(scale[0], d[0][e][l], s.sums[e][l]));
          } else {
            sums[e][l] = fma_of(scale[0], d[0][e][l], sums[e][l]);
          }
        }
      }
    }
  }
}
template <DType Q>
MT_FN void close_stretch(float (&sums)[4][kLanes], const stretch_scales<Q>& s, const unsigned char* const (&rows)[2][kLanes]) {
  if constexpr (Q == DType::q4_k || Q == DType::q6_k) {
    for (int l = 0; l < kLanes; ++l) {
      MT_UNROLL
      for (int e = 0; e < 4; ++e) {
        const unsigned char* const block = rows[e / 2][l];
        if constexpr (Q == DType::q4_k) sums[e][l] = fma_of(-half_of(block + 2), s.below[e][l], sums[e][l]);
        sums[e][l] = fma_of(half_of(block + (Q == DType::q4_k ? 0 : 208)), s.sums[e][l], sums[e][l]);
      }
    }
  }
}

static_assert(block_rows::lanes >= block_rows::rows * block_rows::rows_of_a, "a lane for each sum");

/// The dots of a program's rows: each wave adds up its stretches in order, and then the waves' sums are.
template <class T, DType Q>
MT_FN block_rows_sums row_dots(Context& ctx, const block_rows_place& block, const view<const T>& a, const quant_view<Q>& w) {
  constexpr int kPitch = block_rows::pitch(Q), kStage = block_rows::rows * kPitch, kWaves = block_rows::waves;
  constexpr int kBytes = block_rows::stretch_bytes(Q);
  const int number = wave_number(ctx);
  unsigned char* const own = ctx.scratch + number * block_rows::stages * kStage;

  block_wave<Q, T> wave{a, {}, {}, block.k / quant_view<Q>::block_elements * quant_view<Q>::block_bytes, static_cast<int>(block.k), {}};
  for (int l = 0; l < kLanes; ++l) {
    const int lane = ctx.thread(l) % kWave, g = lane / 4;
    MT_UNROLL
    for (int row = 0; row < 2; ++row) {
      const int64_t n = block.first_n + g + 8 * row;  // rows that do not exist are copies of the last one; nobody stores their sums
      wave.weights[row][l] = w.row(n < block.n ? n : block.n - 1) + 16 * (lane % 4);
    }
    wave.row_of_a[l] = a.row(block.first_m + (g < block.m ? g : 0)) + 4 * (lane % 4);
  }

  float sums[4][kLanes];
  for (int l = 0; l < kLanes; ++l) {
    MT_UNROLL
    for (int e = 0; e < 4; ++e) sums[e][l] = 0.0f;
  }
  const int stretches = (wave.k + block_rows::stretch - 1) / block_rows::stretch;
  MT_UNROLL
  for (int i = 0; i < block_rows::stages; ++i) {
    if (number + i * kWaves < stretches) copy_stretch(ctx, own + i * kStage, wave, number + i * kWaves);
    wave.copies.close_group();
  }
  int stage = 0;
  MT_NO_UNROLL
  for (int at = number; at < stretches; at += kWaves) {
    block_activations x[2];
    const auto load_half = [&](int half) { load_blocks_of_a(ctx, x[half], wave, at * block_rows::stretch + 128 * half); };
    load_half(0);
    wave.copies.template wait<block_rows::stages - 1>();
    wave_sync();
    constexpr bool kAhead = Q != DType::q4_k;  // whose minima leave no registers for it
    if constexpr (kAhead) load_half(1);
    const int phase = kBytes % 16 == 0 ? 0 : at * (kBytes % 16) % 16;
    const unsigned char* rows[2][kLanes];
    for (int l = 0; l < kLanes; ++l) {
      rows[0][l] = own + stage * kStage + ctx.thread(l) % kWave / 4 * kPitch + phase;
      rows[1][l] = rows[0][l] + 8 * kPitch;
    }
    const auto add = [&](bool odd) {
      stretch_scales<Q> scales;
      add_four_blocks<Q, T>(ctx, sums, scales, rows, x[0], 0, odd);
      if constexpr (!kAhead) load_half(1);
      add_four_blocks<Q, T>(ctx, sums, scales, rows, x[1], 4, odd);
      close_stretch(sums, scales, rows);
    };
    if (kBytes % 4 != 0 && phase % 4 != 0) {
      add(true);
    } else {
      add(false);
    }
    wave_sync();  // all lanes have read
    if (at + block_rows::stages * kWaves < stretches)
      copy_stretch(ctx, own + stage * kStage, wave, at + block_rows::stages * kWaves);
    wave.copies.close_group();
    stage = stage + 1 == block_rows::stages ? 0 : stage + 1;
  }

  // The waves' sums in their order, whatever the number of stretches.
  for (int l = 0; l < kLanes; ++l) {
    MT_UNROLL
    for (int e = 0; e < 4; ++e) {
      const coordinate c = mma_m16n8k16::c(ctx.thread(l) % kWave, e);
      share(reinterpret_cast<float*>(own) + c.col * block_rows::rows + c.row, sums[e][l]);
    }
  }
  ctx.barrier();
  block_rows_sums total;
  for (int l = 0; l < kLanes; ++l) {
    total.of[l] = 0.0f;
    const int cell = ctx.thread(l);
    if (cell >= block_rows::rows * block_rows::rows_of_a) continue;
    MT_UNROLL
    for (int i = 0; i < kWaves; ++i)
      total.of[l] += shared(reinterpret_cast<const float*>(ctx.scratch + i * block_rows::stages * kStage) + cell);
  }
  return total;
}

template <class F>
MT_FN void each_dot(const Context& ctx, const block_rows_place& block, block_rows_sums& sums, F f) {
  for (int l = 0; l < kLanes; ++l) {
    const int cell = ctx.thread(l), m = cell / block_rows::rows;
    const int64_t n = block.first_n + cell % block_rows::rows;
    if (m < block.m && n < block.n) f(block.first_m + m, n, sums.of[l]);
  }
}

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME
