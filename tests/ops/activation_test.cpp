// Gated activations on every device against the fp64 oracle.

#include "ops/activation/activation.hpp"

#include <sys/mman.h>

#include "tests/ops/test_util.hpp"

namespace monotile {
namespace {

using namespace test;  // NOLINT
using ops::Activation;
using ops::GatedActivationArgs;

const TierPolicy kPortable{Tier::portable, false};
constexpr DType kTypes[] = {DType::f32, DType::f16, DType::bf16};
constexpr Activation kActivations[] = {Activation::silu, Activation::gelu_tanh, Activation::gelu_erf, Activation::relu2};

class ActivationTest : public OnDevice {};
MONOTILE_ON_DEVICES(ActivationTest);

/// fp32 results below 2^-100 may be flushed: the exponential under them is.
const Tolerance kTolerance{.absolute = 0x1p-100};

void check(Device device, DType dtype, Activation activation, int64_t rows, int64_t cols, const Placement& placement,
           uint64_t seed) {
  TestTensor gate = TestTensor::random(dtype, {rows, cols}, seed, placement, -8, 8),
             up = TestTensor::random(dtype, {rows, cols}, seed + 1, placement, -2, 2);
  TestTensor y(dtype, {rows, cols}, placement);
  compare_with_reference<GatedActivationArgs>(
      device, ops::gated_activation_reference_run, {&y}, kTolerance,
      [&](const At& at) {
        return GatedActivationArgs{at(y), at(gate), at(up), activation};
      },
      kPortable);
}

TEST_P(ActivationTest, OddSizesAndDtypes) {
  uint64_t seed = 1;
  for (const DType dtype : kTypes) {
    for (const Activation activation : kActivations) {
      for (const int64_t cols : {1, 7, 8, 9, 64, 127, 128, 129, 640, 2048, 2055}) {
        SCOPED_TRACE(testing::Message() << dtype_info(dtype).name << " activation " << static_cast<int>(activation)
                                        << " cols " << cols);
        check(device(), dtype, activation, 9, cols, {}, seed);
        seed += 2;
      }
    }
  }
}

TEST_P(ActivationTest, FewLongRowsAndManyChunks) {
  for (const int64_t rows : {1, 3}) {
    for (const int64_t cols : {11008, 14336, 14335, 40001})
      check(device(), DType::f16, Activation::silu, rows, cols, {}, static_cast<uint64_t>(cols));
  }
  if (!slow()) check(device(), DType::bf16, Activation::gelu_tanh, 700, 4099, {}, 3);
}

TEST_P(ActivationTest, StridesAndUnalignedPointers) {
  for (const DType dtype : kTypes) {
    check(device(), dtype, Activation::silu, 5, 640, {.padding = {3}}, 11);
    check(device(), dtype, Activation::gelu_erf, 5, 640, {.padding = {8}, .offset = 1}, 13);
    check(device(), dtype, Activation::gelu_tanh, 5, 77, {.padding = {5}, .offset = 3}, 15);
  }
}

TEST_P(ActivationTest, HalvesOfAPackedInputAndInPlace) {
  for (const int64_t cols : {77, 2048}) {
    for (const Activation activation : kActivations) {
      TestTensor packed = TestTensor::random(DType::bf16, {5, 2 * cols}, 21, {}, -6, 6), y(DType::bf16, {5, cols});
      const auto half = [&](const TensorView& view, int64_t i) { return view.slice(1, i * cols, (i + 1) * cols); };
      compare_with_reference<GatedActivationArgs>(
          device(), ops::gated_activation_reference_run, {&y}, kTolerance,
          [&](const At& at) {
            const TensorView both = at(packed);
            return GatedActivationArgs{at(y), half(both, 0), half(both, 1), activation};
          },
          kPortable);
      for (const int64_t target : {0, 1}) {  // y may be gate or up
        TestTensor work = packed;
        run_on<GatedActivationArgs>(
            device(), {&work},
            [&](const At& at) {
              const TensorView both = at(work);
              return GatedActivationArgs{half(both, target), half(both, 0), half(both, 1), activation};
            },
            kPortable);
        for (int64_t i = 0; i < 5 * cols; ++i) {
          const int64_t row = i / cols, col = i % cols;
          ASSERT_EQ(work.get(row * 2 * cols + target * cols + col), y.get(i)) << "in place on " << target;
          ASSERT_EQ(work.get(row * 2 * cols + (1 - target) * cols + col),
                    packed.get(row * 2 * cols + (1 - target) * cols + col));
        }
      }
    }
  }
}

TEST_P(ActivationTest, NoElementsIsNoWork) {
  check(device(), DType::f16, Activation::silu, 0, 128, {}, 1);
  check(device(), DType::f32, Activation::silu, 3, 0, {}, 1);
}

// Case A-02: saturation without NaN, and the limits at the infinities.
TEST_P(ActivationTest, SaturatesWithoutNaN) {
  const double infinity = std::numeric_limits<double>::infinity();
  std::vector<double> list;
  for (double v = 8.0; v <= 15.5; v += 0.5) list.insert(list.end(), {v, -v});
  list.insert(list.end(), {1e4, -1e4, 88.5, -88.5, 90, -90, 200, -200, infinity, -infinity, 0.0, 1e30, -1e30});
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const Activation activation : kActivations) {
      TestTensor gate = TestTensor::of(dtype, {1, static_cast<int64_t>(list.size())}, list), up = gate,
                 y(dtype, {1, static_cast<int64_t>(list.size())});
      up.fill(1.0);
      compare_with_reference<GatedActivationArgs>(
          device(), ops::gated_activation_reference_run, {&y}, kTolerance,
          [&](const At& at) {
            return GatedActivationArgs{at(y), at(gate), at(up), activation};
          },
          kPortable);
      for (size_t i = 0; i < list.size(); ++i) {
        const double got = y.get(static_cast<int64_t>(i)), x = gate.get(static_cast<int64_t>(i));
        EXPECT_FALSE(std::isnan(got)) << x;
        if (activation != Activation::silu && activation != Activation::relu2 && x >= 8.0) {
          EXPECT_EQ(got, x);
        }
        if (x <= -200) {
          EXPECT_EQ(got, 0.0) << x;
        }
        if (x == infinity) {
          EXPECT_EQ(got, infinity);
        }
      }
    }
  }
}

TEST_P(ActivationTest, NaNStaysInItsElement) {
  for (const Activation activation : kActivations) {
    TestTensor gate = TestTensor::random(DType::f32, {2, 33}, 5), up = TestTensor::random(DType::f32, {2, 33}, 6),
               y(DType::f32, {2, 33});
    gate.set(5, std::nan(""));
    up.set(40, std::nan(""));
    run_on<GatedActivationArgs>(
        device(), {&y},
        [&](const At& at) {
          return GatedActivationArgs{at(y), at(gate), at(up), activation};
        },
        kPortable);
    for (int64_t i = 0; i < y.size(); ++i) EXPECT_EQ(std::isnan(y.get(i)), i == 5 || i == 40) << i;
  }
}

// Case A-01: elements past the 2^31st, in a mapping of which only a few pages exist.
TEST_P(ActivationTest, OffsetsBeyond32Bits) {
  if (!device().host_memory()) GTEST_SKIP() << "the sparse mapping is host memory";
  constexpr int64_t kStride = (int64_t{1} << 31) + 8, kCols = 300;
  const size_t bytes = static_cast<size_t>(kStride + kCols) * 2;
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  TensorView far(memory, DType::bf16, {2, kCols}, device());
  far.stride[0] = kStride;
  TestTensor gate = TestTensor::random(DType::bf16, {2, kCols}, 31),
             up = TestTensor::random(DType::bf16, {2, kCols}, 32), y(DType::bf16, {2, kCols});
  run_on<GatedActivationArgs>(
      device(), {&y},
      [&](const At& at) {
        return GatedActivationArgs{at(y), at(gate), at(up), Activation::silu};
      },
      kPortable);
  for (int64_t row = 0; row < 2; ++row) {
    std::memcpy(far.as<bfloat16_t>() + row * kStride, gate.host().as<bfloat16_t>() + row * kCols, kCols * 2);
  }
  Context context(device());
  context.tier = kPortable;
  TensorView near = up.on(context.stream());
  run(context, GatedActivationArgs{far, far, near, Activation::silu});
  context.stream().synchronize();
  for (int64_t row = 0; row < 2; ++row) {
    EXPECT_EQ(0, std::memcmp(far.as<bfloat16_t>() + row * kStride, y.host().as<bfloat16_t>() + row * kCols, kCols * 2))
        << "row " << row;
  }
  munmap(memory, bytes);
}

using ops::BiasActivationArgs;

TEST_P(ActivationTest, BiasActivationResidual) {
  uint64_t seed = 500;
  for (const DType dtype : kTypes) {
    for (int kind = 0; kind <= static_cast<int>(Activation::identity); ++kind) {
      for (const int64_t cols : {1, 9, 128, 300, 2880, 4099}) {
        const bool with_bias = seed % 3 != 0, with_residual = seed % 2 == 0;
        const Placement placement{.padding = {seed % 5 == 0 ? 3 : 0}, .offset = seed % 5 == 0 ? 1 : 0};
        SCOPED_TRACE(testing::Message() << dtype_info(dtype).name << " activation " << kind << " cols " << cols);
        TestTensor x = TestTensor::random(dtype, {5, cols}, seed, placement, -4, 4), y(dtype, {5, cols}, placement);
        TestTensor residual = TestTensor::random(dtype, {5, cols}, seed + 1, placement), bias = TestTensor::random(seed % 4 == 0 ? DType::f32 : dtype, {cols}, seed + 2);
        compare_with_reference<BiasActivationArgs>(
            device(), ops::bias_activation_reference_run, {&y}, {.absolute = 1e-6, .scale = with_residual ? 4.0 : 0.0},
            [&](const At& at) {
              return BiasActivationArgs{at(y), at(x), with_bias ? at(bias) : TensorView{}, with_residual ? at(residual) : TensorView{}, static_cast<Activation>(kind)};
            },
            kPortable);
        ++seed;
      }
    }
  }
  // In place on the residual.
  TestTensor x = TestTensor::random(DType::f16, {4, 256}, 1), y = TestTensor::random(DType::f16, {4, 256}, 2), bias = TestTensor::random(DType::f16, {256}, 3);
  compare_with_reference<BiasActivationArgs>(
      device(), ops::bias_activation_reference_run, {&y}, {.scale = 2.0},
      [&](const At& at) {
        const TensorView both = at(y);
        return BiasActivationArgs{both, at(x), at(bias), both, Activation::relu2};
      },
      kPortable);
}

}  // namespace
}  // namespace monotile
