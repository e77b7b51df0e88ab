// Layer norm, grouped norms and norms with quantised output, on every device against the oracle.

#include "ops/norm/norm.hpp"
#include "ops/quant/quant.hpp"
#include "tests/ops/test_util.hpp"

namespace monotile {
namespace {

using namespace test;  // NOLINT
using ops::LayerNormArgs;
using ops::QuantiseArgs;
using ops::RmsNormArgs;
using ops::RmsNormQuantiseArgs;

const TierPolicy kPortable{Tier::portable, false};

class NormPartsTest : public OnDevice {};
MONOTILE_ON_DEVICES(NormPartsTest);

struct Combination {
  DType x, residual, gamma;
};
constexpr Combination kCombinations[] = {
    {DType::f32, DType::f32, DType::f32},    {DType::f16, DType::f16, DType::f16},
    {DType::bf16, DType::bf16, DType::bf16}, {DType::f16, DType::f32, DType::f32},
    {DType::bf16, DType::f32, DType::bf16},  {DType::bf16, DType::bf16, DType::f32}};

void check_layer_norm(Device device, const Combination& types, std::vector<int64_t> extents, bool with_residual,
                      bool with_beta, bool grouped, const Placement& placement, uint64_t seed) {
  SCOPED_TRACE(testing::Message() << dtype_info(types.x).name << " " << dtype_info(types.residual).name << " cols "
                                  << extents.back() << (with_residual ? " residual" : "") << (with_beta ? " beta" : "")
                                  << (grouped ? " grouped" : ""));
  TestTensor x = TestTensor::random(types.x, extents, seed, placement, -2.0, 3.0), y(types.x, extents, placement);
  TestTensor residual = TestTensor::random(types.residual, extents, seed + 1, placement, -2.0, 2.0);
  std::vector<int64_t> gamma_extents{extents.back()};
  if (grouped) gamma_extents.insert(gamma_extents.begin(), extents[extents.size() - 2]);
  TestTensor gamma = TestTensor::random(types.gamma, gamma_extents, seed + 2),
             beta = TestTensor::random(types.gamma, gamma_extents, seed + 3);
  std::vector<TestTensor*> outputs{&y};
  if (with_residual) outputs.push_back(&residual);
  compare_with_reference<LayerNormArgs>(
      device, ops::layer_norm_reference_run, outputs, {.absolute = 3e-6, .scale = 2.0},
      [&](const At& at) {
        return LayerNormArgs{at(y),
                             with_residual ? at(residual) : TensorView{},
                             at(x),
                             at(gamma),
                             with_beta ? at(beta) : TensorView{},
                             1e-5f,
                             with_beta ? 1.0f : 0.0f};
      },
      kPortable);
}

TEST_P(NormPartsTest, LayerNormSizesAndTypes) {
  uint64_t seed = 1;
  for (const int64_t cols : {1, 7, 8, 64, 128, 129, 333, 2048, 2880, 4096, 5120, 7168, 8200}) {
    for (const Placement& placement : {Placement{}, Placement{.padding = {3}, .offset = 1}}) {
      const Combination& types = kCombinations[seed % std::size(kCombinations)];
      check_layer_norm(device(), types, {5, cols}, seed % 2 == 0, seed % 3 != 0, false, placement, seed);
      ++seed;
    }
  }
  // The longest row of a team, and one that is longer.
  check_layer_norm(device(), kCombinations[2], {1, 131072}, true, true, false, {}, ++seed);
  check_layer_norm(device(), kCombinations[0], {1, 131080}, false, true, false, {}, ++seed);
  for (const Combination& types : kCombinations) {
    check_layer_norm(device(), types, {3, 1000}, true, true, false, {}, ++seed);
    check_layer_norm(device(), types, {3, 20000}, true, false, false, {}, ++seed);
    check_layer_norm(device(), types, {2, 20001}, false, true, false, {}, ++seed);
    check_layer_norm(device(), types, {2, 33000}, seed % 2 == 0, true, false, {.padding = {8}}, seed + 1);
    check_layer_norm(device(), types, {4, 3, 72}, true, true, true, {}, ++seed);
  }
}

// Case N-02: a large mean and a small spread; a constant row.
TEST_P(NormPartsTest, LayerNormWithALargeMean) {
  TestTensor x = TestTensor::of(DType::f32, {1, 4}, {40000, 40001, 40002, 40003}), y(DType::f32, {1, 4});
  TestTensor gamma = TestTensor::of(DType::f32, {1, 1, 1, 1});
  run_on<LayerNormArgs>(
      device(), {&y}, [&](const At& at) { return LayerNormArgs{at(y), {}, at(x), at(gamma), {}, 1e-5f, 0.0f}; },
      kPortable);
  const double wanted[] = {-1.3416354, -0.4472118, 0.4472118, 1.3416354};
  for (int i = 0; i < 4; ++i) EXPECT_NEAR(y.get(i), wanted[i], 1e-5);
  for (const int64_t cols : {256, 5000, 20000}) {
    TestTensor constant(DType::f32, {1, cols}), ones(DType::f32, {cols}), out(DType::f32, {1, cols});
    constant.fill(1234.0);
    ones.fill(1.0);
    run_on<LayerNormArgs>(
        device(), {&out},
        [&](const At& at) { return LayerNormArgs{at(out), {}, at(constant), at(ones), {}, 1e-5f, 0.0f}; }, kPortable);
    for (int64_t c = 0; c < cols; ++c) ASSERT_EQ(out.get(c), 0.0) << c;
    // Spread of 2 about a mean of 30000, where squares alone keep no digit of the variance.
    TestTensor far = TestTensor::random(DType::f32, {2, cols}, 5, {}, 29999.0, 30001.0), far_out(DType::f32, {2, cols});
    compare_with_reference<LayerNormArgs>(
        device(), ops::layer_norm_reference_run, {&far_out}, {.absolute = 1e-4, .scale = 1.0},
        [&](const At& at) { return LayerNormArgs{at(far_out), {}, at(far), at(ones), {}, 1e-5f, 0.0f}; }, kPortable);
  }
}

TEST_P(NormPartsTest, RmsNormWithAGammaForEachGroup) {
  uint64_t seed = 50;
  for (const Combination& types : kCombinations) {
    for (const int64_t cols : {64, 100, 256, 2560, 20000}) {
      TestTensor x = TestTensor::random(types.x, {3, 4, cols}, seed, {.padding = {cols}}), y(types.x, {3, 4, cols});
      TestTensor residual = TestTensor::random(types.residual, {3, 4, cols}, seed + 1);
      TestTensor gamma = TestTensor::random(types.gamma, {4, cols}, seed + 2, {.padding = {8}});
      compare_with_reference<RmsNormArgs>(
          device(), ops::rms_norm_reference_run, {&y, &residual}, {},
          [&](const At& at) {
            return RmsNormArgs{.y = at(y),
                               .residual = at(residual),
                               .x = at(x),
                               .gamma = at(gamma),
                               .beta = {},
                               .eps = 1e-6f,
                               .gamma_offset = 1.0f};
          },
          kPortable);
      seed += 3;
    }
  }
}

// One launch gives the bits of three: add and norm, then codes.
TEST_P(NormPartsTest, NormThenCodesInOne) {
  uint64_t seed = 100;
  for (const DType code : {DType::f8_e4m3, DType::f8_e5m2, DType::i8}) {
    for (const int64_t cols :
         {8, 100, 128, 256, 1000, 2048, 2880, 4096, 5120, 7168, 16384, 16392, 20000, 33000, 50000}) {
      const Combination& types = kCombinations[seed % std::size(kCombinations)];
      const bool with_residual = seed % 4 != 0, with_beta = seed % 3 == 0, with_y = seed % 2 == 0;
      SCOPED_TRACE(testing::Message() << dtype_info(types.x).name << " to " << dtype_info(code).name << " cols " << cols
                                      << (with_residual ? " residual" : "") << (with_beta ? " beta" : "")
                                      << (with_y ? " y" : ""));
      TestTensor x = TestTensor::random(types.x, {3, cols}, seed, {}, -2, 2),
                 residual = TestTensor::random(types.residual, {3, cols}, seed + 1);
      TestTensor gamma = TestTensor::random(types.gamma, {cols}, seed + 2),
                 beta = TestTensor::random(types.gamma, {cols}, seed + 3);
      TestTensor y(types.x, {3, cols}), codes(code, {3, cols}), scales(DType::f32, {3, 1});
      TestTensor fused_y = y, fused_codes = codes, fused_scales = scales, fused_residual = residual;
      std::vector<TestTensor*> outputs{&y};
      if (with_residual) outputs.push_back(&residual);
      run_on<RmsNormArgs>(
          device(), outputs,
          [&](const At& at) {
            return RmsNormArgs{.y = at(y),
                               .residual = with_residual ? at(residual) : TensorView{},
                               .x = at(x),
                               .gamma = at(gamma),
                               .beta = with_beta ? at(beta) : TensorView{},
                               .eps = 1e-5f,
                               .gamma_offset = 0.5f};
          },
          kPortable);
      run_on<QuantiseArgs>(
          device(), {&codes, &scales},
          [&](const At& at) {
            return QuantiseArgs{at(codes), at(scales), {}, at(y)};
          },
          kPortable);
      outputs = {&fused_codes, &fused_scales};
      if (with_residual) outputs.push_back(&fused_residual);
      if (with_y) outputs.push_back(&fused_y);
      run_on<RmsNormQuantiseArgs>(
          device(), outputs,
          [&](const At& at) {
            return RmsNormQuantiseArgs{at(fused_codes),
                                       at(fused_scales),
                                       with_y ? at(fused_y) : TensorView{},
                                       with_residual ? at(fused_residual) : TensorView{},
                                       at(x),
                                       at(gamma),
                                       with_beta ? at(beta) : TensorView{},
                                       1e-5f,
                                       0.5f,
                                       false};
          },
          kPortable);
      EXPECT_TRUE(is_identical(fused_scales, scales));
      EXPECT_TRUE(is_identical(fused_codes, codes));
      EXPECT_TRUE(fused_codes.guards_intact());
      if (with_residual) {
        EXPECT_TRUE(is_identical(fused_residual, residual));
      }
      if (with_y) {
        EXPECT_TRUE(is_identical(fused_y, y));
      }
      seed += 5;
    }
  }
}

// Case Q-01 in the fused form: rows of zeros; and a given scale.
TEST_P(NormPartsTest, ZeroRowsAndGivenScales) {
  TestTensor x(DType::bf16, {2, 256}), gamma(DType::bf16, {256}), codes(DType::f8_e4m3, {2, 256}),
      scales(DType::f32, {2, 1});
  x.fill(0.0);
  gamma.fill(1.0);
  run_on<RmsNormQuantiseArgs>(
      device(), {&codes, &scales},
      [&](const At& at) { return RmsNormQuantiseArgs{at(codes), at(scales), {}, {}, at(x), at(gamma)}; }, kPortable);
  EXPECT_EQ(scales.get(0), 1.0);
  EXPECT_EQ(scales.get(1), 1.0);
  for (int i = 0; i < 512; ++i) ASSERT_EQ(codes.get(i), 0.0);
  TestTensor some = TestTensor::random(DType::f32, {3, 200}, 4), ones(DType::f32, {200}),
             one = TestTensor::of(DType::f32, {1, 1}, {0.02}), out(DType::i8, {3, 200});
  ones.fill(1.0);
  compare_with_reference<RmsNormQuantiseArgs>(
      device(), ops::rms_norm_quantise_reference_run, {&out}, {.absolute = 1.0},
      [&](const At& at) {
        return RmsNormQuantiseArgs{at(out), at(one), {}, {}, at(some), at(ones), {}, 1e-6f, 0.0f, true};
      },
      kPortable);
  TestTensor longer = TestTensor::random(DType::bf16, {2, 20000}, 5), factor(DType::bf16, {20000}),
             rest(DType::i8, {2, 20000});
  factor.fill(1.0);
  compare_with_reference<RmsNormQuantiseArgs>(
      device(), ops::rms_norm_quantise_reference_run, {&rest}, {.absolute = 1.0},
      [&](const At& at) {
        return RmsNormQuantiseArgs{at(rest), at(one), {}, {}, at(longer), at(factor), {}, 1e-6f, 0.0f, true};
      },
      kPortable);
}

TEST_P(NormPartsTest, ARowAloneHasTheBitsOfTheBatch) {
  for (const int64_t cols : {128, 1000, 4096, 7168, 20000, 33000}) {
    TestTensor x = TestTensor::random(DType::bf16, {9, cols}, 9), gamma = TestTensor::random(DType::bf16, {cols}, 10),
               all(DType::bf16, {9, cols});
    TestTensor codes(DType::i8, {9, cols}), scales(DType::f32, {9, 1});
    run_on<LayerNormArgs>(
        device(), {&all},
        [&](const At& at) {
          return LayerNormArgs{at(all), {}, at(x), at(gamma), {}};
        },
        kPortable);
    run_on<RmsNormQuantiseArgs>(
        device(), {&codes, &scales},
        [&](const At& at) { return RmsNormQuantiseArgs{at(codes), at(scales), {}, {}, at(x), at(gamma)}; }, kPortable);
    for (const int64_t r : {0, 4, 8}) {
      TestTensor one(DType::bf16, {1, cols}), one_codes(DType::i8, {1, cols}), one_scale(DType::f32, {1, 1});
      run_on<LayerNormArgs>(
          device(), {&one},
          [&](const At& at) {
            return LayerNormArgs{at(one), {}, at(x).slice(0, r, r + 1), at(gamma), {}};
          },
          kPortable);
      run_on<RmsNormQuantiseArgs>(
          device(), {&one_codes, &one_scale},
          [&](const At& at) {
            return RmsNormQuantiseArgs{at(one_codes), at(one_scale), {}, {}, at(x).slice(0, r, r + 1), at(gamma)};
          },
          kPortable);
      ASSERT_EQ(one_scale.get(0), scales.get(r));
      for (int64_t c = 0; c < cols; ++c) {
        ASSERT_EQ(one.get(c), all.get(r * cols + c)) << c;
        ASSERT_EQ(one_codes.get(c), codes.get(r * cols + c)) << c;
      }
    }
  }
}

TEST(NormPartsErrors, Refusals) {
  TestTensor x(DType::bf16, {4, 64}), y = x, codes(DType::i8, {4, 64}), scales(DType::f32, {4, 1}),
                                      gamma(DType::bf16, {64});
  const RmsNormQuantiseArgs good{codes.host(), scales.host(), y.host(), {}, x.host(), gamma.host()};
  EXPECT_NO_THROW(plan(Device{}, good));
  const auto refuses = [&](const std::vector<std::string>& words, auto change) {
    RmsNormQuantiseArgs bad = good;
    change(bad);
    expect_error(ErrorCode::invalid_argument, words, [&] { plan(Device{}, bad); });
  };
  refuses({"rms_norm_quantise: codes", "dtype bf16"}, [](RmsNormQuantiseArgs& a) { a.codes.dtype = DType::bf16; });
  refuses({"rms_norm_quantise: scales", "extent 3"}, [](RmsNormQuantiseArgs& a) { a.scales.extent[0] = 3; });
  refuses({"rms_norm_quantise: codes", "shared with x"}, [](RmsNormQuantiseArgs& a) { a.codes.data = a.x.data; });
  refuses({"rms_norm_quantise: x", "rank 3"}, [](RmsNormQuantiseArgs& a) {
    a.x.rank = 3;
    a.x.extent = {1, 4, 64};
    a.x.stride = {256, 64, 1};
  });
  const LayerNormArgs layer{y.host(), {}, x.host(), gamma.host(), {}};
  EXPECT_NO_THROW(plan(Device{}, layer));
  LayerNormArgs bad = layer;
  bad.gamma.extent[0] = 63;
  expect_error(ErrorCode::invalid_argument, {"layer_norm: gamma", "63", "64"}, [&] { plan(Device{}, bad); });
  bad = layer;
  bad.x.stride[1] = 2;
  expect_error(ErrorCode::invalid_argument, {"layer_norm: x", "innermost stride 2"}, [&] { plan(Device{}, bad); });
}

}  // namespace
}  // namespace monotile
