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

}  // namespace
}  // namespace monotile
