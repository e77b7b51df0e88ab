// RMSNorm and residual RMSNorm on every device against the fp64 oracle.

#include "ops/norm/norm.hpp"

#include "tests/ops/test_util.hpp"

namespace monotile {
namespace {

using namespace test;  // NOLINT
using ops::RmsNormArgs;

const TierPolicy kPortable{Tier::portable, false};

struct Types {
  DType x, residual, gamma;
};
constexpr Types kTypes[] = {{DType::f32, DType::f32, DType::f32},    {DType::f16, DType::f16, DType::f16},   {DType::bf16, DType::bf16, DType::bf16},
                            {DType::f16, DType::f16, DType::f32},    {DType::bf16, DType::bf16, DType::f32}, {DType::f16, DType::f32, DType::f32},
                            {DType::bf16, DType::f32, DType::bf16}};

class NormTest : public OnDevice {};
MONOTILE_ON_DEVICES(NormTest);

void check(Device device, const Types& t, std::vector<int64_t> extents, bool with_residual, bool with_beta, const Placement& placement, uint64_t seed,
           float offset = 0.0f) {
  const int64_t cols = extents.back();
  TestTensor x = TestTensor::random(t.x, extents, seed, placement, -3, 3), y(t.x, extents, placement);
  TestTensor residual = TestTensor::random(t.residual, extents, seed + 1, placement, -3, 3);
  TestTensor gamma = TestTensor::random(t.gamma, {cols}, seed + 2, {}, 0.5, 1.5), beta = TestTensor::random(t.gamma, {cols}, seed + 3);
  std::vector<TestTensor*> outputs{&y};
  if (with_residual) outputs.push_back(&residual);
  // y = v * inverse * gamma + beta: the larger term sets the unit
  compare_with_reference<RmsNormArgs>(device, ops::rms_norm_reference_run, outputs, {.scale = with_beta ? 1.0 : 0.0}, [&](const At& at) {
    return RmsNormArgs{.y = at(y), .residual = with_residual ? at(residual) : TensorView{}, .x = at(x), .gamma = at(gamma),
                       .beta = with_beta ? at(beta) : TensorView{}, .eps = 1e-6f, .gamma_offset = offset};
  }, kPortable);
}

TEST_P(NormTest, OddSizesAndDtypes) {
  uint64_t seed = 1;
  for (const Types& t : kTypes) {
    for (const int64_t cols : {1, 7, 8, 9, 64, 127, 128, 129, 255, 257, 640, 2048, 2049, 2880}) {
      for (const bool residual : {false, true}) {
        if (!residual && t.residual != t.x) continue;
        SCOPED_TRACE(testing::Message() << dtype_info(t.x).name << " " << dtype_info(t.residual).name << " cols " << cols << " residual " << residual);
        check(device(), t, {5, cols}, residual, seed % 3 == 0, {}, seed);
        ++seed;
      }
    }
  }
}

TEST_P(NormTest, EveryLayoutAndTheSecondRead) {
  for (const int64_t cols : {4096, 4095, 8192, 12000, 16384, 16392, 40001}) {
    for (const bool residual : {false, true}) {
      SCOPED_TRACE(testing::Message() << "cols " << cols << " residual " << residual);
      check(device(), kTypes[1], {2, cols}, residual, false, {}, static_cast<uint64_t>(cols));
      check(device(), kTypes[0], {2, cols}, residual, true, {}, static_cast<uint64_t>(cols) + 7);
    }
  }
}

TEST_P(NormTest, StridesAndUnalignedPointers) {
  for (const Types& t : kTypes) {
    check(device(), t, {5, 640}, true, true, {.padding = {3}}, 11);
    check(device(), t, {5, 640}, true, false, {.padding = {8}, .offset = 1}, 12);
    check(device(), t, {4, 16, 128}, true, false, {.padding = {2048}}, 13);     // q of a packed qkv (case N-03)
    check(device(), t, {3, 5, 77}, true, true, {.padding = {5, 9}, .offset = 3}, 14);
    check(device(), t, {129}, true, true, {}, 15);
  }
}

TEST_P(NormTest, GammaOffset) { check(device(), kTypes[2], {3, 640}, true, false, {}, 21, 1.0f); }

TEST_P(NormTest, NoRowsIsNoWork) {
  check(device(), kTypes[1], {0, 128}, true, false, {}, 1);
  check(device(), kTypes[0], {3, 0, 128}, false, false, {}, 1);
}

// Case N-01: squares overflow fp16.
TEST_P(NormTest, LargeHalfValuesKeepTheirScale) {
  for (const double magnitude : {300.0, 65504.0}) {
    TestTensor x(DType::f16, {1, 8}), y(DType::f16, {1, 8}), gamma = TestTensor::of(DType::f16, std::vector<double>(8, 1.0));
    for (int64_t i = 0; i < 8; ++i) x.set(i, i % 2 == 0 ? magnitude : -magnitude);
    run_on<RmsNormArgs>(device(), {&y}, [&](const At& at) { return RmsNormArgs{.y = at(y), .residual = {}, .x = at(x), .gamma = at(gamma), .beta = {}}; }, kPortable);
    for (int64_t i = 0; i < 8; ++i) EXPECT_EQ(y.get(i), i % 2 == 0 ? 1.0 : -1.0);
  }
}

// The same in the wide types, as far as the squares go (docs/policies.md): below 1e19 exact, above it zeros and no NaN.
TEST_P(NormTest, LargeWideValues) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const double magnitude : {1e18, 1e20}) {
      TestTensor x(dtype, {1, 8}), y(dtype, {1, 8}), gamma = TestTensor::of(dtype, std::vector<double>(8, 1.0));
      for (int64_t i = 0; i < 8; ++i) x.set(i, i % 2 == 0 ? magnitude : -magnitude);
      run_on<RmsNormArgs>(device(), {&y}, [&](const At& at) { return RmsNormArgs{.y = at(y), .residual = {}, .x = at(x), .gamma = at(gamma), .beta = {}}; }, kPortable);
      for (int64_t i = 0; i < 8; ++i) EXPECT_NEAR(y.get(i), magnitude < 1e19 ? (i % 2 == 0 ? 1.0 : -1.0) : 0.0, 1e-6);
    }
  }
}

TEST_P(NormTest, InPlaceEqualsOutOfPlace) {
  for (const int64_t cols : {77, 4096, 20000}) {
    TestTensor x = TestTensor::random(DType::bf16, {3, cols}, 5), y(DType::bf16, {3, cols}), gamma = TestTensor::random(DType::bf16, {cols}, 6);
    run_on<RmsNormArgs>(device(), {&y}, [&](const At& at) { return RmsNormArgs{.y = at(y), .residual = {}, .x = at(x), .gamma = at(gamma), .beta = {}}; }, kPortable);
    run_on<RmsNormArgs>(device(), {&x}, [&](const At& at) {
      const TensorView same = at(x);
      return RmsNormArgs{.y = same, .residual = {}, .x = same, .gamma = at(gamma), .beta = {}};
    }, kPortable);
    EXPECT_TRUE(is_identical(x, y)) << cols;
  }
}

// The same row alone and in a batch gives the same bits.
TEST_P(NormTest, BatchInvariance) {
  for (const int64_t cols : {96, 200, 640, 4096, 20000}) {
    TestTensor x = TestTensor::random(DType::f16, {33, cols}, 7), gamma = TestTensor::random(DType::f16, {cols}, 8), all(DType::f16, {33, cols});
    run_on<RmsNormArgs>(device(), {&all}, [&](const At& at) { return RmsNormArgs{.y = at(all), .residual = {}, .x = at(x), .gamma = at(gamma), .beta = {}}; }, kPortable);
    for (const int64_t r : {0, 17, 32}) {
      TestTensor one(DType::f16, {1, cols});
      run_on<RmsNormArgs>(device(), {&one}, [&](const At& at) {
        return RmsNormArgs{.y = at(one), .residual = {}, .x = at(x).slice(0, r, r + 1), .gamma = at(gamma), .beta = {}};
      }, kPortable);
      for (int64_t c = 0; c < cols; ++c) ASSERT_EQ(one.get(c), all.get(r * cols + c)) << "row " << r << " column " << c << " of " << cols;
    }
  }
}

// Rows whose pitch is not whole vectors: a slice that happens to start on 16 bytes must not take another layout than its batch.
TEST_P(NormTest, BatchInvarianceOfSlicesOfAPaddedMatrix) {
  for (const int64_t cols : {128, 4096, 8192}) {
    const Placement padded{.padding = {4}};
    TestTensor x = TestTensor::random(DType::f16, {6, cols}, 9, padded), gamma = TestTensor::random(DType::f16, {cols}, 10), all(DType::f16, {6, cols});
    run_on<RmsNormArgs>(device(), {&all}, [&](const At& at) { return RmsNormArgs{.y = at(all), .residual = {}, .x = at(x), .gamma = at(gamma), .beta = {}}; }, kPortable);
    for (const int64_t r : {0, 1, 2, 4}) {
      TestTensor one(DType::f16, {1, cols});
      run_on<RmsNormArgs>(device(), {&one}, [&](const At& at) {
        const TensorView slice = at(x).slice(0, r, r + 1);
        return RmsNormArgs{.y = at(one), .residual = {}, .x = slice, .gamma = at(gamma), .beta = {}};
      }, kPortable);
      for (int64_t c = 0; c < cols; ++c) ASSERT_EQ(one.get(c), all.get(r * cols + c)) << "row " << r << " column " << c << " of " << cols;
    }
  }
}

}  // namespace
}  // namespace monotile
