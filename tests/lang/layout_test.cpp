// Coverage of the layouts, proved at compile time for every number of lanes that the policies use.

#include "monotile/lang/layout.hpp"

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

#include "ops/row_tiles.hpp"

namespace monotile {
namespace {

using lang::blocked;
using lang::covers_exactly_once;
using lang::vectors_are_consecutive;

static_assert(covers_exactly_once<blocked<8, 1, 16>>(128) && vectors_are_consecutive<blocked<8, 1, 16>>(128));
static_assert(covers_exactly_once<blocked<8, 1, 32>>(128) && vectors_are_consecutive<blocked<8, 1, 32>>(128));
static_assert(covers_exactly_once<blocked<8, 1, 0>>(96) && vectors_are_consecutive<blocked<8, 1, 0>>(96));
static_assert(covers_exactly_once<blocked<8, 2, 0>>(256) && vectors_are_consecutive<blocked<8, 2, 0>>(256));
static_assert(covers_exactly_once<blocked<8, 4, 0>>(448) && vectors_are_consecutive<blocked<8, 4, 0>>(448));

// A layout that gives two lanes the same cells must be seen.
struct broken : blocked<8, 1, 16> {
  static constexpr lang::coordinate coord(int lane, int element, int lanes) { return blocked<8, 1, 16>::coord(lane & ~1, element, lanes); }
};
static_assert(!covers_exactly_once<broken>(128));

template <uint32_t Index>
void check_all_lanes() {
  using L = ops::row_layout<Index>;
  for (int lanes = 32; lanes <= ops::max_row_threads<L>(); lanes += 32) {
    EXPECT_TRUE(covers_exactly_once<L>(lanes)) << "layout " << Index << " with " << lanes << " lanes";
    EXPECT_TRUE(vectors_are_consecutive<L>(lanes)) << "layout " << Index << " with " << lanes << " lanes";
  }
  if constexpr (Index + 1 < ops::kRowLayouts) check_all_lanes<Index + 1>();
}

TEST(Layout, EveryRowLayoutCoversItsTileForEveryNumberOfLanes) { check_all_lanes<0>(); }

TEST(Layout, RowOfGivesTheSameRowToAllLanesOfTheRow) {
  using L = blocked<8, 1, 16>;
  for (int lane = 0; lane < 128; ++lane) EXPECT_EQ(lang::row_of<L>::coord(lane, 0, 128).row, L::coord(lane, 0, 128).row);
}

TEST(View, OffsetsPastTwoToThe31AreExact) {
  lang::view<uint8_t> v;
  v.outer_stride = 36864;
  EXPECT_EQ(v.row(58254) - v.row(0), int64_t{58254} * 36864);
  EXPECT_EQ(v.row(79999) - v.row(0), int64_t{79999} * 36864);
  v.split_rows(8);
  v.inner_stride = int64_t{1} << 40;
  EXPECT_EQ(v.row(8 * 3 + 5) - v.row(0), 3 * int64_t{36864} + 5 * (int64_t{1} << 40));
}

TEST(Divisor, QuotientsAreExact) {
  std::mt19937 random(3);
  for (int i = 0; i < 200000; ++i) {
    // Divisors of all lengths, and numbers beside their multiples.
    const uint32_t n = std::max<uint32_t>(1, static_cast<uint32_t>(random()) >> random() % 32);
    const uint32_t multiple = static_cast<uint32_t>(random()) / n * n;
    const lang::divisor by = lang::divisor_of(n);
    for (const uint32_t x : {static_cast<uint32_t>(random()), multiple, multiple - 1, multiple + 1, UINT32_MAX})
      ASSERT_EQ(by.of(x), x / n) << x << " / " << n;
  }
}

template <uint32_t Index = 0>
int vectors_of(uint32_t layout) {
  if (layout % ops::kExact == Index) return ops::row_layout<Index>::vectors;
  if constexpr (Index + 1 < ops::kRowLayouts) return vectors_of<Index + 1>(layout);
  return 0;
}

TEST(RowTiles, TheChoiceCoversTheRowAndFitsTheWave) {
  for (int wave : {32, 64}) {
    DeviceInfo device;
    device.device = {DeviceKind::emulated, static_cast<int16_t>(wave)};
    device.wave = wave;
    for (int64_t cols : {1,    7,    8,    9,    64,   127,  128,  129,  255,  256,  257,  640,   1024,
                         2047, 2048, 2049, 2880, 3584, 4096, 5120, 7168, 8192, 8193, 11008, 14336, 16384}) {
      for (const bool exact : {false, true}) {
        for (const ops::RowPolicy policy : {ops::RowPolicy::sums, ops::RowPolicy::quads}) {
          const ops::RowTile tile = ops::pick_row_tile(cols, exact, device, policy);
          EXPECT_EQ(tile.layout >= ops::kExact, exact) << cols;
          EXPECT_EQ(tile.threads % wave, 0) << cols;
          if (tile.layout % ops::kExact == ops::kStream) {
            EXPECT_GT(cols, exact ? 16384 : 8192) << "long rows alone are read again";
            continue;
          }
          const int64_t vectors_per_lane = vectors_of(tile.layout), lanes = tile.threads / tile.rows_per_program;
          EXPECT_GE(lanes * vectors_per_lane * 8, cols) << cols;
          EXPECT_LT((lanes - 2 * wave) * vectors_per_lane * 8, cols) << "no wave is idle at " << cols;
        }
      }
    }
  }
}

TEST(RowTiles, ASliceOfAPaddedMatrixIsJudgedByThePitchOfItsBatch) {
  alignas(16) static uint8_t memory[4096];
  TensorView batch(memory, DType::f16, {4, 128});
  EXPECT_TRUE(ops::whole_vectors(batch));
  batch.stride[0] = 132;
  EXPECT_FALSE(ops::whole_vectors(batch));
  EXPECT_FALSE(ops::whole_vectors(batch.slice(0, 0, 1)));  // starts on 16 bytes, its batch does not
}

}  // namespace
}  // namespace monotile
