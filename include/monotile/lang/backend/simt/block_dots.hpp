#pragma once
// Products of few rows with GGUF blocks by mma.sync. Codes are whole numbers that 16-bit floats hold exactly, so the weights are operand a of an
// instruction without their scales, which multiply its fp32 sums: nothing is rounded that row_dots by lanes would not round.
//
// A wave keeps a stretch of 256 elements along k, with its activations in registers as operand b, and goes down the rows of b: it copies stretches of 16 rows
// into shared memory by itself, some of them ahead of use. Programs stay and take every n-th group of 16 rows; their waves meet once for eight groups (of one
// row of a), to add up what each has.
//
// Instructions of 16 elements along k may take them in any order, if both operands agree: lane 4 g + t has elements 4 t to 4 t + 3 of each 16, which are a
// word of codes, for nibbles and bytes alike. Two masks cut the pairs (0, 2) and (1, 3) out of a word, so activations are put in pairs like that, once for many
// rows of b.
//
// An instruction has eight columns. Eight rows of a take one each. A single row takes all: each block of a stretch has a column of its own (operand b is 0 in
// the others), so that a lane has four sums with four scales, where it would have two useful ones of every block. What is added to what is the same.

#include "monotile/lang/backend/simt/dot.hpp"
#include "monotile/lang/block_rows.hpp"

namespace monotile::lang::inline MONOTILE_TARGET_NAME {

/// Groups of 16 rows of b whose dots a program has at one time: number `first_group` and every `step`th one after it, with rows [first_m, first_m + m) of a.
/// A lane has cell `cell[l]` of them: a row of b, then a row of a, then the group.
struct block_rows_place {
  int first_group, step, groups, columns;
  int64_t n, first_m;
  int m;
  int cell[kLanes];
};
struct block_rows_sums {
  float of[kLanes];
};

// --- codes as 16-bit floats -----------------------------------------------------------------------------------------
/// The float under whose last bits a code may be put: 128 or 1024, one per unit.
template <class T>
inline constexpr uint32_t kUnder = dtype_of<T> == DType::bf16 ? 0x4300u : 0x6400u;
MT_FN constexpr uint32_t twice(uint32_t half) { return half << 16 | half; }

/// Codes of up to seven bits, one in the last bits of each byte under `Mask`, minus `Bias`: the pairs (0, 2) and (1, 3).
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
/// The last four bits as bit 4 of a byte each.
MT_FN uint32_t spread_bits(uint32_t bits) { return (bits & 15u) * 0x02040810u & 0x10101010u; }

// --- reads of shared memory -----------------------------------------------------------------------------------------
MT_FN uint32_t word_of(const unsigned char* p) { return shared(reinterpret_cast<const uint32_t*>(p)); }
MT_FN uint32_t half_word_of(const unsigned char* p) { return shared(reinterpret_cast<const uint16_t*>(p)); }
MT_FN float half_of(const unsigned char* p) { return promote(half_t{static_cast<uint16_t>(half_word_of(p))}); }
/// A word at an even address; `odd`: it is no multiple of four.
MT_FN uint32_t word_at(const unsigned char* p, bool odd) {
  return odd ? select_bytes(word_of(p - 2), word_of(p + 2), 0x5432) : word_of(p);
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
    for (int half = 0; half < 2; ++half) values_of_bytes<T>(pairs, word_at(from + at + 16 * half + 4 * t, at % 4 != 0)), put(half);
  } else if constexpr (Q == DType::q4_0) {
    const int at = info.block_bytes * b + 2;
    const uint32_t w = word_at(from + at + 4 * t, at % 4 != 0);
    MT_UNROLL
    for (int half = 0; half < 2; ++half) values_of_codes<T, 15, 8>(pairs, w >> (4 * half)), put(half);
  } else if constexpr (Q == DType::q5_0) {
    const int at = info.block_bytes * b;
    const uint32_t w = word_at(from + at + 6 + 4 * t, (at + 6) % 4 != 0),
                   high = word_at(from + at + 2, (at + 2) % 4 != 0) >> (4 * t);
    MT_UNROLL
    for (int half = 0; half < 2; ++half)
      values_of_codes<T, 31, 16>(pairs, mask_and_set(w >> (4 * half), 0x0f0f0f0fu, spread_bits(high >> (16 * half)))), put(half);
  } else if constexpr (Q == DType::q4_k) {
    MT_UNROLL
    for (int half = 0; half < 2; ++half)
      values_of_codes<T, 15, 0>(pairs, word_at(from + 16 + b / 2 * 32 + 16 * half + 4 * t, false) >> (4 * (b % 2))), put(half);
  } else {
    static_assert(Q == DType::q6_k, "a GGUF block type");
    const int of_128 = b / 4, quarter = b % 4;
    MT_UNROLL
    for (int half = 0; half < 2; ++half) {
      const uint32_t low = word_at(from + 64 * of_128 + 32 * (quarter % 2) + 16 * half + 4 * t, odd),
                     high = word_at(from + 128 + 32 * of_128 + 16 * half + 4 * t, odd);
      values_of_codes<T, 63, 32>(
          pairs, mask_and_set(low >> (4 * (quarter / 2)), 0x0f0f0f0fu,
                              (quarter < 2 ? high << (4 - 2 * quarter) : high >> (2 * quarter - 4)) & 0x30303030u));
      put(half);
    }
  }
}

// --- what a wave does ------------------------------------------------------------------------------------------------
/// Operand b for blocks of a stretch: of each half of them the two words of a lane.
template <int Blocks>
struct block_activations {
  uint32_t pair[Blocks][2][2][kLanes];
};
/// How many blocks' activations a lane keeps. Eight rows of them and q4_k's minima would not fit into registers: loaded again for each 16 rows of b.
template <DType Q, int Columns>
inline constexpr int kept_blocks = Q == DType::q4_k && Columns > 1 ? 4 : 8;

/// The next stretch of a wave: blocks of rows of a, then chunks of groups that are added up together, then stretches, then groups.
struct block_walk {
  int first_m, first, end, group, at;  ///< groups [first, end) of a program's own
};

/// What a wave works on.
template <DType Q, class T, int Columns>
struct block_wave {
  static constexpr int rounds = block_rows::rows_of_a / Columns;  ///< groups of a team in a chunk
  const view<const T>& a;
  const quant_view<Q>& w;
  int64_t payload;  ///< bytes of a row of b
  int m, k, last_row, stretches;
  int groups, step, first_group;      ///< of the program, and which: first_group + i step
  int apart, team, teams, first;      ///< waves of a team have every `apart`th stretch from `first` on; teams take groups in turns
  copy_queue copies;

  MT_FN int chunk() const { return rounds * teams; }
  MT_FN void enter(block_walk& it) const {
    it.end = it.first + chunk() < groups ? it.first + chunk() : groups;
    it.group = it.first + team, it.at = first;
  }
  /// False when there is none.
  MT_FN bool find(block_walk& it) const {
    while (it.first_m < m) {
      if (it.group < it.end && it.at < stretches) return true;
      it.at += apart, it.group = it.first + team;
      if (it.at < stretches && it.group < it.end) return true;
      it.first += chunk();
      if (it.first >= groups) it.first = 0, it.first_m += Columns;
      enter(it);
    }
    return false;
  }
};

/// Activations of stretch `at` of rows [first_m, first_m + Columns) of a, from block `from` on. What does not exist is 0; where there is no row, another:
/// nobody stores its sums.
template <int Columns, int Blocks, DType Q, class T>
MT_FN void load_activations(Context& ctx, block_activations<Blocks>& x, const block_wave<Q, T, Columns>& wave, int first_m, int at, int from) {
  constexpr int kLoaded = Columns == 1 ? 1 : Blocks;  // blocks of a lane
  const bool whole = wave.a.vectors && (at + 1) * block_rows::stretch <= wave.k;
  for (int l = 0; l < kLanes; ++l) {
    MT_TURN_OF(l);
    const int lane = ctx.thread(l) % kWave, g = lane / 4;
    const int first = at * block_rows::stretch + 32 * (Columns == 1 ? g : from) + 4 * (lane % 4);
    const T* const row = wave.a.row(first_m + (Columns > 1 && first_m + g < wave.m ? g : 0)) + first;
    uint32_t words[kLoaded][2][2];
    if (whole) {
      MT_UNROLL
      for (int i = 0; i < 2 * kLoaded; ++i) {
        const vector8 v = load8(row + 16 * i);
        words[i / 2][i % 2][0] = v.word[0], words[i / 2][i % 2][1] = v.word[1];
      }
    } else {
      MT_UNROLL
      for (int i = 0; i < 4 * kLoaded; ++i) {
        const int e = i / 2 * 16 + i % 2 * 2;
        const uint32_t low = first + e < wave.k ? MT_READ_AT(row + e)->bits : 0u, high = first + e + 1 < wave.k ? MT_READ_AT(row + e + 1)->bits : 0u;
        words[i / 4][i / 2 % 2][i % 2] = low | high << 16;
      }
    }
    MT_UNROLL
    for (int b = 0; b < Blocks; ++b) {
      MT_UNROLL
      for (int half = 0; half < 2; ++half) {
        const uint32_t(&w)[2] = words[Columns == 1 ? 0 : b][half];
        MT_UNROLL
        for (int i = 0; i < 2; ++i)
          x.pair[b][half][i][l] = Columns == 1 && g != b ? 0u : select_bytes(w[0], w[1], i == 0 ? 0x5410 : 0x7632);
      }
    }
  }
}
/// Sums of the activations of blocks, which minima multiply, of a lane's two columns: by instructions, too, whose operand a is 1.
using block_totals = float[2][kLanes];
template <class T, int Blocks>
MT_FN void add_activations(block_totals& totals, const block_activations<Blocks>& x, int first, int blocks) {
  uint32_t ones[4][kLanes];
  float d[4][kLanes] = {};
  for (int l = 0; l < kLanes; ++l) {
    MT_UNROLL
    for (int i = 0; i < 4; ++i) ones[i][l] = twice(dtype_of<T> == DType::bf16 ? 0x3f80u : 0x3c00u);
  }
  MT_UNROLL
  for (int b = 0; b < Blocks; ++b) {
    if (b < first || b >= first + blocks) continue;
    MT_UNROLL
    for (int half = 0; half < 2; ++half) matrix_unit::multiply<T>(d, ones, x.pair[b][half]);
  }
  for (int l = 0; l < kLanes; ++l) totals[0][l] = d[0][l], totals[1][l] = d[1][l];
}

/// Where the 16-byte chunks of a stretch of 16 rows lie that a lane copies: from the first row on.
template <DType Q>
struct stretch_chunks {
  static constexpr int per_row = block_rows::pitch(Q) / 16, all = block_rows::rows * per_row, rounds = (all + 31) / 32;
  int from[rounds][kLanes];
  static MT_FN bool has(int round, int lane) { return 32 * round + 31 < all || 32 * round + lane < all; }
};
template <DType Q>
MT_FN void find_chunks(Context& ctx, stretch_chunks<Q>& chunks, const quant_view<Q>& w) {
  using Chunks = stretch_chunks<Q>;
  MT_UNROLL
  for (int i = 0; i < Chunks::rounds; ++i) {
    for (int l = 0; l < kLanes; ++l) {
      const int number = 32 * i + ctx.thread(l) % kWave, row = number / Chunks::per_row;
      chunks.from[i][l] = row * static_cast<int>(w.row_bytes) + (number - row * Chunks::per_row) * 16;
    }
  }
}
/// Queues copies of a stretch, along the rows; what does not exist becomes 0, rows that do not exist are copies of the last one.
template <DType Q, class T, int Columns>
MT_FN void copy_stretch(Context& ctx, unsigned char* stage, block_wave<Q, T, Columns>& wave, const stretch_chunks<Q>& chunks, const block_walk& it) {
  using Chunks = stretch_chunks<Q>;
  constexpr int kBytes = block_rows::stretch_bytes(Q);
  const int64_t start = static_cast<int64_t>(it.at) * kBytes / 16 * 16, left = wave.payload - start;
  const int first_row = (wave.first_group + it.group * wave.step) * block_rows::rows, most = wave.last_row - first_row;
  const unsigned char* const from = wave.w.row(first_row) + start;
  if (left >= block_rows::pitch(Q) && most >= block_rows::rows - 1) {
    MT_UNROLL
    for (int i = 0; i < Chunks::rounds; ++i) {
      for (int l = 0; l < kLanes; ++l) {
        const int lane = ctx.thread(l) % kWave;
        if (Chunks::has(i, lane)) wave.copies.add(stage + (32 * i + lane) * 16, from + chunks.from[i][l], 16, lane, 0, 0);
      }
    }
    return;
  }
  MT_NO_UNROLL
  for (int i = 0; i < Chunks::rounds; ++i) {
    for (int l = 0; l < kLanes; ++l) {
      const int lane = ctx.thread(l) % kWave, number = 32 * i + lane, row = number / Chunks::per_row, at = (number - row * Chunks::per_row) * 16;
      const int there = row < most ? row : most, bytes = static_cast<int>(left - at < 0 ? 0 : left - at < 16 ? left - at : 16);
      if (Chunks::has(i, lane)) wave.copies.add(stage + number * 16, from + (there * wave.w.row_bytes + (bytes != 0 ? at : 0)), bytes, lane, 0, 0);
    }
  }
}

/// Scales (and minima) of two neighbouring blocks of a lane's row, two of each block for q6_k.
template <DType Q>
struct pair_scales {
  float scale[2][2], minimum[2];
};
/// What a row has for all blocks of a stretch.
template <DType Q>
struct stretch_scales {
  uint32_t words[4];  ///< q4_k: scale and minimum of all, then those of blocks
  float scale;
};
template <DType Q>
MT_FN void read_stretch_scales(stretch_scales<Q>& s, const unsigned char* row) {
  if constexpr (Q == DType::q4_k) {
    MT_UNROLL
    for (int i = 0; i < 4; ++i) s.words[i] = word_of(row + 4 * i);
  } else if constexpr (Q == DType::q6_k) {
    s.scale = half_of(row + 208);
  }
}
/// Of blocks 2 pair and 2 pair + 1.
template <DType Q>
MT_FN void read_pair_scales(pair_scales<Q>& p, const stretch_scales<Q>& s, const unsigned char* row, int pair, bool odd) {
  if constexpr (Q == DType::q4_k) {
    const uint32_t w0 = s.words[1], w1 = s.words[2], w2 = s.words[3];
    const uint32_t scales = pair < 2 ? w0 & 0x3f3f3f3fu : mask_and_set(w2, 0x0f0f0f0fu, w0 >> 2 & 0x30303030u),
                   minima = pair < 2 ? w1 & 0x3f3f3f3fu : mask_and_set(w2 >> 4, 0x0f0f0f0fu, w1 >> 2 & 0x30303030u);
    MT_UNROLL
    for (int i = 0; i < 2; ++i) {
      p.scale[i][0] = float_of_byte(scales, pair % 2 * 2 + i);
      p.minimum[i] = float_of_byte(minima, pair % 2 * 2 + i);
    }
  } else if constexpr (Q == DType::q6_k) {
    const uint32_t bytes = word_at(row + 192 + 4 * pair, odd) ^ 0x80808080u;
    MT_UNROLL
    for (int i = 0; i < 4; ++i) p.scale[i / 2][i % 2] = float_of_byte(bytes, i) - 128.0f;
  } else {
    MT_UNROLL
    for (int i = 0; i < 2; ++i) p.scale[i][0] = half_of(row + dtype_info(Q).block_bytes * (2 * pair + i));
  }
}
/// What two blocks give, from the sums of their products (of halves for q6_k) and of their activations.
template <DType Q>
MT_FN float value_of_pair(const pair_scales<Q>& p, const stretch_scales<Q>& s, float sum, float upper, float next, float next_upper, float total,
                          float next_total) {
  float v = p.scale[0][0] * sum;
  if constexpr (Q == DType::q6_k) v = fma_of(p.scale[0][1], upper, v);
  v = fma_of(p.scale[1][0], next, v);
  if constexpr (Q == DType::q6_k) v = fma_of(p.scale[1][1], next_upper, v);
  if constexpr (Q == DType::q6_k) return fma_of(s.scale, v, 0.0f);  // no product that a later addition might be joined with
  if constexpr (Q == DType::q4_k) {
    const float below = fma_of(p.minimum[1], next_total, p.minimum[0] * total);
    const auto half = [&](int i) { return promote(half_t{static_cast<uint16_t>(s.words[0] >> (16 * i))}); };
    return fma_of(half(0), v, -(half(1) * below));
  }
  return v;
}

/// Products of block b with operand b, sums of halves apart for q6_k.
template <DType Q, class T, int Blocks>
MT_FN void multiply_block(Context& ctx, float (&d)[2][4][kLanes], const unsigned char* const (&rows)[2][kLanes], const block_activations<Blocks>& x, int b,
                          bool odd) {
  block_operand a;
  for (int l = 0; l < kLanes; ++l) {
    MT_UNROLL
    for (int row = 0; row < 2; ++row) read_codes<Q, T>(a, row, l, rows[row][l], b, ctx.thread(l) % 4, odd);
  }
  matrix_unit::multiply<T>(d[0], a[0], x.pair[b % Blocks][0]);
  matrix_unit::multiply<T>(d[Q == DType::q6_k ? 1 : 0], a[1], x.pair[b % Blocks][1]);
}

/// The dots of 16 rows of b over a stretch; `reload(b)`: activations from block b on, where not all are kept. With one row of a sums 0 and 1 are those of rows g
/// and g + 8, in all lanes of g, else they lie as the instruction has them.
template <int Columns, DType Q, class T, int Blocks, class Reload>
MT_FN void dots_of_stretch(Context& ctx, float (&sums)[4][kLanes], const unsigned char* const (&rows)[2][kLanes], block_activations<Blocks>& x,
                           const block_totals& totals, bool odd, Reload reload) {
  stretch_scales<Q> all[2][kLanes];
  for (int l = 0; l < kLanes; ++l) {
    MT_UNROLL
    for (int row = 0; row < 2; ++row) read_stretch_scales(all[row][l], rows[row][l]);
  }
  if constexpr (Columns == 1) {
    float d[2][4][kLanes] = {};
    MT_UNROLL
    for (int b = 0; b < 8; ++b) multiply_block<Q, T>(ctx, d, rows, x, b, odd);
    MT_UNROLL
    for (int row = 0; row < 2; ++row) {
      for (int l = 0; l < kLanes; ++l) {
        pair_scales<Q> p;
        read_pair_scales(p, all[row][l], rows[row][l], ctx.thread(l) % 4, odd);
        const int e = 2 * row;
        sums[row][l] = value_of_pair<Q>(p, all[row][l], d[0][e][l], d[1][e][l], d[0][e + 1][l], d[1][e + 1][l], totals[0][l], totals[1][l]);
      }
      MT_UNROLL
      for (int mask = 1; mask < 4; mask *= 2) {
        float other[kLanes];
        shuffle_xor(other, sums[row], mask);
        for (int l = 0; l < kLanes; ++l) sums[row][l] += other[l];
      }
    }
  } else {
    float before[4][kLanes], half[4][kLanes];
    MT_UNROLL
    for (int pair = 0; pair < 4; ++pair) {
      if (Blocks == 4 && pair % 2 == 0) reload(2 * pair);
      float d[2][2][4][kLanes] = {};
      MT_UNROLL
      for (int i = 0; i < 2; ++i) multiply_block<Q, T>(ctx, d[i], rows, x, 2 * pair + i, odd);
      block_totals of_pair[2] = {};  // again for each 16 rows, since they would take 16 registers
      if constexpr (Q == DType::q4_k) add_activations<T>(of_pair[0], x, 2 * pair % Blocks, 1), add_activations<T>(of_pair[1], x, 2 * pair % Blocks + 1, 1);
      for (int l = 0; l < kLanes; ++l) {
        MT_UNROLL
        for (int row = 0; row < 2; ++row) {
          pair_scales<Q> p;
          read_pair_scales(p, all[row][l], rows[row][l], pair, odd);
          MT_UNROLL
          for (int col = 0; col < 2; ++col) {
            const int e = 2 * row + col;
            const float v = value_of_pair<Q>(p, all[row][l], d[0][0][e][l], d[0][1][e][l], d[1][0][e][l], d[1][1][e][l], of_pair[0][col][l],
                                             of_pair[1][col][l]);
            if (pair % 2 == 0) before[e][l] = v;  // added up as the lanes of a single row do it
            if (pair == 1) half[e][l] = before[e][l] + v;
            if (pair == 3) sums[e][l] = half[e][l] + (before[e][l] + v);
          }
        }
      }
    }
  }
}

/// Adds to the wave's own sums of a group.
template <int Columns>
MT_FN void add_to_own(Context& ctx, float* own, const float (&sums)[4][kLanes], bool first) {
  for (int l = 0; l < kLanes; ++l) {
    const int lane = ctx.thread(l) % kWave;
    if constexpr (Columns == 1) {
      const int row = lane % 4;
      if (row > 1) continue;
      float* const at = own + lane / 4 + 8 * row;
      const float v = row == 0 ? sums[0][l] : sums[1][l];
      share(at, first ? v : shared(static_cast<const float*>(at)) + v);
    } else {
      MT_UNROLL
      for (int e = 0; e < 4; ++e) {
        const coordinate c = mma_m16n8k16::c(lane, e);
        float* const at = own + c.col * block_rows::rows + c.row;
        share(at, first ? sums[e][l] : shared(static_cast<const float*>(at)) + sums[e][l]);
      }
    }
  }
}

/// The dots of a program's rows of b with all rows of a, `Columns` of them at a time: finish(block, sums) for those that are complete, in several calls.
template <class L, int Columns, class Shape, class T, DType Q, class F>
  requires(__is_same(L, block_rows))
MT_FN void each_dot_block(Context& ctx, const Shape& shape, const view<const T>& a, const quant_view<Q>& w, F finish) {
  constexpr int kPitch = block_rows::pitch(Q), kStage = block_rows::rows * kPitch, kWaves = block_rows::waves, kStages = block_rows::stages(Q);
  constexpr int kBytes = block_rows::stretch_bytes(Q), kCells = block_rows::rows * block_rows::rows_of_a;
  constexpr int kGroupCells = block_rows::rows * Columns;
  using Wave = block_wave<Q, T, Columns>;
  const int number = wave_number(ctx);
  unsigned char* const own = ctx.scratch + number * kStages * kStage;
  float* const all_sums = reinterpret_cast<float*>(ctx.scratch + kWaves * kStages * kStage);  // twice: one half is added up while the other is filled

  const int64_t payload = shape.k / quant_view<Q>::block_elements * quant_view<Q>::block_bytes;
  Wave wave{a, w, payload, static_cast<int>(shape.m), static_cast<int>(shape.k), static_cast<int>(shape.n - 1)};
  wave.stretches = (wave.k + block_rows::stretch - 1) / block_rows::stretch;
  wave.apart = wave.stretches < 1 ? 1 : wave.stretches < kWaves ? wave.stretches : kWaves;
  wave.teams = kWaves / wave.apart;
  wave.team = number / wave.apart, wave.first = wave.team < wave.teams ? number % wave.apart : wave.stretches;
  wave.first_group = static_cast<int>(ctx.program), wave.step = static_cast<int>(shape.programs);
  const int groups = static_cast<int>((shape.n + block_rows::rows - 1) / block_rows::rows);
  wave.groups = (groups - wave.first_group + wave.step - 1) / wave.step;

  stretch_chunks<Q> chunks;
  find_chunks(ctx, chunks, w);
  block_walk ahead{0, 0, 0, 0, 0};
  wave.enter(ahead);
  const auto copy_next = [&](int stage) {
    if (wave.find(ahead)) {
      copy_stretch(ctx, own + stage * kStage, wave, chunks, ahead);
      ahead.group += wave.teams;
    }
    wave.copies.close_group();
  };
  MT_NO_UNROLL
  for (int i = 0; i < kStages; ++i) copy_next(i);

  constexpr int kKept = kept_blocks<Q, Columns>;
  block_activations<kKept> x;
  block_totals totals = {};
  int stage = 0, turn = 0;
  MT_NO_UNROLL
  for (int first_m = 0; first_m < wave.m; first_m += Columns) {
    int loaded = -1;  // the stretch whose activations are there
    MT_NO_UNROLL
    for (int first = 0; first < wave.groups; first += wave.chunk(), ++turn) {
      const int end = first + wave.chunk() < wave.groups ? first + wave.chunk() : wave.groups;
      float* const half_of_sums = all_sums + turn % 2 * kWaves * kCells;
      MT_NO_UNROLL
      for (int at = wave.first; at < wave.stretches; at += wave.apart) {
        if (kKept == 8 && loaded != at) {
          load_activations(ctx, x, wave, first_m, at, 0);
          if constexpr (Q == DType::q4_k && Columns == 1) add_activations<T>(totals, x, 0, 8);
          loaded = at;
        }
        const int phase = kBytes % 16 == 0 ? 0 : at * (kBytes % 16) % 16;
        float* mine = half_of_sums + number * kCells;
        MT_NO_UNROLL
        for (int group = first + wave.team; group < end; group += wave.teams) {
          wave.copies.template wait<kStages - 1>();
          wave_sync();
          const unsigned char* rows[2][kLanes];
          for (int l = 0; l < kLanes; ++l) {
            rows[0][l] = own + stage * kStage + ctx.thread(l) % kWave / 4 * kPitch + phase;
            rows[1][l] = rows[0][l] + 8 * kPitch;
          }
          float sums[4][kLanes];
          const auto reload = [&](int from) { load_activations(ctx, x, wave, first_m, at, from); };
          if (kBytes % 4 != 0 && phase % 4 != 0) {
            dots_of_stretch<Columns, Q, T>(ctx, sums, rows, x, totals, true, reload);
          } else {
            dots_of_stretch<Columns, Q, T>(ctx, sums, rows, x, totals, false, reload);
          }
          wave_sync();  // all lanes have read
          copy_next(stage);
          stage = stage + 1 == kStages ? 0 : stage + 1;
          add_to_own<Columns>(ctx, mine, sums, at == wave.first);
          mine += kGroupCells;
        }
      }

      // The waves' sums in their order, whatever the number of stretches. Lanes take turns at it.
      ctx.barrier();
      const int cells = (end - first) * kGroupCells, waves = wave.stretches < wave.apart ? wave.stretches : wave.apart;
      MT_NO_UNROLL
      for (int from = 0; from < cells; from += block_rows::lanes) {
        block_rows_place block{wave.first_group + first * wave.step, wave.step, end - first, Columns, shape.n, first_m,
                               wave.m - first_m < Columns ? wave.m - first_m : Columns, {}};
        block_rows_sums total;
        for (int l = 0; l < kLanes; ++l) {
          const int cell = from + (ctx.thread(l) + turn * kCells) % block_rows::lanes, group = cell / kGroupCells;
          block.cell[l] = cell;
          total.of[l] = 0.0f;
          if (cell >= cells) continue;
          const float* of_wave = half_of_sums + group % wave.teams * wave.apart * kCells + group / wave.teams * kGroupCells + cell % kGroupCells;
          MT_NO_UNROLL
          for (int i = 0; i < waves; ++i, of_wave += kCells) total.of[l] += shared(of_wave);
        }
        finish(block, total);
      }
    }
  }
}

template <class F>
MT_FN void each_dot(const Context&, const block_rows_place& block, block_rows_sums& sums, F f) {
  for (int l = 0; l < kLanes; ++l) {
    const int row = block.cell[l] / block_rows::rows, group = row / block.columns, m = row - group * block.columns;
    const int64_t n = static_cast<int64_t>(block.first_group + group * block.step) * block_rows::rows + block.cell[l] % block_rows::rows;
    if (group < block.groups && m < block.m && n < block.n) f(block.first_m + m, n, sums.of[l]);
  }
}

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME
