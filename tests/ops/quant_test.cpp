// Quantisation and back, on every device against the oracle: codes and scales are exact.

#include "ops/quant/quant.hpp"

#include <sys/mman.h>

#include "ops/activation/activation.hpp"
#include "tests/ops/test_util.hpp"

namespace monotile {
namespace {

using namespace test;  // NOLINT
using ops::Activation;
using ops::DequantiseArgs;
using ops::GatedActivationArgs;
using ops::GatedQuantiseArgs;
using ops::QuantiseArgs;

const TierPolicy kPortable{Tier::portable, false};
const Tolerance kExactly{.ulps = 0.0, .relative = 0.0};
constexpr DType kTypes[] = {DType::f32, DType::f16, DType::bf16};
constexpr DType kCodes[] = {DType::f8_e4m3, DType::f8_e5m2, DType::i8};

class QuantTest : public OnDevice {};
MONOTILE_ON_DEVICES(QuantTest);

int64_t ceil_divide(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t blocks(int64_t extent, int64_t block) { return block == 0 ? 1 : ceil_divide(extent, block); }

void check(Device device, DType dtype, DType code, int64_t rows, int64_t cols, int64_t block_rows, int64_t block_cols,
           const Placement& placement, uint64_t seed) {
  SCOPED_TRACE(testing::Message() << dtype_info(dtype).name << " to " << dtype_info(code).name << " " << rows << " x "
                                  << cols << " in blocks of " << block_rows << " x " << block_cols);
  TestTensor x = TestTensor::random(dtype, {rows, cols}, seed, placement, -3, 3);
  TestTensor codes(code, {rows, cols}, placement),
      scales(DType::f32, {blocks(rows, block_rows), blocks(cols, block_cols)});
  compare_with_reference<QuantiseArgs>(
      device, ops::quantise_reference_run, {&codes, &scales}, kExactly,
      [&](const At& at) { return QuantiseArgs{at(codes), at(scales), {}, at(x), block_rows, block_cols, false}; },
      kPortable);
  TestTensor y(DType::f16, {rows, cols}, placement);
  compare_with_reference<DequantiseArgs>(
      device, ops::dequantise_reference_run, {&y}, kExactly,
      [&](const At& at) { return DequantiseArgs{at(y), at(codes), at(scales), {}, block_rows, block_cols}; },
      kPortable);
}

// Every bf16 number by a scale of 1: all codes, ties, subnormals, saturation, infinities and NaN of all three kinds.
TEST_P(QuantTest, EveryBf16NumberGetsTheRightCode) {
  TestTensor x(DType::bf16, {256, 256});
  for (int i = 0; i < 65536; ++i) x.host().as<uint16_t>()[i] = static_cast<uint16_t>(i);
  TestTensor one = TestTensor::of(DType::f32, {1, 1}, {1.0});
  for (const DType code : kCodes) {
    SCOPED_TRACE(dtype_info(code).name);
    TestTensor codes(code, {256, 256});
    const auto wanted = compare_with_reference<QuantiseArgs>(
        device(), ops::quantise_reference_run, {&codes}, kExactly,
        [&](const At& at) { return QuantiseArgs{at(codes), at(one), {}, at(x), 0, 0, true}; }, kPortable);
    int64_t different = 0;
    for (int64_t i = 0; i < 65536; ++i) different += codes.host().as<uint8_t>()[i] != wanted[0].host().as<uint8_t>()[i];
    EXPECT_EQ(different, 0) << "bytes, NaN codes and signs of zero included";
  }
}

TEST_P(QuantTest, EveryCodeComesBackExactly) {
  for (const DType code : kCodes) {
    TestTensor codes(code, {4, 64}), y(DType::f32, {4, 64}), one = TestTensor::of(DType::f32, {1, 1}, {1.0});
    for (int i = 0; i < 256; ++i) codes.host().as<uint8_t>()[i] = static_cast<uint8_t>(i);
    compare_with_reference<DequantiseArgs>(
        device(), ops::dequantise_reference_run, {&y}, kExactly,
        [&](const At& at) { return DequantiseArgs{at(y), at(codes), at(one), {}, 0, 0}; }, kPortable);
  }
}

TEST_P(QuantTest, PerTokenSizesTypesAndStrides) {
  uint64_t seed = 1;
  for (const DType code : kCodes) {
    for (const int64_t cols : {1, 7, 8, 9, 128, 131, 256, 1000, 2048, 2880, 4096, 5120, 8200, 16392, 33000}) {
      check(device(), kTypes[seed % 3], code, 5, cols, 1, 0, {}, seed);
      check(device(), kTypes[(seed + 1) % 3], code, 3, cols, 1, 0, {.padding = {3}, .offset = 1}, seed + 1);
      seed += 2;
    }
  }
  check(device(), DType::bf16, DType::f8_e4m3, 2, 20000, 1, 0, {}, seed);
  check(device(), DType::f16, DType::i8, 2, 20001, 1, 0, {}, seed);
  if (!slow()) check(device(), DType::f32, DType::f8_e4m3, 2, 1 << 18, 1, 0, {}, seed);
}

TEST_P(QuantTest, BlocksOfEveryShape) {
  uint64_t seed = 100;
  struct Shape {
    int64_t rows, cols, block_rows, block_cols;
  };
  for (const Shape s : {Shape{5, 512, 1, 128},
                        {5, 500, 1, 128},
                        {5, 64, 1, 128},
                        {6, 192, 1, 64},
                        {3, 96, 1, 32},
                        {130, 260, 128, 128},
                        {256, 256, 128, 128},
                        {40, 33, 16, 16},
                        {20, 50, 0, 0},
                        {20, 50, 0, 1},
                        {9, 4, 2, 3},
                        {64, 3000, 0, 0},
                        {700, 300, 0, 0}}) {
    for (const DType code : kCodes) {
      ++seed;
      check(device(), kTypes[seed % 3], code, s.rows, s.cols, s.block_rows, s.block_cols, {}, seed);
    }
    check(device(), DType::bf16, DType::f8_e4m3, s.rows, s.cols, s.block_rows, s.block_cols,
          {.padding = {5}, .offset = 3}, seed);
  }
}

TEST_P(QuantTest, ScalesDownTheColumns) {
  TestTensor x = TestTensor::random(DType::bf16, {6, 512}, 7), codes(DType::f8_e4m3, {6, 512}),
             scales(DType::f32, {4, 6});
  compare_with_reference<QuantiseArgs>(
      device(), ops::quantise_reference_run, {&codes, &scales}, kExactly,
      [&](const At& at) {
        TensorView s = at(scales);
        std::swap(s.extent[0], s.extent[1]);
        std::swap(s.stride[0], s.stride[1]);
        return QuantiseArgs{at(codes), s, {}, at(x), 1, 128, false};
      },
      kPortable);
}

// Case Q-01: a scale of 1 for zeros, and no codes at the ends for tiny values.
TEST_P(QuantTest, ZeroAndTinyBlocks) {
  for (const DType code : kCodes) {
    TestTensor x(DType::f32, {256, 256}), codes(code, {256, 256}), scales(DType::f32, {2, 2});
    x.fill(0.0);
    x.set(0, 1.0);
    for (int64_t i = 0; i < 4; ++i) x.set((128 + i) * 256 + 128 + i, 1e-30);
    const auto make = [&](const At& at) { return QuantiseArgs{at(codes), at(scales), {}, at(x), 128, 128, false}; };
    compare_with_reference<QuantiseArgs>(device(), ops::quantise_reference_run, {&codes, &scales}, kExactly, make,
                                         kPortable);
    EXPECT_EQ(scales.get(1), 1.0);
    EXPECT_EQ(scales.get(2), 1.0);
    EXPECT_GT(scales.get(3), 0.0);
    EXPECT_EQ(codes.get(255), 0.0);
    EXPECT_EQ(codes.get(0), static_cast<double>(ops::largest_code(code)));
    EXPECT_EQ(codes.get(1), 0.0);

    TestTensor small(DType::f32, {3, 40}), small_codes(code, {3, 40}), small_scales(DType::f32, {3, 1});
    small.fill(0.0);
    small.set(40, 1e-45);  // the smallest subnormal: its scale would be 0
    small.set(80, 1e-38);
    compare_with_reference<QuantiseArgs>(
        device(), ops::quantise_reference_run, {&small_codes, &small_scales}, kExactly,
        [&](const At& at) {
          return QuantiseArgs{at(small_codes), at(small_scales), {}, at(small)};
        },
        kPortable);
    EXPECT_EQ(small_scales.get(0), 1.0);
  }
}

// Case Q-02: half to even, then the ends.
TEST_P(QuantTest, Int8RoundsAndSaturates) {
  const double inf = HUGE_VAL;
  TestTensor x =
      TestTensor::of(DType::f32, {1, 14},
                     {0.5, 1.5, 2.5, -0.5, 126.5, 127.4, 127.6, 300, -127.6, -128.4, -300, inf, -inf, std::nan("")});
  TestTensor one = TestTensor::of(DType::f32, {1, 1}, {1.0}), codes(DType::i8, {1, 14});
  run_on<QuantiseArgs>(
      device(), {&codes}, [&](const At& at) { return QuantiseArgs{at(codes), at(one), {}, at(x), 0, 0, true}; },
      kPortable);
  const std::vector<double> wanted{0, 2, 2, 0, 126, 127, 127, 127, -128, -128, -128, 127, -128, 0};
  EXPECT_EQ(codes.values(), wanted);
}

TEST_P(QuantTest, NaNAndInfinitiesChooseNoScale) {
  for (const DType code : kCodes) {
    TestTensor x = TestTensor::random(DType::f32, {3, 200}, 5), codes(code, {3, 200}), scales(DType::f32, {3, 1});
    x.set(3, std::nan(""));
    x.set(201, HUGE_VAL);
    x.set(202, -HUGE_VAL);
    for (int64_t i = 400; i < 600; ++i) x.set(i, std::nan(""));
    compare_with_reference<QuantiseArgs>(
        device(), ops::quantise_reference_run, {&codes, &scales}, kExactly,
        [&](const At& at) {
          return QuantiseArgs{at(codes), at(scales), {}, at(x)};
        },
        kPortable);
    EXPECT_EQ(codes.get(201), code == DType::i8 ? 127.0 : static_cast<double>(ops::largest_code(code)));
    EXPECT_EQ(std::isnan(codes.get(3)), code != DType::i8);
    EXPECT_EQ(scales.get(2), 1.0);
  }
}

TEST_P(QuantTest, GivenScalesOfEveryShape) {
  constexpr int64_t kAll = 0;
  for (const auto& [block_rows, block_cols, cols] : {std::tuple<int64_t, int64_t, int64_t>{kAll, kAll, 200},
                                                     {1, kAll, 200},
                                                     {1, 64, 200},
                                                     {4, 64, 200},
                                                     {kAll, kAll, 20000},
                                                     {1, kAll, 20000}}) {
    TestTensor x = TestTensor::random(DType::bf16, {10, cols}, 3, {}, -4, 4), codes(DType::f8_e4m3, {10, cols});
    TestTensor scales =
        TestTensor::random(DType::f32, {blocks(10, block_rows), blocks(cols, block_cols)}, 4, {}, 0.01, 0.1);
    compare_with_reference<QuantiseArgs>(
        device(), ops::quantise_reference_run, {&codes}, kExactly,
        [&](const At& at) { return QuantiseArgs{at(codes), at(scales), {}, at(x), block_rows, block_cols, true}; },
        kPortable);
  }
}

TEST_P(QuantTest, Int4WithAndWithoutZeroPoints) {
  uint64_t seed = 200;
  for (const DType dtype : kTypes) {
    for (const int64_t group : {16, 32, 64, 128, 256}) {
      for (const bool zeros : {false, true}) {
        for (const Placement& placement : {Placement{}, Placement{.padding = {3}, .offset = 1}}) {
          SCOPED_TRACE(testing::Message() << dtype_info(dtype).name << " group " << group
                                          << (zeros ? " with" : " without") << " zero points");
          TestTensor x = TestTensor::random(dtype, {5, 256}, seed++, placement, -1.0, 2.0);
          for (int64_t i = 256; i < 256 + group; ++i) x.set(i, 0.0);
          x.set(512, std::nan(""));
          x.set(513, HUGE_VAL);
          TestTensor codes(DType::u8, {5, 128}, placement), scales(DType::f32, {5, 256 / group}),
              zero_points(DType::u8, {5, 256 / group});
          std::vector<TestTensor*> outputs{&codes, &scales};
          if (zeros) outputs.push_back(&zero_points);
          compare_with_reference<QuantiseArgs>(
              device(), ops::quantise_reference_run, outputs, kExactly,
              [&](const At& at) {
                return QuantiseArgs{at(codes), at(scales), zeros ? at(zero_points) : TensorView{}, at(x), 1,
                                    group,     false};
              },
              kPortable);
          TestTensor y(DType::bf16, {5, 256}, placement);
          compare_with_reference<DequantiseArgs>(
              device(), ops::dequantise_reference_run, {&y}, kExactly,
              [&](const At& at) {
                return DequantiseArgs{at(y), at(codes), at(scales), zeros ? at(zero_points) : TensorView{}, 1, group};
              },
              kPortable);
        }
      }
    }
  }
}

// Case Q-03: each group has its own zero point.
TEST_P(QuantTest, Int4ZeroPointsOfSeveralGroups) {
  for (const int64_t group : {16, 32, 64, 128}) {
    const int64_t groups = 128 / group;
    TestTensor codes(DType::u8, {1, 64}), scales(DType::f32, {1, groups}), zeros(DType::u8, {1, groups}),
        y(DType::f32, {1, 128});
    codes.fill(0x88);
    scales.fill(1.0);
    const int zero_points[] = {1, 8, 15, 3, 0, 2, 9, 11};
    double wanted = 0;
    for (int64_t g = 0; g < groups; ++g) {
      zeros.set(g, zero_points[g]);
      wanted += static_cast<double>(group) * (8 - zero_points[g]);
    }
    run_on<DequantiseArgs>(
        device(), {&y}, [&](const At& at) { return DequantiseArgs{at(y), at(codes), at(scales), at(zeros), 1, group}; },
        kPortable);
    double sum = 0;
    for (const double v : y.values()) sum += v;
    EXPECT_EQ(sum, wanted);
    EXPECT_TRUE(group != 32 || sum == 160.0);
  }
}

TEST_P(QuantTest, GgufBlocks) {
  for (const DType q : {DType::q4_0, DType::q5_0, DType::q8_0, DType::q4_k, DType::q6_k}) {
    for (const DType dtype : kTypes) {
      for (const int64_t cols : {256, 512, 2560}) {
        SCOPED_TRACE(testing::Message() << dtype_info(q).name << " to " << dtype_info(dtype).name);
        TestTensor codes = TestTensor::random(q, {5, cols}, 9), y(dtype, {5, cols}, {.padding = {8}});
        compare_with_reference<DequantiseArgs>(
            device(), ops::dequantise_reference_run, {&y}, {.scale = 1.0},
            [&](const At& at) {
              return DequantiseArgs{at(y), at(codes), {}, {}};
            },
            kPortable);
      }
    }
  }
  TestTensor codes = TestTensor::random(DType::q4_0, {3, 32}, 9), y(DType::f32, {3, 32});
  compare_with_reference<DequantiseArgs>(
      device(), ops::dequantise_reference_run, {&y}, {.scale = 1.0},
      [&](const At& at) {
        return DequantiseArgs{at(y), at(codes), {}, {}};
      },
      kPortable);
}

// One pass gives the bits of two.
TEST_P(QuantTest, GatedEqualsActivationThenQuantise) {
  uint64_t seed = 300;
  for (const DType dtype : kTypes) {
    for (const DType code : kCodes) {
      for (const int64_t cols : {5, 128, 300, 1024, 2048, 2880, 11008, 20000}) {
        for (const int64_t group : {0, 128}) {
          const auto activation = static_cast<Activation>(seed % 4);
          SCOPED_TRACE(testing::Message() << dtype_info(dtype).name << " " << dtype_info(code).name << " cols " << cols
                                          << " group " << group << " activation " << static_cast<int>(activation));
          TestTensor packed = TestTensor::random(dtype, {3, 2 * cols}, seed++, {}, -4, 4), product(dtype, {3, cols});
          TestTensor codes(code, {3, cols}), scales(DType::f32, {3, blocks(cols, group)}), fused_codes = codes,
                                                                                           fused_scales = scales;
          const auto half = [&](const At& at, int i) { return at(packed).slice(1, i * cols, (i + 1) * cols); };
          run_on<GatedActivationArgs>(
              device(), {&product},
              [&](const At& at) {
                return GatedActivationArgs{at(product), half(at, 0), half(at, 1), activation};
              },
              kPortable);
          run_on<QuantiseArgs>(
              device(), {&codes, &scales},
              [&](const At& at) { return QuantiseArgs{at(codes), at(scales), {}, at(product), 1, group, false}; },
              kPortable);
          run_on<GatedQuantiseArgs>(
              device(), {&fused_codes, &fused_scales},
              [&](const At& at) {
                return GatedQuantiseArgs{
                    at(fused_codes), at(fused_scales), half(at, 0), half(at, 1), activation, group, false};
              },
              kPortable);
          EXPECT_TRUE(is_identical(fused_codes, codes));
          EXPECT_TRUE(is_identical(fused_scales, scales));
          EXPECT_TRUE(fused_codes.guards_intact());
        }
      }
    }
  }
  TestTensor gate = TestTensor::random(DType::bf16, {4, 300}, 1), up = TestTensor::random(DType::bf16, {4, 300}, 2);
  TestTensor codes(DType::f8_e4m3, {4, 300}), scale = TestTensor::of(DType::f32, {1, 1}, {0.002});
  compare_with_reference<GatedQuantiseArgs>(
      device(), ops::gated_quantise_reference_run, {&codes}, {.absolute = 32.0},
      [&](const At& at) {
        return GatedQuantiseArgs{at(codes), at(scale), at(gate), at(up), Activation::silu, 0, true};
      },
      kPortable);
}

TEST_P(QuantTest, ARowAloneHasTheBitsOfTheBatch) {
  for (const int64_t cols : {128, 1000, 4096, 20000, 50000}) {
    TestTensor x = TestTensor::random(DType::bf16, {7, cols}, 11), codes(DType::f8_e4m3, {7, cols}),
               scales(DType::f32, {7, 1});
    run_on<QuantiseArgs>(
        device(), {&codes, &scales},
        [&](const At& at) {
          return QuantiseArgs{at(codes), at(scales), {}, at(x)};
        },
        kPortable);
    for (const int64_t r : {0, 3, 6}) {
      TestTensor one_codes(DType::f8_e4m3, {1, cols}), one_scale(DType::f32, {1, 1});
      run_on<QuantiseArgs>(
          device(), {&one_codes, &one_scale},
          [&](const At& at) {
            return QuantiseArgs{at(one_codes), at(one_scale), {}, at(x).slice(0, r, r + 1)};
          },
          kPortable);
      ASSERT_EQ(one_scale.get(0), scales.get(r));
      for (int64_t c = 0; c < cols; ++c) ASSERT_EQ(one_codes.get(c), codes.get(r * cols + c)) << c;
    }
  }
}

// Few rows have other programs than many.
TEST_P(QuantTest, AGatedRowAloneHasTheBitsOfTheBatch) {
  for (const int64_t cols : {2064, 4096}) {
    constexpr int64_t kRows = 150;
    TestTensor gate = TestTensor::random(DType::bf16, {kRows, cols}, 21, {}, -4, 4),
               up = TestTensor::random(DType::bf16, {kRows, cols}, 22, {}, -4, 4), codes(DType::f8_e4m3, {kRows, cols}),
               scales(DType::f32, {kRows, 1});
    run_on<GatedQuantiseArgs>(
        device(), {&codes, &scales},
        [&](const At& at) {
          return GatedQuantiseArgs{at(codes), at(scales), at(gate), at(up), Activation::silu, 0, false};
        },
        kPortable);
    for (const int64_t r : {0, 75, 149}) {
      TestTensor one_codes(DType::f8_e4m3, {1, cols}), one_scale(DType::f32, {1, 1});
      run_on<GatedQuantiseArgs>(
          device(), {&one_codes, &one_scale},
          [&](const At& at) {
            return GatedQuantiseArgs{at(one_codes), at(one_scale), at(gate).slice(0, r, r + 1), at(up).slice(0, r, r + 1),
                                     Activation::silu, 0, false};
          },
          kPortable);
      ASSERT_EQ(one_scale.get(0), scales.get(r));
      for (int64_t c = 0; c < cols; ++c) ASSERT_EQ(one_codes.get(c), codes.get(r * cols + c)) << c;
    }
  }
}

// Rows past the 2^31st element, in mappings of which only a few pages exist.
TEST_P(QuantTest, OffsetsBeyond2To31) {
  if (!device().host_memory()) GTEST_SKIP() << "the sparse mapping is host memory";
  constexpr int64_t kStride = int64_t{1} << 30, kCols = 64;
  const size_t bytes = static_cast<size_t>(3 * kStride + kCols) * 2;
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  void* const code_memory =
      mmap(nullptr, bytes / 2, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED || code_memory == MAP_FAILED) GTEST_SKIP() << "no address space";
  TensorView x(memory, DType::bf16, {4, kCols}, device()), codes(code_memory, DType::f8_e4m3, {4, kCols}, device());
  x.stride[0] = codes.stride[0] = kStride;
  ops::RandomData(3).fill(x.as<bfloat16_t>() + 3 * kStride, DType::bf16, kCols);
  TestTensor scales(DType::f32, {4, 1});
  {
    Stream stream(device());
    Context context(stream);
    context.tier = kPortable;
    run(context, QuantiseArgs{codes, scales.on(stream), {}, x});
    stream.synchronize();
    scales.fetch(stream);
  }
  TestTensor row(DType::bf16, {1, kCols}), wanted(DType::f8_e4m3, {1, kCols}), wanted_scale(DType::f32, {1, 1});
  for (int64_t c = 0; c < kCols; ++c) row.set(c, ops::reference::get(x, 3 * kStride + c));
  ops::quantise_reference_run({wanted.host(), wanted_scale.host(), {}, row.host()});
  EXPECT_EQ(scales.get(3), wanted_scale.get(0));
  for (int64_t c = 0; c < kCols; ++c) EXPECT_EQ(ops::reference::get(codes, 3 * kStride + c), wanted.get(c)) << c;
  munmap(memory, bytes);
  munmap(code_memory, bytes / 2);
}

TEST_P(QuantTest, NoRowsAndNoColumns) {
  TestTensor x(DType::bf16, {0, 64}), codes(DType::i8, {0, 64}), scales(DType::f32, {0, 1});
  run_on<QuantiseArgs>(device(), {}, [&](const At& at) { return QuantiseArgs{at(codes), at(scales), {}, at(x)}; });
}

TEST(QuantErrors, Refusals) {
  TestTensor x(DType::bf16, {4, 256}), codes(DType::f8_e4m3, {4, 256}), scales(DType::f32, {4, 2});
  const QuantiseArgs good{codes.host(), scales.host(), {}, x.host(), 1, 128, false};
  EXPECT_NO_THROW(plan(Device{}, good));
  const auto refuses = [&](const std::vector<std::string>& words, auto change) {
    QuantiseArgs bad = good;
    change(bad);
    expect_error(ErrorCode::invalid_argument, words, [&] { plan(Device{}, bad); });
  };
  refuses({"quantise: x", "dtype i8"}, [](QuantiseArgs& a) { a.x.dtype = DType::i8; });
  refuses({"quantise: codes", "dtype bf16", "f8_e4m3"}, [](QuantiseArgs& a) { a.codes.dtype = DType::bf16; });
  refuses({"quantise: codes", "255"}, [](QuantiseArgs& a) { a.codes.extent[1] = 255; });
  refuses({"quantise: codes", "innermost stride 2"}, [](QuantiseArgs& a) { a.codes.stride[1] = 2; });
  refuses({"quantise: scales", "extent 2", "4"}, [](QuantiseArgs& a) { a.block_cols = 64; });
  refuses({"quantise: scales", "extent 4", "1"}, [](QuantiseArgs& a) { a.block_rows = 0; });
  refuses({"quantise: scales", "null"}, [](QuantiseArgs& a) { a.scales.data = nullptr; });
  refuses({"quantise: scales", "dtype"}, [](QuantiseArgs& a) { a.scales.dtype = DType::f16; });
  refuses({"quantise: block_rows", "-1"}, [](QuantiseArgs& a) { a.block_rows = -1; });
  refuses({"quantise: codes", "shared with x"}, [](QuantiseArgs& a) { a.codes.data = a.x.data; });
  refuses({"quantise: zero_points"}, [&](QuantiseArgs& a) { a.zero_points = a.scales; });
  TestTensor nibbles(DType::u8, {4, 128});
  refuses({"quantise: block_cols", "96"}, [&](QuantiseArgs& a) {
    a.codes = nibbles.host();
    a.block_cols = 96;
    a.scales.extent[1] = a.scales.stride[0] = 3;
  });
  refuses({"quantise: given_scales"}, [&](QuantiseArgs& a) {
    a.codes = nibbles.host();
    a.given_scales = true;
  });
}

}  // namespace
}  // namespace monotile
