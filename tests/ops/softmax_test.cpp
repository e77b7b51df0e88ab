// Softmax and its logarithm on every device against the fp64 oracle.

#include "ops/softmax/softmax.hpp"

#include "tests/ops/test_util.hpp"

namespace monotile {
namespace {

using namespace test;  // NOLINT
using ops::SoftmaxArgs;

const TierPolicy kPortable{Tier::portable, false};
constexpr double kInf = std::numeric_limits<double>::infinity();

struct Types {
  DType x, y;
};
constexpr Types kTypes[] = {{DType::f32, DType::f32},
                            {DType::f16, DType::f16},
                            {DType::bf16, DType::bf16},
                            {DType::f16, DType::f32},
                            {DType::bf16, DType::f32}};

class SoftmaxTest : public OnDevice {};
MONOTILE_ON_DEVICES(SoftmaxTest);

struct Shape {
  int64_t rows, cols;
};

void check(Device device, const Types& t, const Shape& s, float scale, bool log, const Placement& placement,
           uint64_t seed, double range = 8.0) {
  TestTensor x = TestTensor::random(t.x, {s.rows, s.cols}, seed, placement, -range, range),
             y(t.y, {s.rows, s.cols}, placement);
  // Rows of one column: the logarithm of a sum next to 1 is judged on the scale of 1.
  compare_with_reference<SoftmaxArgs>(
      device, ops::softmax_reference_run, {&y}, {.absolute = 0x1p-100, .scale = log ? 1.0 : 0.0},
      [&](const At& at) {
        return SoftmaxArgs{at(y), at(x), scale, log};
      },
      kPortable);
}

TEST_P(SoftmaxTest, OddSizesAndDtypes) {
  uint64_t seed = 1;
  for (const Types& t : kTypes) {
    for (const int64_t cols : {1, 2, 7, 8, 9, 64, 127, 128, 129, 255, 257, 640, 2048, 2049, 4095}) {
      for (const bool log : {false, true}) {
        SCOPED_TRACE(testing::Message() << dtype_info(t.x).name << " to " << dtype_info(t.y).name << " cols " << cols
                                        << (log ? " log" : ""));
        check(device(), t, {9, cols}, seed % 3 == 0 ? 0.7f : 1.0f, log, {}, seed);
        ++seed;
      }
    }
  }
}

TEST_P(SoftmaxTest, EveryLayoutAndRowsReadAgain) {
  for (const int64_t cols : {4096, 8192, 12000, 16384, 16392, 32000, 40001}) {
    for (const bool log : {false, true}) {
      SCOPED_TRACE(testing::Message() << "cols " << cols << (log ? " log" : ""));
      check(device(), kTypes[1], {2, cols}, 1.0f, log, {}, static_cast<uint64_t>(cols));
      check(device(), kTypes[0], {2, cols}, 0.125f, log, {}, static_cast<uint64_t>(cols) + 7);
    }
  }
  // Cut into chunks: whole vectors, and not; the last slice of rows is a short one.
  for (const bool log : {false, true}) {
    check(device(), kTypes[0], {2, 60000}, -0.5f, log, {}, 3);
    check(device(), kTypes[1], {2, 70001}, 1.0f, log, {.padding = {3}}, 4);
    check(device(), kTypes[4], {3, 66000}, 1.0f, log, {}, 5);
  }
  // Teams of programs, where there are any: 4 and all 8 of them.
  check(device(), kTypes[1], {2, 60008}, 1.0f, false, {}, 7);
  check(device(), kTypes[2], {1, 131072}, -0.5f, true, {}, 8);
  if (!slow()) check(device(), kTypes[1], {130, 128256}, 1.0f, false, {}, 6);
  if (!slow()) check(device(), kTypes[2], {1, int64_t{1} << 20}, 1.0f, false, {}, 3);
}

TEST_P(SoftmaxTest, Scales) {
  for (const float scale : {-1.0f, -0.3f, 0.0f, 1e-3f, 10.0f, 300.0f}) {
    for (const bool log : {false, true}) {
      SCOPED_TRACE(testing::Message() << "scale " << scale << (log ? " log" : ""));
      check(device(), kTypes[0], {3, 500}, scale, log, {}, 5);
      check(device(), kTypes[2], {3, 500}, scale, log, {}, 6);
    }
  }
}

TEST_P(SoftmaxTest, StridesAndUnalignedPointers) {
  for (const Types& t : kTypes) {
    check(device(), t, {5, 640}, 1.0f, false, {.padding = {3}}, 11);
    check(device(), t, {5, 640}, 1.0f, true, {.padding = {8}, .offset = 1}, 12);
    check(device(), t, {5, 77}, 1.0f, false, {.padding = {5}, .offset = 3}, 14);
  }
}

TEST_P(SoftmaxTest, NoRowsIsNoWork) { check(device(), kTypes[1], {0, 128}, 1.0f, false, {}, 1); }

TEST_P(SoftmaxTest, InPlaceEqualsOutOfPlace) {
  for (const int64_t cols : {77, 4096, 20000, 70000}) {
    for (const bool log : {false, true}) {
      TestTensor x = TestTensor::random(DType::bf16, {3, cols}, 5, {}, -5, 5), y(DType::bf16, {3, cols});
      run_on<SoftmaxArgs>(
          device(), {&y},
          [&](const At& at) {
            return SoftmaxArgs{at(y), at(x), 1.0f, log};
          },
          kPortable);
      run_on<SoftmaxArgs>(
          device(), {&x},
          [&](const At& at) {
            const TensorView same = at(x);
            return SoftmaxArgs{same, same, 1.0f, log};
          },
          kPortable);
      EXPECT_TRUE(is_identical(x, y)) << cols;
    }
  }
}

// Case S-01: rows without any weight; and single infinities, NaN, huge values. Other rows do not notice.
TEST_P(SoftmaxTest, RowsOfInfinitiesAndNaN) {
  for (const int64_t cols : {5, 200, 3000, 20000, 40000}) {
    for (const bool log : {false, true}) {
      TestTensor x = TestTensor::random(DType::f32, {7, cols}, 9, {}, -5, 5), y(DType::f32, {7, cols});
      const auto fill_row = [&](int64_t row, double value) {
        for (int64_t c = 0; c < cols; ++c) x.set(row * cols + c, value);
      };
      TestTensor plain = x, expected(DType::f32, {7, cols});
      run_on<SoftmaxArgs>(
          device(), {&expected},
          [&](const At& at) {
            return SoftmaxArgs{at(expected), at(plain), 1.0f, log};
          },
          kPortable);
      fill_row(1, -kInf);
      fill_row(2, -kInf), x.set(2 * cols + cols - 1, 3.0);
      x.set(3 * cols + cols / 2, std::nan(""));
      fill_row(4, -1000.0);
      fill_row(5, -kInf), x.set(5 * cols, std::nan(""));
      compare_with_reference<SoftmaxArgs>(
          device(), ops::softmax_reference_run, {&y}, {.scale = log ? 1.0 : 0.0},
          [&](const At& at) {
            return SoftmaxArgs{at(y), at(x), 1.0f, log};
          },
          kPortable);
      for (int64_t c = 0; c < cols; ++c) {
        ASSERT_EQ(y.get(cols + c), log ? -kInf : 0.0);
        ASSERT_EQ(y.get(2 * cols + c), c == cols - 1 ? (log ? 0.0 : 1.0) : (log ? -kInf : 0.0));
        ASSERT_TRUE(std::isnan(y.get(3 * cols + c)));
        ASSERT_NEAR(y.get(4 * cols + c), log ? -std::log(cols) : 1.0 / static_cast<double>(cols), 1e-5);
        ASSERT_EQ(y.get(c), expected.get(c));
        ASSERT_EQ(y.get(6 * cols + c), expected.get(6 * cols + c));
      }
    }
  }
}

// Chunks of a long row without any weight, beside others far below 0.
TEST_P(SoftmaxTest, ChunksOfInfinity) {
  constexpr int64_t kCols = 60000;
  for (const DType dtype : {DType::f16, DType::f32}) {
    TestTensor x = TestTensor::random(dtype, {2, kCols}, 11, {}, -205, -200), y(dtype, {2, kCols});
    for (int64_t c = 0; c < 40000; ++c) x.set(c, -kInf);
    compare_with_reference<SoftmaxArgs>(
        device(), ops::softmax_reference_run, {&y}, {.absolute = 0x1p-100},
        [&](const At& at) {
          return SoftmaxArgs{at(y), at(x), 1.0f, false};
        },
        kPortable);
  }
}

TEST_P(SoftmaxTest, LargeLogitsKeepTheirDistances) {
  TestTensor x = TestTensor::of(DType::f32, {2, 4}, {1e5, 1e5 - 1, 1e5 - 2, -1e5, 3e38, 3e38, -3e38, 0}),
             y(DType::f32, {2, 4});
  for (const bool log : {false, true}) {
    compare_with_reference<SoftmaxArgs>(
        device(), ops::softmax_reference_run, {&y}, {},
        [&](const At& at) {
          return SoftmaxArgs{at(y), at(x), 1.0f, log};
        },
        kPortable);
  }
}

// The same row alone and in a batch gives the same bits.
TEST_P(SoftmaxTest, BatchInvariance) {
  for (const int64_t cols : {96, 200, 640, 4096, 17000}) {
    TestTensor x = TestTensor::random(DType::f16, {33, cols}, 7, {}, -6, 6), all(DType::f16, {33, cols});
    run_on<SoftmaxArgs>(
        device(), {&all},
        [&](const At& at) {
          return SoftmaxArgs{at(all), at(x), 1.0f, false};
        },
        kPortable);
    for (const int64_t r : {0, 17, 32}) {
      TestTensor one(DType::f16, {1, cols});
      run_on<SoftmaxArgs>(
          device(), {&one},
          [&](const At& at) {
            return SoftmaxArgs{at(one), at(x).slice(0, r, r + 1), 1.0f, false};
          },
          kPortable);
      for (int64_t c = 0; c < cols; ++c)
        ASSERT_EQ(one.get(c), all.get(r * cols + c)) << "row " << r << " column " << c << " of " << cols;
    }
  }
}

// Masks that are added, and masks that hide; rows of which nothing is left give zeros.
TEST_P(SoftmaxTest, Masks) {
  uint64_t seed = 900;
  for (const int64_t cols : {1, 9, 130, 256, 1000, 8192, 9000, 20001}) {
    for (const DType mask_type : {DType::f32, DType::f16, DType::bf16, DType::u8}) {
      for (const bool log : {false, true}) {
        const DType dtypes[] = {DType::f32, DType::f16, DType::bf16}, dtype = dtypes[seed % 3],
                    y_type = seed % 2 == 0 ? dtype : DType::f32;
        const bool one_row = seed % 4 == 1;
        SCOPED_TRACE(testing::Message() << "cols " << cols << " mask " << dtype_info(mask_type).name
                                        << (log ? " log" : "") << (one_row ? " one row" : ""));
        TestTensor x = TestTensor::random(dtype, {3, cols}, seed, {.padding = {seed % 5 == 0 ? 3 : 0}}, -4, 4),
                   y(y_type, {3, cols});
        TestTensor mask =
            TestTensor::random(mask_type, {one_row ? 1 : 3, cols}, seed + 1, {}, mask_type == DType::u8 ? 0 : -2, 1);
        if (mask_type != DType::u8) {
          for (int64_t i = 0; i < mask.size(); i += 3) mask.set(i, -HUGE_VAL);
        }
        if (!one_row) {
          for (int64_t c = 0; c < cols; ++c) mask.set(cols + c, mask_type == DType::u8 ? 0.0 : -HUGE_VAL);
        }
        // The scaled logit and the mask are added in fp32: their size is the unit of a logarithm's error.
        compare_with_reference<SoftmaxArgs>(
            device(), ops::softmax_reference_run, {&y},
            {.ulps = 1.0, .relative = 1e-5, .absolute = 1e-9, .scale = log ? 8.0 : 0.0},
            [&](const At& at) {
              return SoftmaxArgs{at(y), at(x), 0.7f, log, at(mask)};
            },
            kPortable);
        EXPECT_TRUE(one_row || y.get(cols) == (log ? -HUGE_VAL : 0.0));
        ++seed;
      }
    }
  }
}

}  // namespace
}  // namespace monotile
