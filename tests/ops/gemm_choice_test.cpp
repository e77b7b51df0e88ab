// Which tile a product takes: the cost model against what was fastest on a machine.

#include <gtest/gtest.h>

#include "ops/gemm/tile_cost.hpp"

namespace monotile::test {
namespace {

using namespace ops::tiles;  // NOLINT

constexpr int64_t kUnits = 132;  // of an H200

/// What is compiled for sm_90a, of 16-bit operands, of 8-bit floats and of int8.
bool on_hopper(uint32_t c) {
  return c >= kRing && c != kStaged && c != kFewStaged && kShapes[c].operand_bytes == 2;
}
bool on_hopper8(uint32_t c) { return c >= kRing8 && c < kStaged8; }
bool on_hopper_ints(uint32_t c) {
  return c == kRing8 || c == kSplit8 || (c >= kWideInts && c <= kNarrowInts) || (c >= kFewRing8 && c <= kFewSplit64Ints);
}

std::pair<uint32_t, int> choice(int64_t m, int64_t n, int64_t k, bool engine = true) {
  const Pick best = pick_tile(m, n, k, engine, kUnits, on_hopper);
  return {best.config, best.split};
}

// Fastest of all tiles as graph nodes, H200, 2026-11-30 (docs/notes/gemm-h200.md), when no tile was shared by three. Three were faster than two in the random
// shapes of 2026-12-01 with more than 16 rows, more than 1,000 along k and no more programs than multiprocessors.
TEST(GemmChoice, FewRowsTakeWhatWasFastest) {
  for (const int64_t m : {1, 4, 16, 64}) {
    const uint32_t whole = m <= 16 ? kFew16 : kFew64, split = m <= 16 ? kFewSplit16 : kFewSplit64;
    const int programs = m <= 16 ? 2 : 3;
    EXPECT_EQ(choice(m, 4096, 4096), (std::pair(split, programs))) << m;
    EXPECT_EQ(choice(m, 14336, 4096), (std::pair(whole, 1))) << m;
    EXPECT_EQ(choice(m, 4096, 14336), (std::pair(split, programs))) << m;
    EXPECT_EQ(choice(m, 128256, 4096), (std::pair(whole, 1))) << m;
  }
}
// As in the table of 2026-11-29 there.
TEST(GemmChoice, ManyRows) {
  EXPECT_EQ(choice(4096, 4096, 4096), (std::pair<uint32_t, int>(kWide, 1)));
  EXPECT_EQ(choice(8192, 8192, 8192), (std::pair<uint32_t, int>(kBroad, 1)));
  EXPECT_EQ(choice(512, 4096, 4096), (std::pair<uint32_t, int>(kSquare, 1)));
  EXPECT_EQ(choice(256, 4096, 4096), (std::pair<uint32_t, int>(kNarrow, 1)));
}
// Twice the steps' worth of k in a step, but each step's sums are added up in fp32: smaller tiles. 4096^3 is 704 of 128x192, 5.33 rounds of 132.
TEST(GemmChoice, EightBits) {
  EXPECT_EQ(pick_tile(4096, 4096, 4096, true, kUnits, on_hopper8).config, kSquare8);
  EXPECT_EQ(pick_tile(8192, 8192, 8192, true, kUnits, on_hopper8).config, kWide8);
  EXPECT_EQ(pick_tile(2048, 6144, 4096, true, kUnits, on_hopper8).config, kWide8);
  EXPECT_EQ(pick_tile(1024, 4096, 4096, true, kUnits, on_hopper8).config, kSquare8);
  EXPECT_EQ(pick_tile(512, 4096, 4096, true, kUnits, on_hopper8).config, kSquare8);
  EXPECT_EQ(pick_tile(4096, 4096, 4096, false, kUnits, on_hopper8).config, kRing8);
}
// Not measured: as the 16-bit tiles of as many bytes.
TEST(GemmChoice, Int8) {
  EXPECT_EQ(pick_tile(8192, 8192, 8192, true, kUnits, on_hopper_ints).config, kWideInts);
  EXPECT_EQ(pick_tile(512, 4096, 8192, true, kUnits, on_hopper_ints).config, kSquareInts);
  EXPECT_EQ(pick_tile(1, 14336, 4096, true, kUnits, on_hopper_ints).config, kFew16Ints);
  EXPECT_EQ(pick_tile(64, 128256, 4096, true, kUnits, on_hopper_ints).config, kFew64Ints);
  EXPECT_EQ(pick_tile(1, 4096, 14336, true, kUnits, on_hopper_ints).config, kFewSplit16Ints);  // 32 tiles of 128 rows would leave 100 multiprocessors idle
  EXPECT_EQ(pick_tile(64, 4096, 14336, true, kUnits, on_hopper_ints).config, kFewSplit64Ints);
  EXPECT_EQ(pick_tile(4096, 4096, 4096, false, kUnits, on_hopper_ints).config, kRing8);
}
// Weights are streamed once wherever a tile can hold all rows.
TEST(GemmChoice, RowsDoNotSplitOverTilesOfWeights) {
  for (int64_t m = 17; m <= kMostFewRows; ++m) {
    const uint32_t c = choice(m, 14336, 4096).first;
    EXPECT_TRUE(c == kFew64 || c == kFewSplit64) << m;
  }
}
TEST(GemmChoice, WhatIsNotBuiltOrDoesNotSuitIsLeftOut) {
  EXPECT_EQ(choice(1, 4096, 4096, false).first, kFewRing);
  EXPECT_EQ(choice(4096, 4096, 4096, false).first, kRing);
  EXPECT_EQ(pick_tile(1, 64, 64, true, kUnits, [](uint32_t) { return false; }).config, kConfigs);
}
/// Rows off 16 bytes cost a ring much more than rows on them.
TEST(GemmChoice, ElementsOneByOneAreSlow) {
  const auto us = [](bool by_elements) { return pick_tile(4096, 4096, 4096, false, kUnits, on_hopper, false, 1, 0, by_elements).us; };
  EXPECT_GT(us(true), 5 * us(false));
  EXPECT_GT(us(true), pick_tile(4096, 4096, 4096, true, kUnits, on_hopper).us + 2 * packing_us(int64_t{4096} * 4096 * 2));
}
/// What the sweep over random shapes says of a shape that lost.
TEST(GemmChoice, WhatAChoiceGivesAway) {
  const Losses whole = losses_of(kWide, 1, 128 * 132, 256, 64 * 100, kUnits);
  EXPECT_EQ(whole.programs, 132);
  EXPECT_EQ(whole.steps, 100);
  EXPECT_NEAR(whole.empty, 0.0, 1e-12);
  EXPECT_NEAR(whole.edges, 0.0, 1e-12);
  EXPECT_NEAR(whole.filling, 5.0 / (5.0 + 65.7), 1e-12);
  const Losses one_more = losses_of(kWide, 1, 128 * 133, 256, 64, kUnits);
  EXPECT_NEAR(one_more.empty, 131.0 / 264.0, 1e-12);
  EXPECT_NEAR(losses_of(kWide, 1, 1, 256, 64, kUnits).edges, 127.0 / 128.0, 1e-12);
  const Losses few = losses_of(kFew16, 1, 16, 128 * 66, 4096, kUnits);  // lies across: the columns fill the rows of tiles
  EXPECT_EQ(few.programs, 66);
  EXPECT_NEAR(few.empty, 0.5, 1e-12);
  EXPECT_NEAR(few.edges, 0.0, 1e-12);
  EXPECT_EQ(losses_of(kSplit, 4, 128, 128, 64 * 16, kUnits).steps, 4);
}
TEST(GemmChoice, LargeClustersLeaveMultiprocessorsEmpty) {
  EXPECT_EQ(programs_at_once(132, 1), 132);
  EXPECT_EQ(programs_at_once(132, 2), 132);
  EXPECT_EQ(programs_at_once(132, 4), 124);
  EXPECT_EQ(programs_at_once(132, 8), 112);
  EXPECT_EQ(programs_at_once(1, 8), 8);
}

}  // namespace
}  // namespace monotile::test
