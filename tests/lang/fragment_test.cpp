// Fragments of matrix instructions and the swizzle of shared tiles, proved by enumeration.

#include "monotile/lang/fragment.hpp"
#include "monotile/lang/row_layout.hpp"

#include <gtest/gtest.h>

namespace monotile {
namespace {

using namespace lang;  // NOLINT

template <class Atom>
constexpr bool operands_are_covered() {
  return covers_exactly_once<fragment_a<Atom>>(Atom::lanes) && covers_exactly_once<fragment_b<Atom>>(Atom::lanes) &&
         covers_exactly_once<fragment_c<Atom>>(Atom::lanes);
}
static_assert(operands_are_covered<mma_m16n8k16>());
static_assert(operands_are_covered<mma_m16n8k8>());
static_assert(operands_are_covered<mma_m16n8k32>());
static_assert(operands_are_covered<mfma_m32n32k8>());
static_assert(covers_exactly_once<fragment_c<wgmma_m64<64>>>(128));
static_assert(covers_exactly_once<fragment_c<wgmma_m64<128>>>(128));
static_assert(covers_exactly_once<fragment_c<wgmma_m64<192>>>(128));
static_assert(covers_exactly_once<fragment_c<wgmma_m64<256>>>(128));

// A layout that gives two lanes the same cells must be seen.
struct broken : mma_m16n8k16 {
  static constexpr coordinate a(int lane, int e) { return mma_m16n8k16::a(lane & ~1, e); }
};
static_assert(!covers_exactly_once<fragment_a<broken>>(32));

/// `c_vector` elements from each multiple of it on lie side by side in a row.
template <class Atom>
constexpr bool vectors_are_neighbours() {
  for (int lane = 0; lane < Atom::lanes; ++lane) {
    for (int e = 0; e < Atom::c_elements; ++e) {
      const coordinate at = Atom::c(lane, e), first = Atom::c(lane, e / Atom::c_vector * Atom::c_vector);
      if (at.row != first.row || at.col != first.col + e % Atom::c_vector) return false;
    }
  }
  return true;
}
static_assert(vectors_are_neighbours<mma_m16n8k16>() && vectors_are_neighbours<mma_m16n8k32>() && vectors_are_neighbours<mma_m16n8k8>() && vectors_are_neighbours<mfma_m32n32k8>() &&
              vectors_are_neighbours<wgmma_m64<256>>());

/// Operands of int8 lie as those of 16 bits do, byte by byte: so one way of reading fragments (ldmatrix) serves both.
constexpr bool bytes_lie_as_halves_do() {
  for (int lane = 0; lane < 32; ++lane) {
    for (int e = 0; e < mma_m16n8k32::a_elements; ++e) {
      const coordinate byte = mma_m16n8k32::a(lane, e), half = mma_m16n8k16::a(lane, e / 2);
      if (byte.row != half.row || byte.col != half.col * 2 + e % 2) return false;
    }
    for (int e = 0; e < mma_m16n8k32::b_elements; ++e) {
      const coordinate byte = mma_m16n8k32::b(lane, e), half = mma_m16n8k16::b(lane, e / 2);
      if (byte.row != half.row || byte.col != half.col * 2 + e % 2) return false;
    }
  }
  return true;
}
static_assert(bytes_lie_as_halves_do());

/// An accumulator of wgmma holds the same places as mma.sync's of the four warps, block after block: so one store
/// (stmatrix) serves both.
constexpr bool warpgroup_extends_warps() {
  for (int lane = 0; lane < 128; ++lane) {
    for (int e = 0; e < wgmma_m64<64>::c_elements; ++e) {
      const coordinate big = wgmma_m64<64>::c(lane, e), small = mma_m16n8k16::c(lane % 32, e % 4);
      if (big.row != lane / 32 * 16 + small.row || big.col != e / 4 * 8 + small.col) return false;
    }
  }
  return true;
}
static_assert(warpgroup_extends_warps());

/// Rows of chained products: each cell once, a slot is a row, lanes share a row where their numbers differ in the bits
/// that are said, and the words of the next operand are made of the lane's own elements.
template <class Rows>
struct sums_of_rows {
  static constexpr int elements = Rows::elements;
  static constexpr int rows(int) { return Rows::rows; }
  static constexpr int cols(int) { return Rows::cols; }
  static constexpr coordinate coord(int lane, int e, int) { return Rows::at(lane, e); }
};
template <class Rows>
constexpr bool rows_are_as_said() {
  constexpr int kShared = Rows::last_bit * 2 - Rows::first_bit;
  for (int lane = 0; lane < Rows::lanes; ++lane) {
    for (int e = 0; e < Rows::elements; ++e) {
      const coordinate at = Rows::at(lane, e);
      if (at.row != Rows::slot_row(lane, Rows::slot(e))) return false;
      if (at.row != Rows::at(lane ^ kShared, e).row) return false;
      if (e % Rows::neighbours != 0 && at.col != Rows::at(lane, e - 1).col + 1) return false;
    }
    for (int other = 0; other < Rows::lanes; ++other) {
      const bool same = Rows::slot_row(lane, 0) == Rows::slot_row(other, 0);
      if (same != (((lane ^ other) & ~kShared) == 0)) return false;
    }
    for (int step = 0; step < 4; ++step) {
      for (int word = 0; word < Rows::words; ++word) {
        for (int half = 0; half < 2; ++half) {
          const coordinate from = Rows::at(lane, Rows::element_of(step, word) + half),
                           to = Rows::operand(lane, 2 * word + half);
          if (from.row != to.row) return false;
          if (Rows::block_of(step, word) * Rows::cols + from.col != step * Rows::step + to.col) return false;
        }
      }
    }
  }
  return true;
}
static_assert(covers_exactly_once<sums_of_rows<mma_rows>>(32) && rows_are_as_said<mma_rows>());
static_assert(covers_exactly_once<sums_of_rows<mfma_rows>>(64) && rows_are_as_said<mfma_rows>());

static_assert(swizzle_is_a_permutation<128>(256) && swizzle_is_a_permutation<64>(256));

/// Slots of a tile that is read across: each once, and all 16 of 128 bytes by what sixteen lanes do at a time.
template <int Rows>
constexpr bool slots_are_a_permutation(int cols) {
  bool seen[256 * 16] = {};
  for (int col = 0; col < cols; ++col) {
    for (int row = 0; row < Rows; row += 4) {
      const int offset = across_swizzle<Rows>::offset(row, col);
      if (offset % 8 != 0 || offset < 0 || offset >= Rows * cols * 2 || seen[offset / 8]) return false;
      seen[offset / 8] = true;
    }
  }
  return true;
}
template <int Rows>
constexpr int slots_hit(int row, int col, int col_step) {
  unsigned hit = 0;
  for (int i = 0; i < 16; ++i) hit |= 1u << (across_swizzle<Rows>::offset(row, col + i * col_step) / 8 % 16);
  int count = 0;
  for (; hit != 0; hit &= hit - 1) ++count;
  return count;
}
static_assert(slots_are_a_permutation<64>(64) && slots_are_a_permutation<64>(128) && slots_are_a_permutation<64>(256));
static_assert(slots_are_a_permutation<32>(64) && slots_are_a_permutation<32>(128) && slots_are_a_permutation<32>(256));

TEST(Swizzle, ColumnsReadAcrossHitAllBanks) {
  for (int row = 0; row < 64; row += 4) {
    for (int col = 0; col < 256; col += 16) {
      EXPECT_EQ(slots_hit<64>(row, col, 1), 16);
      EXPECT_EQ(slots_hit<32>(row % 32, col, 1), 16);
    }
    for (int col = 0; col < 8; ++col) {  // one column of each of the chunks that sixteen lanes bring
      EXPECT_EQ(slots_hit<64>(row, col, 8), 16);
      EXPECT_EQ(slots_hit<32>(row % 32, col, 8), 16);
    }
  }
}

TEST(Swizzle, EightRowsOfOneColumnHitAllBanks) {
  for (int row = 0; row < 256; row += 8) {
    for (int chunk = 0; chunk < 8; ++chunk) EXPECT_EQ(bank_groups_hit<128>(row, chunk), 8);
    for (int chunk = 0; chunk < 4; ++chunk) EXPECT_EQ(bank_groups_hit<64>(row, chunk), 8);
  }
}

TEST(Swizzle, IsTheOneOfTheCopyEngine) {
  // PTX ISA, "Swizzling modes", 128-byte mode: address bits 4 to 6 are xored with bits 7 to 9; 64-byte: 4, 5 with 7,
  // 8.
  for (int address = 0; address < 4096; address += 16) {
    EXPECT_EQ(swizzle<128>::offset(address / 128, address / 16 % 8), address ^ (address >> 3 & 0x70));
    EXPECT_EQ(swizzle<64>::offset(address / 64, address / 16 % 4), address ^ (address >> 3 & 0x30));
  }
}

}  // namespace
}  // namespace monotile
