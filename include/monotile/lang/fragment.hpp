#pragma once
// Fragments: where the operands of a matrix instruction lie in the registers of its lanes. One small struct per
// instruction; each operand is a layout with `coord(lane, element)`, whose coverage is proved by enumeration
// (tests/lang/fragment_test.cpp). What executes an instruction is in the backends.
//
// Operand a is m x k, b is n x k (its rows are columns of the product), c is m x n.

#include "monotile/lang/layout.hpp"

namespace monotile::lang {

/// Shape, lanes and elements per lane of an instruction's operands.
template <int Lanes, int M, int N, int K>
struct instruction {
  static constexpr int lanes = Lanes, m = M, n = N, k = K;
  static constexpr int a_elements = M * K / Lanes, b_elements = N * K / Lanes, c_elements = M * N / Lanes;
};

/// mma.sync m16n8k16 of 16-bit operands (NVIDIA, sm_80 and later): PTX ISA, "Matrix Fragments for mma.m16n8k16".
struct mma_m16n8k16 : instruction<32, 16, 8, 16> {
  static constexpr int c_vector = 2;  ///< elements of c that lie side by side in a row
  static MT_FN constexpr coordinate a(int lane, int e) {
    return {lane / 4 + e / 2 % 2 * 8, lane % 4 * 2 + e % 2 + e / 4 * 8};
  }
  static MT_FN constexpr coordinate b(int lane, int e) { return {lane / 4, lane % 4 * 2 + e % 2 + e / 2 * 8}; }
  static MT_FN constexpr coordinate c(int lane, int e) { return {lane / 4 + e / 2 * 8, lane % 4 * 2 + e % 2}; }
};

/// mma.sync m16n8k32 of int8, four to a word: PTX ISA, "Matrix Fragments for mma.m16n8k32". Counted in bytes as mma_m16n8k16.
struct mma_m16n8k32 : instruction<32, 16, 8, 32> {
  static constexpr int c_vector = 2;
  static MT_FN constexpr coordinate a(int lane, int e) {
    return {lane / 4 + e / 4 % 2 * 8, lane % 4 * 4 + e % 4 + e / 8 * 16};
  }
  static MT_FN constexpr coordinate b(int lane, int e) { return {lane / 4, lane % 4 * 4 + e % 4 + e / 4 * 16}; }
  static MT_FN constexpr coordinate c(int lane, int e) { return mma_m16n8k16::c(lane, e); }
};

/// mma.sync m16n8k8 of tf32 operands, a word each: PTX ISA, "Matrix Fragments for mma.m16n8k8".
struct mma_m16n8k8 : instruction<32, 16, 8, 8> {
  static constexpr int c_vector = 2;
  static MT_FN constexpr coordinate a(int lane, int e) { return {lane / 4 + e % 2 * 8, lane % 4 + e / 2 * 4}; }
  static MT_FN constexpr coordinate b(int lane, int e) { return {lane / 4, lane % 4 + e * 4}; }
  static MT_FN constexpr coordinate c(int lane, int e) { return mma_m16n8k16::c(lane, e); }
};

/// No instruction: every lane has two neighbouring sums of 8 x (Lanes / 4) and reads its row of a and its two of b, four elements along k at a time.
template <int Lanes>
struct lane_sums {
  static constexpr int lanes = Lanes, m = 8, n = Lanes / 4, k = 4, c_elements = 2, c_vector = 2;
  static MT_FN constexpr coordinate c(int lane, int e) { return {lane / (Lanes / 8), lane % (Lanes / 8) * 2 + e}; }
};

/// v_mfma_f32_32x32x8 of 16-bit operands (AMD, gfx90a and gfx942): CDNA3 ISA, "Dense matrix multiplication".
struct mfma_m32n32k8 : instruction<64, 32, 32, 8> {
  static constexpr int c_vector = 1;
  static MT_FN constexpr coordinate a(int lane, int e) { return {lane % 32, lane / 32 * 4 + e}; }
  static MT_FN constexpr coordinate b(int lane, int e) { return a(lane, e); }
  static MT_FN constexpr coordinate c(int lane, int e) { return {e / 4 * 8 + lane / 32 * 4 + e % 4, lane % 32}; }
};

/// v_mfma_f32_16x16x16 of 16-bit operands, the same source.
struct mfma_m16n16k16 : instruction<64, 16, 16, 16> {
  static constexpr int c_vector = 1;
  static MT_FN constexpr coordinate a(int lane, int e) { return {lane % 16, lane / 16 * 4 + e}; }
  static MT_FN constexpr coordinate b(int lane, int e) { return a(lane, e); }
  static MT_FN constexpr coordinate c(int lane, int e) { return {lane / 16 * 4 + e, lane % 16}; }
};
/// v_mfma_i32_32x32x16_i8 and v_mfma_f32_32x32x16_fp8_fp8 (gfx942): eight bytes a lane as before, of twice as many elements. gfx90a's
/// v_mfma_i32_32x32x8i8 has the fragments of mfma_m32n32k8, one byte an element.
struct mfma_m32n32k16 : instruction<64, 32, 32, 16> {
  static constexpr int c_vector = 1;
  static MT_FN constexpr coordinate a(int lane, int e) { return {lane % 32, lane / 32 * 8 + e}; }
  static MT_FN constexpr coordinate b(int lane, int e) { return a(lane, e); }
  static MT_FN constexpr coordinate c(int lane, int e) { return mfma_m32n32k8::c(lane, e); }
};
/// v_mfma_i32_16x16x32_i8 and v_mfma_f32_16x16x32_fp8_fp8 (gfx942).
struct mfma_m16n16k32 : instruction<64, 16, 16, 32> {
  static constexpr int c_vector = 1;
  static MT_FN constexpr coordinate a(int lane, int e) { return {lane % 16, lane / 16 * 8 + e}; }
  static MT_FN constexpr coordinate b(int lane, int e) { return a(lane, e); }
  static MT_FN constexpr coordinate c(int lane, int e) { return mfma_m16n16k16::c(lane, e); }
};

/// wgmma.mma_async m64nNkK (NVIDIA, sm_90a), a warpgroup of 128 lanes: both operands are read from shared memory, so
/// only c is a fragment. PTX ISA, "Register Fragments for wgmma.mma_async.m64nNk16".
template <int N, int K = 16>
struct wgmma_m64 : instruction<128, 64, N, K> {
  static constexpr int c_vector = 2;
  static MT_FN constexpr coordinate c(int lane, int e) {
    return {lane / 32 * 16 + lane % 32 / 4 + e / 2 % 2 * 8, e / 4 * 8 + lane % 4 * 2 + e % 2};
  }
};

/// The operands as layouts, for `covers_exactly_once`.
template <class Atom>
struct fragment_a {
  static constexpr int elements = Atom::a_elements;
  static MT_FN constexpr int rows(int) { return Atom::m; }
  static MT_FN constexpr int cols(int) { return Atom::k; }
  static MT_FN constexpr coordinate coord(int lane, int e, int) { return Atom::a(lane, e); }
};
template <class Atom>
struct fragment_b {
  static constexpr int elements = Atom::b_elements;
  static MT_FN constexpr int rows(int) { return Atom::n; }
  static MT_FN constexpr int cols(int) { return Atom::k; }
  static MT_FN constexpr coordinate coord(int lane, int e, int) { return Atom::b(lane, e); }
};
template <class Atom>
struct fragment_c {
  static constexpr int elements = Atom::c_elements;
  static MT_FN constexpr int rows(int) { return Atom::m; }
  static MT_FN constexpr int cols(int) { return Atom::n; }
  static MT_FN constexpr coordinate coord(int lane, int e, int) { return Atom::c(lane, e); }
};

/// Where 16-byte chunks of a shared tile lie: rows of `RowBytes` bytes one after the other, the chunks of a row
/// permuted by its number, so that eight neighbouring rows of one column of chunks lie in eight different groups of
/// banks. For 128 bytes this is the 128-byte swizzle of NVIDIA's copy engine and matrix instructions, for 64 bytes
/// its 64-byte one.
template <int RowBytes>
struct swizzle {
  static_assert(RowBytes == 64 || RowBytes == 128, "rows of 64 or 128 bytes");
  static constexpr int chunks = RowBytes / 16;
  static MT_FN constexpr int offset(int row, int chunk) {
    return row * RowBytes + ((chunk ^ (RowBytes == 128 ? row % 8 : row / 2 % 4)) << 4);
  }
};

/// Where the elements of a tile lie whose rows run along k, as MFMA wants its operand: column by column, four neighbouring rows (of 16 bits) to a slot
/// of eight bytes, the 16 slots of each 128 bytes exchanged by the number of the column. Sixteen lanes then hit all banks when they read 16 neighbouring
/// columns of one slot, and when they write one column each of the chunks of eight that a row was copied by.
template <int Rows>
struct across_swizzle {
  static_assert(Rows == 32 || Rows == 64, "columns of 64 or 128 bytes");
  static MT_FN constexpr int bit(int v, int from, int to) { return (v >> from & 1) << to; }
  /// What is exchanged with what: linear in the bits of the column, and one to one on both sets of 16 columns.
  static MT_FN constexpr int exchange(int col) {
    if (Rows == 64) return (col & 15) ^ bit(col, 6, 0) ^ bit(col, 4, 1) ^ bit(col, 5, 2);
    return (col >> 1 & 7) ^ bit(col, 6, 0) ^ bit(col, 5, 1) ^ bit(col, 4, 3);
  }
  /// Byte offset of rows `row` to `row` + 3 of a column; `row` is a multiple of 4.
  static MT_FN constexpr int offset(int row, int col) {
    const int slot = Rows == 64 ? row >> 2 : (col & 1) * 8 + (row >> 2);
    return (Rows == 64 ? col : col >> 1) * 128 + (slot ^ exchange(col)) * 8;
  }
};

/// True if the swizzle of a tile of `rows` rows gives each chunk a place of its own.
template <int RowBytes>
constexpr bool swizzle_is_a_permutation(int rows) {
  constexpr int kMost = 256 * 8;
  using S = swizzle<RowBytes>;
  if (rows * S::chunks > kMost) return false;
  bool seen[kMost] = {};
  for (int row = 0; row < rows; ++row) {
    for (int chunk = 0; chunk < S::chunks; ++chunk) {
      const int offset = S::offset(row, chunk);
      if (offset % 16 != 0 || offset < 0 || offset >= rows * RowBytes || seen[offset / 16]) return false;
      seen[offset / 16] = true;
    }
  }
  return true;
}

/// Groups of four banks (16 bytes) hit by one column of chunks over eight rows from `row`: 8 means no conflict.
template <int RowBytes>
constexpr int bank_groups_hit(int row, int chunk) {
  unsigned hit = 0;
  for (int i = 0; i < 8; ++i) hit |= 1u << (swizzle<RowBytes>::offset(row + i, chunk) / 16 % 8);
  int count = 0;
  for (; hit != 0; hit &= hit - 1) ++count;
  return count;
}

}  // namespace monotile::lang
