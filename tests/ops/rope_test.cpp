// Rotary embedding on every device against the fp64 oracle.

#include "ops/rope/rope.hpp"

#include "tests/ops/test_util.hpp"

namespace monotile {
namespace {

using namespace test;  // NOLINT
using ops::RopeArgs;

const TierPolicy kPortable{Tier::portable, false};
constexpr DType kTypes[] = {DType::f32, DType::f16, DType::bf16};

class RopeTest : public OnDevice {};
MONOTILE_ON_DEVICES(RopeTest);

struct Shape {
  int64_t tokens, q_heads, kv_heads, head_dim;
  int rotary_dim = 0;  ///< 0: head_dim
};

struct Case {
  DType dtype = DType::bf16;
  bool interleaved = false;
  bool in_place = false;
  Placement placement{};
  DType positions = DType::i32;
};

constexpr int64_t kMaxPosition = 4096;

void check(Device device, const Shape& s, const Case& c, uint64_t seed) {
  const int64_t rotary = s.rotary_dim == 0 ? s.head_dim : s.rotary_dim, half = rotary / 2;
  std::vector<float> cosines(static_cast<size_t>(kMaxPosition * half)), sines(cosines.size());
  ops::build_rope_table(cosines.data(), sines.data(), kMaxPosition, static_cast<int>(rotary), 10000.0);
  TestTensor cos(DType::f32, {kMaxPosition, half}), sin(DType::f32, {kMaxPosition, half});
  std::memcpy(cos.host().data, cosines.data(), cosines.size() * 4);
  std::memcpy(sin.host().data, sines.data(), sines.size() * 4);
  TestTensor positions = TestTensor::random(c.positions, {s.tokens}, seed, {}, 0, kMaxPosition - 1);
  TestTensor q = TestTensor::random(c.dtype, {s.tokens, s.q_heads, s.head_dim}, seed + 1, c.placement, -3, 3);
  TestTensor k = TestTensor::random(c.dtype, {s.tokens, s.kv_heads, s.head_dim}, seed + 2, c.placement, -3, 3);
  TestTensor q_out(c.dtype, {s.tokens, s.q_heads, s.head_dim}, c.placement),
      k_out(c.dtype, {s.tokens, s.kv_heads, s.head_dim}, c.placement);
  if (c.in_place) q_out = q, k_out = k;
  const bool with_k = s.kv_heads > 0;
  std::vector<TestTensor*> outputs{&q_out};
  if (with_k) outputs.push_back(&k_out);
  const auto make = [&](const At& at) {
    RopeArgs args;
    args.q_out = at(q_out);
    args.q = c.in_place ? args.q_out : at(q);
    if (with_k) {
      args.k_out = at(k_out);
      args.k = c.in_place ? args.k_out : at(k);
    }
    args.positions = at(positions);
    args.cos = at(cos);
    args.sin = at(sin);
    args.rotary_dim = s.rotary_dim;
    args.interleaved = c.interleaved;
    return args;
  };
  std::vector<TestTensor> start;
  for (const TestTensor* output : outputs) start.push_back(*output);
  run_reference<RopeArgs>(ops::rope_reference_run, make);
  std::vector<TestTensor> wanted;
  for (size_t i = 0; i < outputs.size(); ++i) {
    wanted.push_back(*outputs[i]);
    *outputs[i] = start[i];
  }
  run_on<RopeArgs>(device, outputs, make, kPortable);
  for (size_t i = 0; i < outputs.size(); ++i) {
    const TestTensor& in = i == 0 ? q : k;
    // The unit of the error is the larger of the pair.
    const auto pair_size = [&](int64_t e) {
      const int64_t col = e % s.head_dim;
      if (col >= rotary) return std::abs(in.get(e));
      const int64_t other = c.interleaved ? e - col + (col ^ 1) : e - col + (col < half ? col + half : col - half);
      return std::max(std::abs(in.get(e)), std::abs(in.get(other)));
    };
    EXPECT_TRUE(is_near(*outputs[i], wanted[i], {.scale_of = pair_size})) << (i == 0 ? "q" : "k");
    EXPECT_TRUE(outputs[i]->guards_intact());
    for (int64_t e = 0; e < outputs[i]->size(); ++e) {
      if (e % s.head_dim < rotary) continue;
      ASSERT_EQ(outputs[i]->get(e), in.get(e)) << "columns past the rotated ones are copied";
    }
  }
}

TEST_P(RopeTest, HeadDimensionsAndDtypes) {
  uint64_t seed = 1;
  for (const DType dtype : kTypes) {
    for (const bool interleaved : {false, true}) {
      for (const bool in_place : {false, true}) {
        for (const int64_t dim : {2, 6, 14, 16, 32, 48, 64, 66, 80, 96, 126, 128, 192, 256, 258, 512}) {
          SCOPED_TRACE(testing::Message() << dtype_info(dtype).name << " dim " << dim
                                          << (interleaved ? " interleaved" : "") << (in_place ? " in place" : ""));
          check(device(), {5, 3, 1, dim}, {dtype, interleaved, in_place}, seed);
          seed += 3;
        }
      }
    }
  }
}

TEST_P(RopeTest, HeadsLongerThanATile) {
  for (const bool interleaved : {false, true}) {
    for (const bool in_place : {false, true}) {
      check(device(), {2, 2, 1, 1040}, {DType::f16, interleaved, in_place}, 5);
      check(device(), {2, 2, 1, 5000}, {DType::f32, interleaved, in_place}, 7);
      check(device(), {2, 2, 1, 5000, 100}, {DType::bf16, interleaved, in_place}, 9);
    }
  }
}

TEST_P(RopeTest, PartialRotation) {
  uint64_t seed = 100;
  for (const DType dtype : kTypes) {
    for (const bool interleaved : {false, true}) {
      for (const bool in_place : {false, true}) {
        for (const auto& [dim, rotary] :
             {std::pair<int64_t, int>{80, 32}, {128, 64}, {256, 64}, {96, 6}, {77, 20}, {64, 62}}) {
          SCOPED_TRACE(testing::Message() << dtype_info(dtype).name << " " << rotary << " of " << dim
                                          << (interleaved ? " interleaved" : "") << (in_place ? " in place" : ""));
          check(device(), {4, 3, 2, dim, rotary}, {dtype, interleaved, in_place}, seed);
          seed += 3;
        }
      }
    }
  }
}

TEST_P(RopeTest, StridesUnalignedPointersAndWidePositions) {
  for (const bool interleaved : {false, true}) {
    for (const bool in_place : {false, true}) {
      check(device(), {7, 8, 2, 64}, {DType::bf16, interleaved, in_place, {.padding = {192}}, DType::i64}, 31);
      check(device(), {7, 3, 2, 64}, {DType::f16, interleaved, in_place, {.padding = {5, 3}, .offset = 1}, DType::i64},
            41);
      check(device(), {7, 3, 2, 66}, {DType::f32, interleaved, in_place, {.padding = {2, 2}, .offset = 2}, DType::i32},
            51);
    }
  }
}

TEST_P(RopeTest, WithoutKeysAndManyTokens) {
  check(device(), {33, 5, 0, 64}, {}, 61);
  check(device(), {slow() ? 20 : 500, 32, 8, 128}, {}, 71);
  check(device(), {1, 1, 1, 64}, {}, 81);
}

// Enough heads that a lane takes several of a token.
TEST_P(RopeTest, HeadsInGroups) {
  const int64_t tokens = slow() ? 131 : 1250;  // 28 heads of 128 are enough then for a large GPU to take them in groups
  uint64_t seed = 200;
  for (const bool interleaved : {false, true}) {
    const bool in_place = interleaved;
    check(device(), {tokens, 32, 8, 32}, {DType::bf16, interleaved, in_place}, seed += 3);
    check(device(), {tokens, 32, 8, 128}, {DType::f16, interleaved, !in_place}, seed += 3);
    check(device(), {tokens, 28, 4, 128}, {DType::bf16, interleaved, in_place, {.padding = {64}}}, seed += 3);
    check(device(), {tokens, 34, 2, 64}, {DType::f32, interleaved, in_place}, seed += 3);
  }
  check(device(), {tokens, 32, 0, 256}, {DType::bf16}, seed);
  check(device(), {tokens, 33, 8, 128}, {DType::bf16}, seed + 3);  // 33 heads are no whole groups
}

TEST_P(RopeTest, NoTokensIsNoWork) {
  check(device(), {0, 3, 2, 64}, {}, 1);
  check(device(), {3, 0, 2, 64}, {}, 1);
}

TEST_P(RopeTest, PositionsOutsideAreClampedAndFlagged) {
  for (const DType dtype : {DType::i32, DType::i64}) {
    TestTensor q = TestTensor::random(DType::f32, {5, 3, 16}, 1), out(DType::f32, {5, 3, 16}),
               status = TestTensor::of(DType::i32, {0, 0, 0, 0, 7});
    TestTensor positions = TestTensor::of(dtype, {0, 9, 10, -1, 3}), cos = TestTensor::random(DType::f32, {10, 8}, 2),
               sin = TestTensor::random(DType::f32, {10, 8}, 3);
    if (dtype == DType::i64) positions.set_integer(2, int64_t{1} << 32);
    compare_with_reference<RopeArgs>(
        device(), ops::rope_reference_run, {&out, &status}, {.scale = 1.0},
        [&](const At& at) {
          RopeArgs args;
          args.q_out = at(out), args.q = at(q), args.positions = at(positions), args.cos = at(cos), args.sin = at(sin),
          args.status = at(status);
          return args;
        },
        kPortable);
    EXPECT_EQ(status.values(), (std::vector<double>{0, 0, 1, 1, 7}));
  }
}

// Case F-02 in small: in place equals out of place, bit by bit.
TEST_P(RopeTest, InPlaceEqualsOutOfPlace) {
  for (const bool interleaved : {false, true}) {
    TestTensor q = TestTensor::random(DType::bf16, {3, 4, 128}, 5), out(DType::bf16, {3, 4, 128}),
               positions = TestTensor::of(DType::i32, {5, 0, 9});
    TestTensor cos = TestTensor::random(DType::f32, {10, 64}, 2), sin = TestTensor::random(DType::f32, {10, 64}, 3);
    const auto args_of = [&](const At& at, const TensorView& y, const TensorView& x) {
      RopeArgs args;
      args.q_out = y, args.q = x, args.positions = at(positions), args.cos = at(cos), args.sin = at(sin),
      args.interleaved = interleaved;
      return args;
    };
    run_on<RopeArgs>(
        device(), {&out}, [&](const At& at) { return args_of(at, at(out), at(q)); }, kPortable);
    run_on<RopeArgs>(
        device(), {&q},
        [&](const At& at) {
          const TensorView same = at(q);
          return args_of(at, same, same);
        },
        kPortable);
    EXPECT_TRUE(is_identical(q, out));
  }
}

using ops::rope_frequencies;
using ops::rope_magnitude;
using ops::rope_scaling_kind;
using ops::RopeScaling;
using Kind = RopeScaling::Kind;

// Case R-01: angles in fp64, positions as integers, up to 131,072.
TEST(RopeTable, AnglesKeepTheirDigits) {
  std::vector<float> cos(1858 * 16), sin(cos.size());
  ops::build_rope_table(cos.data(), sin.data(), 1858, 32, 10000.0);
  EXPECT_NEAR(cos[1857 * 16 + 1], 0.306693, 1e-6);
  EXPECT_NEAR(sin[1857 * 16 + 1], 0.951809, 1e-6);
  constexpr int64_t kLong = 131073;
  std::vector<float> long_cos(kLong), long_sin(kLong);
  ops::build_rope_table(long_cos.data(), long_sin.data(), kLong, 2, 10000.0);
  for (const int64_t p : {257, 8191, 65537, 131072}) {
    EXPECT_NEAR(long_cos[static_cast<size_t>(p)], std::cos(static_cast<double>(p)), 6e-8) << p;
    EXPECT_NEAR(long_sin[static_cast<size_t>(p)], std::sin(static_cast<double>(p)), 6e-8) << p;
  }
}

// Case R-02: which of the configuration's fields gives YaRN's magnitude.
TEST(RopeTable, YarnMagnitude) {
  RopeScaling s{.kind = Kind::yarn, .factor = 64};
  s.attention_factor = 1.0;
  EXPECT_EQ(rope_magnitude(s), 1.0);
  s = {.kind = Kind::yarn, .factor = 16};
  s.mscale = s.mscale_all_dim = 1;
  EXPECT_EQ(rope_magnitude(s), 1.0);
  s.mscale = s.mscale_all_dim = 0;
  EXPECT_NEAR(rope_magnitude(s), 1.2772589, 1e-7);
  s.mscale = 0.707, s.mscale_all_dim = 0;  // one alone does not count
  EXPECT_NEAR(rope_magnitude(s), 1.2772589, 1e-7);
  s = {.kind = Kind::longrope, .factor = 32, .original_context = 4096};
  EXPECT_NEAR(rope_magnitude(s), std::sqrt(1.0 + std::log(32.0) / std::log(4096.0)), 1e-12);
  EXPECT_EQ(rope_magnitude({.kind = Kind::llama3, .factor = 8}), 1.0);
  float cos = 0, sin = 1;
  s = {.kind = Kind::yarn, .factor = 16};
  ops::build_rope_table(&cos, &sin, 1, 2, 10000.0, s);
  EXPECT_NEAR(cos, 1.2772589, 1e-6);
  EXPECT_EQ(sin, 0.0f);
}

// Case R-03: the ratios of llama3's pairs, and the names of the kinds.
TEST(RopeTable, Llama3PairsAndNames) {
  const auto plain = rope_frequencies(128, 500000.0), scaled = rope_frequencies(128, 500000.0, {.kind = Kind::llama3, .factor = 8});
  const std::pair<size_t, double> ratios[] = {{0, 1.0}, {28, 1.0}, {29, 0.828168}, {31, 0.493507}, {34, 0.190211}, {35, 0.125}, {63, 0.125}};
  for (const auto& [pair, ratio] : ratios) EXPECT_NEAR(scaled[pair] / plain[pair], ratio, 1e-6) << pair;
  EXPECT_EQ(rope_scaling_kind("llama3"), Kind::llama3);
  EXPECT_EQ(rope_scaling_kind("default"), Kind::none);
  EXPECT_EQ(rope_scaling_kind(""), Kind::none);
  EXPECT_EQ(rope_scaling_kind("su"), Kind::longrope);
  expect_error(ErrorCode::invalid_argument, {"rope table: type", "'spiral'", "yarn"}, [] { rope_scaling_kind("spiral"); });
}

TEST(RopeTable, NtkStretchesTheLongestWaveAlone) {
  const auto plain = rope_frequencies(64, 10000.0), ntk = rope_frequencies(64, 10000.0, {.kind = Kind::ntk, .factor = 4});
  EXPECT_EQ(ntk[0], plain[0]);
  EXPECT_NEAR(ntk[31] * 4 / plain[31], 1.0, 1e-12);
  for (size_t i = 1; i < 31; ++i) EXPECT_TRUE(ntk[i] < plain[i] && ntk[i] > plain[i] / 4);
  RopeScaling dynamic{.kind = Kind::dynamic_ntk, .factor = 2, .original_context = 2048};
  dynamic.context = 2000;  // within what the model knows: nothing changes
  EXPECT_EQ(rope_frequencies(64, 10000.0, dynamic), plain);
  dynamic.context = 8192;  // 2 x 4 - 1 = 7
  EXPECT_EQ(rope_frequencies(64, 10000.0, dynamic), rope_frequencies(64, 10000.0, {.kind = Kind::ntk, .factor = 7}));
}

TEST(RopeTable, YarnBlendsByTurns) {
  const RopeScaling s{.kind = Kind::yarn, .factor = 16, .original_context = 4096};
  const auto plain = rope_frequencies(128, 10000.0), yarn = rope_frequencies(128, 10000.0, s);
  // Ramp from floor(128 ln(4096 / (32 * 2 pi)) / (2 ln 10000)) = 20 to ceil(128 ln(4096 / 2 pi) / (2 ln 10000)) = 46.
  for (size_t i = 0; i < 64; ++i) {
    const double stretched = std::min(1.0, std::max(0.0, (static_cast<double>(i) - 20.0) / 26.0));
    EXPECT_NEAR(yarn[i] / plain[i], 1.0 - stretched * (1.0 - 1.0 / 16), 1e-12) << i;
  }
}

TEST(RopeTable, LongropeChoosesItsDivisorsByLength) {
  RopeScaling s{.kind = Kind::longrope, .factor = 4, .original_context = 100};
  s.frequency_divisors = {1.0f, 2.0f};
  s.long_divisors = {4.0f, 8.0f};
  s.context = 100;
  EXPECT_NEAR(rope_frequencies(4, 10000.0, s)[1], 0.01 / 2, 1e-12);
  s.context = 101;
  EXPECT_NEAR(rope_frequencies(4, 10000.0, s)[1], 0.01 / 8, 1e-12);
  s.long_divisors = {1.0f};
  expect_error(ErrorCode::invalid_argument, {"rope table: long_divisors", "1 values", "2"}, [&] { rope_frequencies(4, 10000.0, s); });
}

TEST(RopeTable, ScalingRefusals) {
  const auto refuses = [](const std::string& word, const RopeScaling& s) {
    expect_error(ErrorCode::invalid_argument, {"rope table: " + word}, [&] {
      (void)rope_frequencies(64, 10000.0, s);
      (void)rope_magnitude(s);
    });
  };
  refuses("factor", {.kind = Kind::ntk, .factor = 0});
  refuses("original_context", {.kind = Kind::yarn, .factor = 2, .original_context = -1});
  RopeScaling s{.kind = Kind::yarn, .factor = 2};
  s.beta_fast = 1;
  refuses("beta_fast", s);
  s = {.kind = Kind::yarn, .factor = 2};
  s.attention_factor = -1;
  refuses("attention_factor", s);
}

}  // namespace
}  // namespace monotile
