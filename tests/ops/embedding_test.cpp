// Embedding lookup on every device against the fp64 oracle.

#include "ops/embedding/embedding.hpp"

#include "tests/ops/test_util.hpp"

namespace monotile {
namespace {

using namespace test;  // NOLINT
using ops::EmbeddingArgs;

const TierPolicy kPortable{Tier::portable, false};
constexpr DType kTypes[] = {DType::f32, DType::f16, DType::bf16};
constexpr DType kBlocks[] = {DType::q4_0, DType::q5_0, DType::q8_0, DType::q4_k, DType::q6_k};

class EmbeddingTest : public OnDevice {};
MONOTILE_ON_DEVICES(EmbeddingTest);

void check(Device device, DType table_type, DType y_type, int64_t cols, const Placement& placement, uint64_t seed,
           float scale = 1.0f, DType id_type = DType::i32) {
  constexpr int64_t kVocabulary = 19;
  TestTensor table = TestTensor::random(table_type, {kVocabulary, cols}, seed, placement, -3, 3);
  TestTensor ids = TestTensor::of(id_type, {0, kVocabulary - 1, 7, 7, -1, kVocabulary, 3}),
             y(y_type, {7, cols}, placement);
  TestTensor status = TestTensor::of(DType::i32, {0, 0, 0, 0, 0, 0, 5});
  // Minima are subtracted from scaled codes: the larger of the two is the unit.
  const double unit = table_type == DType::q4_k ? 3.0 * std::abs(static_cast<double>(scale)) : 0.0;
  compare_with_reference<EmbeddingArgs>(
      device, ops::embedding_reference_run, {&y, &status}, {.scale = unit},
      [&](const At& at) {
        return EmbeddingArgs{at(y), at(table), at(ids), at(status), scale};
      },
      kPortable);
  EXPECT_EQ(status.values(), (std::vector<double>{0, 0, 0, 0, 1, 1, 5}));
  for (int64_t c = 0; c < 2 * cols; ++c) ASSERT_EQ(y.get(4 * cols + c), 0.0);
}

TEST_P(EmbeddingTest, PlainTables) {
  uint64_t seed = 1;
  for (const DType table : kTypes) {
    for (const DType y : kTypes) {
      for (const int64_t cols : {1, 7, 8, 9, 64, 127, 640, 2049, 4096}) {
        SCOPED_TRACE(testing::Message() << dtype_info(table).name << " to " << dtype_info(y).name << " cols " << cols);
        check(device(), table, y, cols, {}, seed, seed % 2 == 0 ? 1.0f : 25.3f);
        ++seed;
      }
    }
  }
}

TEST_P(EmbeddingTest, BlockTables) {
  uint64_t seed = 100;
  for (const DType table : kBlocks) {
    for (const DType y : kTypes) {
      for (const int64_t blocks : {1, 2, 5, 11}) {
        SCOPED_TRACE(testing::Message() << dtype_info(table).name << " to " << dtype_info(y).name << " blocks "
                                        << blocks);
        check(device(), table, y, blocks * dtype_info(table).block_elements, {}, seed, seed % 2 == 0 ? 1.0f : 25.3f);
        ++seed;
      }
    }
  }
}

TEST_P(EmbeddingTest, StridesUnalignedPointersAndWideIds) {
  for (const DType type : kTypes) {
    check(device(), type, type, 640, {.padding = {3}}, 11, 1.0f, DType::i64);
    check(device(), type, DType::bf16, 640, {.padding = {8}, .offset = 1}, 12, 1.0f, DType::i64);
    check(device(), type, DType::f32, 77, {.padding = {5}, .offset = 3}, 13);
  }
  for (const DType type : kBlocks)
    check(device(), type, DType::f16, 512, {.padding = {1}, .offset = 1}, 14, 1.0f, DType::i64);
}

TEST_P(EmbeddingTest, PlainRowsAreCopiedExactly) {
  TestTensor table = TestTensor::random(DType::bf16, {5, 333}, 1), ids = TestTensor::of(DType::i64, {4, 0, 4}),
             y(DType::bf16, {3, 333});
  run_on<EmbeddingArgs>(
      device(), {&y},
      [&](const At& at) {
        return EmbeddingArgs{at(y), at(table), at(ids), {}, 1.0f};
      },
      kPortable);
  for (int64_t c = 0; c < 333; ++c) {
    ASSERT_EQ(y.get(c), table.get(4 * 333 + c));
    ASSERT_EQ(y.get(333 + c), table.get(c));
    ASSERT_EQ(y.get(666 + c), table.get(4 * 333 + c));
  }
}

TEST_P(EmbeddingTest, HugeIdsDoNotWrap) {
  TestTensor table = TestTensor::random(DType::f32, {5, 8}, 1), ids(DType::i64, {3}), y(DType::f32, {3, 8}),
             status = TestTensor::of(DType::i32, {0, 0, 0});
  ids.set_integer(0, (int64_t{1} << 32) + 2);
  ids.set_integer(1, INT64_MIN + 2);
  ids.set_integer(2, 2);
  compare_with_reference<EmbeddingArgs>(
      device(), ops::embedding_reference_run, {&y, &status}, {},
      [&](const At& at) {
        return EmbeddingArgs{at(y), at(table), at(ids), at(status), 1.0f};
      },
      kPortable);
  EXPECT_EQ(status.values(), (std::vector<double>{1, 1, 0}));
}

TEST_P(EmbeddingTest, NoTokensIsNoWork) {
  TestTensor table = TestTensor::random(DType::f32, {5, 8}, 1), ids(DType::i32, {0}), y(DType::f32, {0, 8});
  compare_with_reference<EmbeddingArgs>(
      device(), ops::embedding_reference_run, {&y}, {},
      [&](const At& at) {
        return EmbeddingArgs{at(y), at(table), at(ids), {}, 1.0f};
      },
      kPortable);
}

}  // namespace
}  // namespace monotile
