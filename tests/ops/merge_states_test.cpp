// Joining parts of attention, against the fp64 oracle and against attention over all keys.

#include <cmath>
#include <limits>

#include "ops/attention/attention.hpp"
#include "tests/ops/attention_cases.hpp"

namespace monotile {
namespace {

using namespace test;  // NOLINT
using ops::MergeStatesArgs;

constexpr double kInf = std::numeric_limits<double>::infinity();
const TierPolicy kPortable{Tier::portable, false};

class MergeStates : public OnDevice {};
MONOTILE_ON_DEVICES(MergeStates);

TEST_P(MergeStates, DtypesDimsAndStrides) {
  uint64_t seed = 1;
  for (const DType part : {DType::f32, DType::f16, DType::bf16}) {
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
      for (const int64_t dim : {1, 37, 64, 128, 200, 256}) {
        const Placement odd{.padding = {7, 3}, .offset = dim % 2};
        TestTensor a = TestTensor::random(part, {5, 3, dim}, seed++, odd),
                   b = TestTensor::random(part, {5, 3, dim}, seed++);
        TestTensor lse_a = TestTensor::random(DType::f32, {5, 3}, seed++, {.padding = {2}}, -9, 9),
                   lse_b = TestTensor::random(DType::f32, {5, 3}, seed++, {}, -9, 9);
        TestTensor out(dtype, {5, 3, dim}, odd), lse(DType::f32, {5, 3}, {.padding = {1}});
        compare_with_reference<MergeStatesArgs>(
            device(), ops::merge_states_reference, {&out, &lse},
            {.relative = dtype == DType::f32   ? 1e-5
                         : dtype == DType::f16 ? 1e-3
                                               : 8e-3,
             .absolute = 1e-5},
            [&](const At& at) { return MergeStatesArgs{at(out), at(a), at(b), at(lse_a), at(lse_b), at(lse)}; },
            kPortable);
      }
    }
  }
}

// A part without keys counts for nothing, NaN in its row included; two of them give zeros.
TEST_P(MergeStates, PartsWithoutKeys) {
  TestTensor a = TestTensor::random(DType::f32, {5, 1, 64}, 1), b = TestTensor::random(DType::f32, {5, 1, 64}, 2),
             out(DType::f32, {5, 1, 64}), lse(DType::f32, {5, 1});
  TestTensor lse_a = TestTensor::of(DType::f32, {5, 1}, {-kInf, 1, -kInf, NAN, 1e4}),
             lse_b = TestTensor::of(DType::f32, {5, 1}, {2, -kInf, -kInf, 1, -1e4});
  for (int64_t i = 0; i < 64; ++i) a.set(i, NAN), b.set(64 + i, NAN);
  run_on<MergeStatesArgs>(
      device(), {&out, &lse},
      [&](const At& at) { return MergeStatesArgs{at(out), at(a), at(b), at(lse_a), at(lse_b), at(lse)}; }, kPortable);
  for (int64_t i = 0; i < 64; ++i) {
    EXPECT_EQ(out.get(i), b.get(i));
    EXPECT_EQ(out.get(64 + i), a.get(64 + i));
    EXPECT_EQ(out.get(128 + i), 0);
    EXPECT_TRUE(std::isnan(out.get(192 + i)));
    EXPECT_EQ(out.get(256 + i), a.get(256 + i));
  }
  EXPECT_EQ(lse.get(0), 2);
  EXPECT_EQ(lse.get(1), 1);
  EXPECT_EQ(lse.get(2), -kInf);
  EXPECT_TRUE(std::isnan(lse.get(3)));
  EXPECT_EQ(lse.get(4), 1e4);
}

TEST_P(MergeStates, InPlace) {
  TestTensor a = TestTensor::random(DType::bf16, {9, 4, 96}, 1), b = TestTensor::random(DType::bf16, {9, 4, 96}, 2),
             out(DType::bf16, {9, 4, 96});
  TestTensor lse_a = TestTensor::random(DType::f32, {9, 4}, 3), lse_b = TestTensor::random(DType::f32, {9, 4}, 4),
             lse(DType::f32, {9, 4});
  run_on<MergeStatesArgs>(
      device(), {&out, &lse},
      [&](const At& at) { return MergeStatesArgs{at(out), at(a), at(b), at(lse_a), at(lse_b), at(lse)}; }, kPortable);
  Context context(device());
  context.tier = kPortable;
  const TensorView in_place = a.on(context.stream()), logarithms = lse_b.on(context.stream());
  ops::merge_states(context,
                    {in_place, in_place, b.on(context.stream()), lse_a.on(context.stream()), logarithms, logarithms});
  a.fetch(context.stream());
  lse_b.fetch(context.stream());
  EXPECT_TRUE(is_identical(a, out));
  EXPECT_TRUE(is_identical(lse_b, lse));
}

TEST_P(MergeStates, NothingToDo) {
  TestTensor a(DType::f32, {0, 4, 64}), lse(DType::f32, {0, 4});
  run_on<MergeStatesArgs>(
      device(), {&a}, [&](const At& at) { return MergeStatesArgs{at(a), at(a), at(a), at(lse), at(lse), {}}; },
      kPortable);
}

// Attention over the first keys and over the others, joined, is attention over all.
TEST_P(MergeStates, HalvesOfTheKeys) {
  const int64_t keys = 41, dim = 64;
  for (const int64_t first : {int64_t{0}, int64_t{1}, int64_t{20}, keys}) {
    Problem p({.dtype = DType::f32, .heads = 2, .kv_heads = 1, .queries = {3}, .lengths = {keys}, .causal = false}, 50);
    TestTensor parts[3] = {p.out, p.out, p.out}, logarithms[3] = {p.lse, p.lse, p.lse}, merged = p.out, lse = p.lse;
    const int64_t starts[3] = {0, 0, first}, lengths[3] = {keys, first, keys - first};
    for (int i = 0; i < 3; ++i) {
      p.kv_start.set_integer(0, starts[i]);
      p.kv_length.set_integer(0, lengths[i]);
      run_on<AttentionArgs>(
          device(), {&parts[i], &logarithms[i]},
          [&](const At& at) {
            AttentionArgs a = p.args(at);
            a.out = at(parts[i]), a.log_sum_exp = at(logarithms[i]);
            return a;
          },
          kPortable);
    }
    run_on<MergeStatesArgs>(
        device(), {&merged, &lse},
        [&](const At& at) {
          return MergeStatesArgs{at(merged), at(parts[1]), at(parts[2]), at(logarithms[1]), at(logarithms[2]), at(lse)};
        },
        kPortable);
    for (int64_t i = 0; i < 3 * 2 * dim; ++i) ASSERT_NEAR(merged.get(i), parts[0].get(i), 1e-5) << first << ", " << i;
    for (int64_t i = 0; i < 3 * 2; ++i) ASSERT_NEAR(lse.get(i), logarithms[0].get(i), 1e-4) << first << ", " << i;
  }
}

TEST(MergeStatesErrors, SayWhatIsAllowed) {
  TestTensor a(DType::f16, {2, 3, 8}), b(DType::f16, {2, 3, 8}), out(DType::f16, {2, 3, 8}), lse(DType::f32, {2, 3}),
      other(DType::f32, {2, 3});
  const MergeStatesArgs good{out.host(), a.host(), b.host(), lse.host(), other.host(), {}};
  EXPECT_NO_THROW(plan<MergeStatesArgs>(Device{}, good));
  const auto refused = [&](const auto& change, const std::vector<std::string>& words) {
    MergeStatesArgs args = good;
    change(args);
    expect_error(ErrorCode::invalid_argument, words, [&] { plan<MergeStatesArgs>(Device{}, args); });
  };
  refused([](MergeStatesArgs& m) { m.b.dtype = DType::bf16; }, {"merge_states: ", "b: ", "bf16", "f16"});
  refused([](MergeStatesArgs& m) { m.a.extent[2] = 7; }, {"a: ", "7", "8"});
  refused([](MergeStatesArgs& m) { m.out.dtype = DType::i8; }, {"out: ", "i8"});
  refused([](MergeStatesArgs& m) { m.log_sum_exp_a = {}; }, {"log_sum_exp_a: ", "undefined view"});
  refused([](MergeStatesArgs& m) { m.log_sum_exp_b.extent[1] = 2; }, {"log_sum_exp_b: ", "2", "3"});
  refused([&](MergeStatesArgs& m) { m.log_sum_exp = out.host(); }, {"log_sum_exp: "});
  refused([&](MergeStatesArgs& m) { m.out.data = m.a.as<char>() + 2; }, {"out: ", "a"});
}

}  // namespace
}  // namespace monotile
