// Mixture of experts on every device against the oracles. Expert ids and positions are exact; only seeds of which no choice lies within
// rounding of another are used where scores decide.

#include "ops/moe/moe.hpp"

#include <algorithm>
#include <numeric>
#include <set>

#include "tests/ops/test_util.hpp"

namespace monotile {
namespace {

using namespace test;  // NOLINT
using ops::AlignArgs;
using ops::CombineArgs;
using ops::DispatchArgs;
using ops::PermuteArgs;
using ops::RouteArgs;
using ops::RouterArgs;
using ops::RouterScore;

const TierPolicy kPortable{Tier::portable, false};
constexpr DType kTypes[] = {DType::f32, DType::f16, DType::bf16};
constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNaN = std::nan("");

class MoeTest : public OnDevice {};
MONOTILE_ON_DEVICES(MoeTest);

// ---- Router ----------------------------------------------------------------------------------------------------------------------------

struct Routed {
  TestTensor weights, experts, status;

  std::vector<int64_t> experts_of(int64_t row, int64_t k) const {
    std::vector<int64_t> list;
    for (int64_t j = 0; j < k; ++j) list.push_back(static_cast<int64_t>(experts.get(row * k + j)));
    return list;
  }
};

/// `options` holds everything but the views.
Routed check_router(Device device, TestTensor& logits, int64_t rows, int64_t k, RouterArgs options = {},
                    TestTensor* bias = nullptr, int64_t weight_padding = 0) {
  Routed r{TestTensor(DType::f32, {rows, k}, {.padding = {weight_padding}}), TestTensor(DType::i32, {rows, k}),
           TestTensor(DType::i32, {rows})};
  compare_with_reference<RouterArgs>(
      device, ops::router_reference_run, {&r.weights, &r.experts, &r.status}, {},
      [&](const At& at) {
        RouterArgs args = options;
        args.weights = at(r.weights), args.experts = at(r.experts), args.logits = at(logits),
        args.status = at(r.status);
        if (bias != nullptr) args.bias = at(*bias);
        return args;
      },
      kPortable);
  return r;
}

TEST_P(MoeTest, RouterOddSizes) {
  uint64_t seed = 1;
  for (const DType dtype : kTypes) {
    for (const int64_t experts : {1, 2, 7, 8, 60, 128, 129, 160, 256, 257, 512, 1000, 2048}) {
      const int64_t k = std::min<int64_t>(experts, 1 + static_cast<int64_t>(seed % 9)), rows = seed % 3 == 0 ? 1 : 19;
      SCOPED_TRACE(testing::Message() << dtype_info(dtype).name << " experts " << experts << " top " << k);
      TestTensor logits = TestTensor::random(
          dtype, {rows, experts}, seed,
          {.padding = {static_cast<int64_t>(seed % 4)}, .offset = static_cast<int64_t>(seed % 3)}, -5, 5);
      RouterArgs options;
      options.renormalise = seed % 2 == 0;
      options.scale = seed % 5 == 0 ? 2.5f : 1.0f;
      options.score = seed % 4 == 3 ? RouterScore::sigmoid : RouterScore::softmax;
      check_router(device(), logits, rows, k, options, nullptr, static_cast<int64_t>(seed % 3));
      ++seed;
    }
  }
}

TEST_P(MoeTest, RouterTakesAllExpertsInOrder) {
  TestTensor logits = TestTensor::random(DType::f32, {5, 40}, 3, {}, -3, 3);
  const Routed r = check_router(device(), logits, 5, 40);
  for (int64_t row = 0; row < 5; ++row) {
    std::vector<int64_t> ids = r.experts_of(row, 40);
    std::sort(ids.begin(), ids.end());
    for (int64_t e = 0; e < 40; ++e) EXPECT_EQ(ids[static_cast<size_t>(e)], e);
  }
}

TEST_P(MoeTest, RouterBiasChoosesButDoesNotWeigh) {
  TestTensor logits = TestTensor::of(DType::f32, {1, 4}, {2, 1, 0, -1}),
             bias = TestTensor::of(DType::f32, {0, 0, 0, 9});
  RouterArgs options;
  options.score = RouterScore::sigmoid;
  const Routed r = check_router(device(), logits, 1, 2, options, &bias);
  EXPECT_EQ(r.experts_of(0, 2), (std::vector<int64_t>{3, 0}));
  EXPECT_NEAR(r.weights.get(0), 1 / (1 + std::exp(1.0)), 1e-6);
}

TEST_P(MoeTest, RouterGroupsAndBias) {
  uint64_t seed = 100;
  for (const auto& [experts, groups, kept, k] : std::vector<std::array<int64_t, 4>>{{8, 4, 2, 3},
                                                                                    {60, 5, 2, 6},
                                                                                    {256, 8, 4, 8},
                                                                                    {160, 8, 3, 6},
                                                                                    {64, 64, 6, 6},
                                                                                    {512, 4, 1, 10},
                                                                                    {30, 1, 1, 30}}) {
    for (const int32_t sum : {1, 2}) {
      for (const DType bias_type : kTypes) {
        SCOPED_TRACE(testing::Message() << experts << " experts in " << groups << " groups, " << kept
                                        << " kept, sum of " << sum);
        TestTensor logits = TestTensor::random(DType::f32, {11, experts}, seed, {}, -4, 4);
        TestTensor bias = TestTensor::random(bias_type, {experts}, seed + 1000, {}, -0.3, 0.3);
        RouterArgs options;
        options.groups = static_cast<int32_t>(groups), options.kept_groups = static_cast<int32_t>(kept);
        options.group_sum = sum;
        options.score = seed % 2 == 0 ? RouterScore::sigmoid : RouterScore::softmax;
        options.renormalise = seed % 3 != 0;
        options.scale = 2.5f;
        check_router(device(), logits, 11, k, options, seed % 4 == 0 ? nullptr : &bias);
        ++seed;
      }
    }
  }
}

/// Logits of few values: all choices fall among ties, which the lower expert (and the lower group) wins.
TEST_P(MoeTest, RouterTiesGoToTheLowerExpert) {
  for (const int64_t experts : {16, 128, 200, 600}) {
    TestTensor logits = TestTensor::random(DType::bf16, {23, experts}, 7, {}, -2, 2);
    for (int64_t i = 0; i < logits.size(); ++i) logits.set(i, std::round(logits.get(i)));
    check_router(device(), logits, 23, 8);
    RouterArgs options;
    options.groups = 8, options.kept_groups = 4;
    check_router(device(), logits, 23, 8, options);
  }
  TestTensor equal(DType::f32, {2, 128});
  equal.fill(-0.25);
  EXPECT_EQ(check_router(device(), equal, 2, 5).experts_of(1, 5), (std::vector<int64_t>{0, 1, 2, 3, 4}));
}

// Case M-01.
TEST_P(MoeTest, RouterRowsThatCannotBeJudged) {
  for (const int64_t experts : {8, 200, 300}) {
    for (const bool sigmoid : {false, true}) {
      TestTensor logits = TestTensor::random(DType::f32, {7, experts}, 5), clean = logits;
      for (int64_t e = 0; e < experts; ++e) {
        logits.set(e, kNaN);
        logits.set(2 * experts + e, -kInf);
        logits.set(3 * experts + e, 1.5);
        logits.set(5 * experts + e, e == experts - 2 ? -3.0 : -kInf);
        if (e % 3 == 1) logits.set(6 * experts + e, kInf);
      }
      logits.set(experts + 3, kNaN);
      RouterArgs options;
      options.score = sigmoid ? RouterScore::sigmoid : RouterScore::softmax;
      for (const bool renormalise : {false, true}) {
        options.renormalise = renormalise;
        const Routed r = check_router(device(), logits, 7, 2, options),
                     alone = check_router(device(), clean, 7, 2, options);
        EXPECT_EQ(r.status.values(),
                  (std::vector<double>{ops::row_has_nan, ops::row_has_nan, ops::row_no_valid_token, 0, 0, 0, 0}));
        for (const int64_t row : {0, 1, 2, 3}) EXPECT_EQ(r.experts_of(row, 2), (std::vector<int64_t>{0, 1}));
        EXPECT_EQ(r.weights.get(0), 0.5);
        for (int64_t i = 0; i < r.weights.size(); ++i) EXPECT_TRUE(std::isfinite(r.weights.get(i)));
        EXPECT_EQ(r.experts_of(5, 2), (std::vector<int64_t>{experts - 2, 0}));
        EXPECT_EQ(r.experts_of(6, 2), (std::vector<int64_t>{1, 4}));
        for (int64_t j = 8; j < 10; ++j)
          EXPECT_EQ(r.weights.get(j), alone.weights.get(j)) << "row 4 changed with its neighbours";
      }
      options.groups = 4, options.kept_groups = 2, options.group_sum = 2;
      TestTensor bias = TestTensor::random(DType::f32, {experts}, 9, {}, -0.1, 0.1);
      const Routed r = check_router(device(), logits, 7, 2, options, &bias);
      for (int64_t row = 0; row < 7; ++row) EXPECT_NE(r.experts_of(row, 2)[0], r.experts_of(row, 2)[1]);
    }
  }
}

TEST_P(MoeTest, RouterScoresThatVanish) {
  TestTensor logits(DType::f32, {2, 12});
  logits.fill(-200.0);
  logits.set(3, -150.0);
  RouterArgs options;
  options.score = RouterScore::sigmoid, options.renormalise = true, options.scale = 3.0f;
  TestTensor bias(DType::f32, {12});
  bias.fill(0.5);
  TestTensor weights(DType::f32, {2, 4}), experts(DType::i32, {2, 4});
  run_on<RouterArgs>(device(), {&weights, &experts}, [&](const At& at) {
    RouterArgs args = options;
    args.weights = at(weights), args.experts = at(experts), args.logits = at(logits), args.bias = at(bias);
    return args;
  });
  for (int64_t i = 0; i < 8; ++i) EXPECT_TRUE(std::isfinite(weights.get(i)));
  for (int64_t j = 0; j < 4; ++j) EXPECT_EQ(weights.get(4 + j), 0.75);  // all equal, or all below the smallest number
}

TEST_P(MoeTest, RouterBatchInvariance) {
  constexpr int64_t kRows = 37;
  for (const int64_t experts : {128, 256, 320}) {
    TestTensor logits = TestTensor::random(DType::bf16, {kRows, experts}, 21, {}, -4, 4);
    RouterArgs options;
    options.groups = 4, options.kept_groups = 2, options.group_sum = 2, options.renormalise = true;
    const Routed all = check_router(device(), logits, kRows, 8, options);
    for (const int64_t row : {0, 1, 17, 36}) {
      TestTensor one(DType::bf16, {1, experts});
      for (int64_t e = 0; e < experts; ++e) one.set(e, logits.get(row * experts + e));
      const Routed alone = check_router(device(), one, 1, 8, options);
      EXPECT_EQ(alone.experts_of(0, 8), all.experts_of(row, 8));
      for (int64_t j = 0; j < 8; ++j) EXPECT_EQ(alone.weights.get(j), all.weights.get(row * 8 + j));
    }
  }
}

// ---- Align -----------------------------------------------------------------------------------------------------------------------------

struct Aligned {
  TestTensor sorted, positions, offsets, counts, block_experts;
};

Aligned check_align(Device device, TestTensor& experts, int64_t tokens, int64_t k, int64_t num_experts, int64_t block,
                    int32_t first_expert = 0, int64_t more = 0) {
  const int64_t capacity = ops::moe_align_capacity(tokens * k, num_experts, block) + more * block;
  Aligned r{TestTensor(DType::i32, {capacity}), TestTensor(DType::i32, {tokens, k}),
            TestTensor(DType::i32, {num_experts + 1}), TestTensor(DType::i32, {num_experts}),
            TestTensor(DType::i32, {capacity / block})};
  compare_with_reference<AlignArgs>(
      device, ops::align_reference_run, {&r.sorted, &r.positions, &r.offsets, &r.counts, &r.block_experts}, {},
      [&](const At& at) {
        AlignArgs args;
        args.sorted = at(r.sorted), args.positions = at(r.positions), args.offsets = at(r.offsets);
        args.counts = at(r.counts), args.block_experts = at(r.block_experts), args.experts = at(experts);
        args.block = block, args.first_expert = first_expert;
        return args;
      },
      kPortable);
  return r;
}

TEST_P(MoeTest, AlignSizes) {
  uint64_t seed = 1;
  for (const auto& [tokens, k] :
       std::vector<std::array<int64_t, 2>>{{1, 1}, {3, 2}, {64, 8}, {512, 8}, {513, 8}, {2500, 6}}) {
    for (const int64_t experts : {1, 8, 60, 128, 700}) {
      if (slow() && tokens > 600 && experts > 128) continue;
      for (const int64_t block : {1, 16, 64}) {
        SCOPED_TRACE(testing::Message() << tokens << " tokens, top " << k << " of " << experts << ", block " << block);
        TestTensor ids = TestTensor::random(DType::i32, {tokens, k}, seed, {}, 0, static_cast<double>(experts - 1));
        check_align(device(), ids, tokens, k, experts, block, 0, static_cast<int64_t>(seed % 3));
        ++seed;
      }
    }
  }
}

// Many chunks of pairs, short ones and long ones: each adds up what lies before it.
TEST_P(MoeTest, AlignManyChunks) {
  for (const auto& [tokens, experts] : std::vector<std::array<int64_t, 2>>{{10001, 128}, {10001, 7}, {33000, 60}}) {
    SCOPED_TRACE(testing::Message() << tokens << " tokens, " << experts << " experts");
    TestTensor ids = TestTensor::random(DType::i32, {tokens, 8}, 5, {}, -1, static_cast<double>(experts));
    check_align(device(), ids, tokens, 8, experts, 64, 0, 2);
  }
}

// Case G-02's routings: empty experts, all to one, none at all; and experts that live elsewhere.
TEST_P(MoeTest, AlignUnevenShares) {
  for (const int64_t tokens : {40, 3000}) {
    TestTensor ids(DType::i32, {tokens, 2});
    ids.fill(3);
    const Aligned last = check_align(device(), ids, tokens, 2, 4, 16);
    EXPECT_EQ(last.counts.values(), (std::vector<double>{0, 0, 0, static_cast<double>(tokens * 2)}));
    ids.fill(-1);
    const Aligned none = check_align(device(), ids, tokens, 2, 4, 16);
    EXPECT_EQ(none.offsets.get(4), 0.0);
    EXPECT_EQ(none.block_experts.get(0), -1.0);
    ids.fill_random(7, -2, 19);
    check_align(device(), ids, tokens, 2, 8, 8, 4);
    check_align(device(), ids, tokens, 2, 4, 1, -2);
  }
}

TEST_P(MoeTest, AlignWithoutTokens) {
  TestTensor ids(DType::i32, {0, 2});
  const Aligned r = check_align(device(), ids, 0, 2, 5, 8, 0, 3);
  EXPECT_EQ(r.offsets.get(5), 0.0);
  EXPECT_EQ(r.sorted.get(0), 0.0);
}

// ---- Rows to the experts and back ------------------------------------------------------------------------------------------------------

TEST_P(MoeTest, DispatchPermuteAndCombine) {
  uint64_t seed = 11;
  for (const DType dtype : kTypes) {
    for (const int64_t cols : {1, 7, 64, 128, 200, 2048, 2880, 5000}) {
      for (const int64_t block : {1, 8}) {
        constexpr int64_t kTokens = 13, kTop = 3, kExperts = 5;
        SCOPED_TRACE(testing::Message() << dtype_info(dtype).name << " cols " << cols << " block " << block);
        TestTensor ids =
            TestTensor::random(DType::i32, {kTokens, kTop}, seed, {}, seed % 2 == 0 ? -1 : 0, kExperts - 1);
        Aligned a = check_align(device(), ids, kTokens, kTop, kExperts, block);
        const int64_t places = a.sorted.size();
        // Long rows of whole vectors have programs of their own.
        const bool whole = cols == 5000 && block == 8;
        const Placement odd{.padding = {whole ? 0 : static_cast<int64_t>(seed % 3)},
                            .offset = whole ? 0 : static_cast<int64_t>(seed % 4)};
        TestTensor x = TestTensor::random(dtype, {kTokens, cols}, seed, odd), y(dtype, {places, cols}, odd),
                   gathered(dtype, {places, cols});
        Tolerance exact;
        exact.ulps = exact.relative = 0;
        compare_with_reference<DispatchArgs>(
            device(), ops::dispatch_reference_run, {&y}, exact,
            [&](const At& at) {
              return DispatchArgs{at(y), at(x), at(a.positions)};
            },
            kPortable);
        TestTensor end = TestTensor::of(DType::i32, {a.offsets.get(kExperts)});
        compare_with_reference<PermuteArgs>(
            device(), ops::permute_reference_run, {&gathered}, exact,
            [&](const At& at) {
              return PermuteArgs{at(gathered), at(x), at(a.sorted), at(end), kTop};
            },
            kPortable);
        for (int64_t i = 0; i < places; ++i) {  // dispatched rows and gathered rows agree; padding stays poisoned in y
          const bool real = a.sorted.get(i) < kTokens * kTop;
          EXPECT_EQ(std::isnan(y.get(i * cols)), !real);
          if (real) {
            EXPECT_EQ(y.get(i * cols), gathered.get(i * cols));
          }
        }
        // Back, with the poisoned padding in place.
        TestTensor weights = TestTensor::random(DType::f32, {kTokens, kTop}, seed + 1, {}, 0, 1),
                   out(dtype, {kTokens, cols}, odd);
        TestTensor addend = TestTensor::random(dtype, {kTokens, cols}, seed + 2);
        Tolerance sums;
        sums.scale = 3.0, sums.relative = 1e-6;
        const bool add = seed % 2 == 0;
        compare_with_reference<CombineArgs>(
            device(), ops::combine_reference_run, {&out}, sums,
            [&](const At& at) {
              return CombineArgs{at(out), at(y), at(weights), at(a.positions), add ? at(addend) : TensorView{}};
            },
            kPortable);
        // In place: the addend is the output.
        compare_with_reference<CombineArgs>(
            device(), ops::combine_reference_run, {&addend}, sums,
            [&](const At& at) {
              return CombineArgs{at(addend), at(y), at(weights), at(a.positions), at(addend)};
            },
            kPortable);
        ++seed;
      }
    }
  }
}

TEST_P(MoeTest, RouteIsRouterAlignAndDispatch) {
  for (const int64_t tokens : {0, 1, 37, 700}) {
    constexpr int64_t kExperts = 24, kTop = 6, kCols = 40, kBlock = 4;
    const int64_t capacity = ops::moe_align_capacity(tokens * kTop, kExperts, kBlock);
    TestTensor logits = TestTensor::random(DType::bf16, {tokens, kExperts}, 5, {}, -4, 4),
               x = TestTensor::random(DType::f16, {tokens, kCols}, 6);
    TestTensor weights(DType::f32, {tokens, kTop}), experts(DType::i32, {tokens, kTop}), sorted(DType::i32, {capacity}),
        positions(DType::i32, {tokens, kTop}), offsets(DType::i32, {kExperts + 1}), counts(DType::i32, {kExperts}),
        y(DType::f16, {capacity, kCols});
    compare_with_reference<RouteArgs>(
        device(), ops::route_reference_run, {&weights, &experts, &sorted, &positions, &offsets, &counts, &y}, {},
        [&](const At& at) {
          RouteArgs a;
          a.router.weights = at(weights), a.router.experts = at(experts), a.router.logits = at(logits),
          a.router.renormalise = true;
          a.align.sorted = at(sorted), a.align.positions = at(positions), a.align.offsets = at(offsets),
          a.align.counts = at(counts);
          a.align.block = kBlock;
          a.y = at(y), a.x = at(x);
          return a;
        },
        kPortable);
  }
}

TEST_P(MoeTest, CombineOfATokenWithoutExperts) {
  TestTensor positions = TestTensor::of(DType::i32, {2, 2}, {-1, -1, 1, -1}),
             weights = TestTensor::of(DType::f32, {2, 2}, {kNaN, 1, 2, kInf});
  TestTensor x = TestTensor::of(DType::f32, {2, 3}, {kNaN, kNaN, kNaN, 1, 2, 3}), y(DType::f32, {2, 3});
  compare_with_reference<CombineArgs>(
      device(), ops::combine_reference_run, {&y}, {},
      [&](const At& at) {
        return CombineArgs{at(y), at(x), at(weights), at(positions), {}};
      },
      kPortable);
  EXPECT_EQ(y.values(), (std::vector<double>{0, 0, 0, 2, 4, 6}));
}

TEST_P(MoeTest, NoTokensIsNoWork) {
  TestTensor logits(DType::f32, {0, 8});
  check_router(device(), logits, 0, 2);
}

TEST(MoeErrors, Router) {
  TestTensor logits(DType::f32, {3, 12}), weights(DType::f32, {3, 2}), experts(DType::i32, {3, 2}),
      bias(DType::f32, {12});
  RouterArgs good;
  good.weights = weights.host(), good.experts = experts.host(), good.logits = logits.host(), good.bias = bias.host();
  const auto refuses = [&](const std::vector<std::string>& words, const std::function<void(RouterArgs&)>& change) {
    RouterArgs args = good;
    change(args);
    std::vector<std::string> all = words;
    all.emplace_back("moe_router");
    expect_error(ErrorCode::invalid_argument, all, [&] { plan<RouterArgs>(Device{}, args); });
  };
  EXPECT_NO_THROW(plan<RouterArgs>(Device{}, good));
  refuses({"logits"}, [](RouterArgs& a) { a.logits.dtype = DType::i32; });
  refuses({"logits"}, [](RouterArgs& a) { a.logits = {}; });
  refuses({"experts", "extent"}, [](RouterArgs& a) { a.experts.extent[0] = 2; });
  refuses({"weights"}, [](RouterArgs& a) { a.weights.dtype = DType::f16; });
  refuses({"weights"}, [](RouterArgs& a) { a.weights.extent[1] = 1; });
  refuses({"bias", "extent"}, [](RouterArgs& a) { a.bias.extent[0] = 11; });
  refuses({"groups", "5"}, [](RouterArgs& a) { a.groups = 5; });
  refuses({"kept_groups", "4"}, [](RouterArgs& a) { a.groups = 3, a.kept_groups = 4; });
  refuses({"top_k", "2"}, [](RouterArgs& a) { a.groups = 12, a.kept_groups = 1; });
  refuses({"group_sum", "3"}, [](RouterArgs& a) { a.group_sum = 3; });
  refuses({"experts", "stride"}, [](RouterArgs& a) { a.experts.stride[0] = 3; });
}

TEST(MoeErrors, AlignAndRows) {
  TestTensor experts(DType::i32, {3, 2}), positions = experts, sorted(DType::i32, {24}), offsets(DType::i32, {5}),
                                          counts(DType::i32, {4});
  AlignArgs align;
  align.sorted = sorted.host(), align.positions = positions.host(), align.offsets = offsets.host(),
  align.counts = counts.host();
  align.experts = experts.host(), align.block = 4;
  const auto refuses = [](auto good, const std::vector<std::string>& words, auto change) {
    change(good);
    expect_error(ErrorCode::invalid_argument, words, [&] { plan<decltype(good)>(Device{}, good); });
  };
  EXPECT_NO_THROW(plan<AlignArgs>(Device{}, align));
  refuses(align, {"moe_align", "sorted", "12"}, [](auto& a) { a.sorted.extent[0] = 12; });
  refuses(align, {"moe_align", "sorted", "block of 5"}, [](auto& a) { a.block = 5; });
  refuses(align, {"moe_align", "block"}, [](auto& a) { a.block = 0; });
  refuses(align, {"moe_align", "offsets"}, [](auto& a) { a.offsets.extent[0] = 4; });
  refuses(align, {"moe_align", "positions"}, [](auto& a) { a.positions.extent[1] = 1; });
  refuses(align, {"moe_align", "experts"}, [](auto& a) { a.experts.dtype = DType::i64; });

  TestTensor x(DType::f16, {3, 8}), y(DType::f16, {24, 8}), weights(DType::f32, {3, 2}), out(DType::f16, {3, 8});
  const DispatchArgs dispatch{y.host(), x.host(), positions.host()};
  EXPECT_NO_THROW(plan<DispatchArgs>(Device{}, dispatch));
  refuses(dispatch, {"moe_dispatch", "y"}, [](auto& a) { a.y.dtype = DType::bf16; });
  refuses(dispatch, {"moe_dispatch", "positions"}, [](auto& a) { a.positions.extent[0] = 2; });
  refuses(dispatch, {"moe_dispatch", "y"}, [](auto& a) { a.y = a.x; });
  const PermuteArgs permute{y.host(), x.host(), sorted.host(), {}, 2};
  EXPECT_NO_THROW(plan<PermuteArgs>(Device{}, permute));
  refuses(permute, {"moe_permute", "sorted"}, [](auto& a) { a.sorted.extent[0] = 23; });
  refuses(permute, {"moe_permute", "top_k"}, [](auto& a) { a.top_k = 0; });
  const CombineArgs combine{out.host(), y.host(), weights.host(), positions.host(), {}};
  EXPECT_NO_THROW(plan<CombineArgs>(Device{}, combine));
  refuses(combine, {"moe_combine", "weights"}, [](auto& a) { a.weights.dtype = DType::f16; });
  refuses(combine, {"moe_combine", "addend"}, [](auto& a) { a.addend = a.y, a.addend.extent[0] = 2; });
}

}  // namespace
}  // namespace monotile
