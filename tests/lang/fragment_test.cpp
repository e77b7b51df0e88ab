// Fragments of matrix instructions and the swizzle of shared tiles, proved by enumeration.

#include "monotile/lang/fragment.hpp"

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
static_assert(vectors_are_neighbours<mma_m16n8k16>() && vectors_are_neighbours<mfma_m32n32k8>() &&
              vectors_are_neighbours<wgmma_m64<256>>());

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

static_assert(swizzle_is_a_permutation<128>(256) && swizzle_is_a_permutation<64>(256));

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
