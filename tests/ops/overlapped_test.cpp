// Attention by the schedules of sm_90a on the emulated one: prefill with copies, products and weights that overlap, decode as a stream. What the kernels
// compute is tested for all devices in attention_*_test.cpp; here it is how: tiles and blocks one after the other in the same memory, boxes of every
// size, blocks that are inspected, any order of lanes, copies that come late.

#include <cmath>
#include <string>

#include "monotile/lang/backend/emulated/fibre.hpp"
#include "ops/attention/attention.hpp"
#include "ops/attention/decode_configs.hpp"
#include "runtime/kernels.hpp"
#include "runtime/scoped_target.hpp"
#include "tests/ops/attention_cases.hpp"

namespace monotile {
namespace {

using namespace test;  // NOLINT
using emulated::Examination;
using emulated::Fault;

const Device kDevice{DeviceKind::emulated, 32};

const Case kCodes{.cache = DType::f8_e4m3,
                  .coded_queries = true,
                  .heads = 2,
                  .dim_qk = 128,
                  .dim_v = 128,
                  .queries = {100},
                  .lengths = {300},
                  .page_size = 64};

class OverlappedEmulated : public ::testing::Test {
 protected:
  void SetUp() override {
    if (kernel_of(Case{}) == nullptr)
      GTEST_SKIP() << "not built";
  }
  static const void* kernel_of(const Case& c) {
    const bool scored = c.softcap != 0 || c.alibi || c.sinks || c.radius >= 0,
               masked = c.window != 0 || c.prefix >= 0 || c.document != 0;
    const auto scores = scored ? ops::prefill::kScored : masked ? ops::prefill::kMasks : ops::prefill::kCausal;
    return reinterpret_cast<const void*>(
        find_kernel(scores == ops::prefill::kCausal ? ops::prefill::kCausalKernel : "attention.prefill",
                    Target::emulated_sm90,
                    ops::prefill::variant(c.dtype, ops::prefill::kOverlapped,
                                          ops::prefill::dims_of(std::max(c.dim_qk, c.dim_v)), scores)));
  }
  /// The result of the kernel that is meant, and no other.
  static std::vector<double> result(Problem& p) {
    const bool decode = p.c.queries == std::vector<int64_t>(p.c.queries.size(), 1);
    const auto& implementation = p.c.coded_queries ? ops::attention_codes
                                 : decode          ? ops::attention_decode_tiles
                                                   : ops::attention_tiles;
    Stream stream(kDevice);
    p.out.poison(), p.lse.poison();
    const AttentionArgs args = p.args([&](TestTensor& t) { return t.on(stream); });
    const Plan<AttentionArgs> plan = plan_of(implementation, args, kDevice);
    const uint32_t dims = ops::prefill::dims_of(std::max(p.c.dim_qk, p.c.dim_v));
    EXPECT_EQ(
        plan.kernel,
        p.c.coded_queries
            ? reinterpret_cast<const void*>(
                  find_kernel(ops::prefill::kTurnedKernel, Target::emulated_sm90, static_cast<uint32_t>(p.c.dtype)))
        : decode
            ? reinterpret_cast<const void*>(find_kernel("attention.decode", Target::emulated_sm90,
                                                        ops::decode::variant(p.c.dtype, ops::decode::kStream, dims, 0)))
            : kernel_of(p.c));
    run_plan(plan, stream, args);
    p.out.fetch(stream);
    p.lse.fetch(stream);
    return p.out.values();
  }
  static void check(const Case& c, uint64_t seed) {
    Problem p(c, seed);
    check_problem(p, 1e-3, [&] { result(p); });
  }
  static bool same(const std::vector<double>& a, const std::vector<double>& b) {
    for (size_t i = 0; i < a.size(); ++i) {
      if (!(a[i] == b[i])) return false;
    }
    return true;
  }
  static void check_in_any_order(const Case& c, int seeds) {
    Problem p(c, 9);
    const std::vector<double> right = result(p);
    for (int seed = 0; seed < seeds; ++seed) {
      const Examination examination(static_cast<uint64_t>(seed));
      EXPECT_TRUE(same(result(p), right)) << "seed " << seed;
    }
  }
  /// The first seed at which the mistake is noticed; 100 if none.
  static int noticed(Fault fault, const Case& c) {
    Problem p(c, 9);
    const std::vector<double> right = result(p);
    for (int seed = 0; seed < 100; ++seed) {
      const Examination examination(static_cast<uint64_t>(seed), fault);
      try {
        if (!same(result(p), right)) return seed;
      } catch (const Error& error) {
        EXPECT_EQ(static_cast<int>(error.code()), static_cast<int>(ErrorCode::internal)) << error.what();
        return seed;
      }
    }
    return 100;
  }

 private:
  const ScopedTarget scope_{Target::emulated_sm90};
};

TEST_F(OverlappedEmulated, Prefill) {
  check({.heads = 4, .kv_heads = 2, .queries = {200, 0, 1, 33}, .lengths = {330, 3, 17, 33}}, 1);
  check({.queries = {130}, .lengths = {257}, .page_size = 16, .causal = false}, 2);
  check({.dim_qk = 40, .dim_v = 56, .queries = {70}, .lengths = {210}, .page_size = 64, .window = 100}, 3);
  check({.heads = 5, .queries = {70}, .lengths = {20}, .document = 30}, 4);
  check({.heads = 1, .queries = {40}, .lengths = {90}, .placement = {.padding = {16, 8}}}, 5);
}
TEST_F(OverlappedEmulated, PrefillWithChangedScores) {
  check({.heads = 4,
         .kv_heads = 2,
         .dim_qk = 128,
         .dim_v = 96,
         .queries = {70, 9},
         .lengths = {150, 9},
         .page_size = 16,
         .softcap = 2.5f,
         .alibi = true},
        6);
  check({.dim_qk = 128, .dim_v = 128, .queries = {140}, .lengths = {300}, .window = 90, .softcap = 3.0f, .sinks = true},
        7);
}
// One change alone has a loop of its own. Blocks that hide nothing: scores far below the cap, beyond it, both in turns.
TEST_F(OverlappedEmulated, PrefillWithOneChange) {
  const Case wide{.heads = 1, .dim_qk = 128, .dim_v = 128, .queries = {130}, .lengths = {700}};
  uint64_t seed = 60;
  for (const float softcap : {0.5f, 2.5f, 4.0f, 50.0f}) {
    Case c = wide;
    c.softcap = softcap;
    check(c, seed++);
  }
  Case c = wide;
  c.softcap = 70.0f, c.scale = 1.0f;  // large scores within half the cap: the polynomial's terms count
  check(c, seed++);
  c = wide;
  c.alibi = true;
  check(c, seed++);
  c.heads = 6, c.kv_heads = 2, c.queries = {30, 3}, c.lengths = {500, 270}, c.page_size = 16, c.causal = false;
  check(c, seed++);
  c.alibi = false, c.softcap = 20.0f, c.sinks = true;
  check(c, seed++);
}
TEST_F(OverlappedEmulated, PrefillOfWideHeads) {
  check({.dim_qk = 256, .dim_v = 256, .queries = {130}, .lengths = {300}}, 70);
  check({.heads = 4, .kv_heads = 2, .dim_qk = 192, .dim_v = 200, .queries = {70, 0, 1, 33}, .lengths = {210, 3, 17, 33}, .page_size = 16}, 71);
  check({.heads = 1, .dim_qk = 192, .dim_v = 160, .queries = {200}, .lengths = {330}}, 72);  // a quarter of the columns is spared
}
// Codes throughout: c is turned on its way, weights are codes as well. Rounding them to three bits is what the bound allows.
TEST_F(OverlappedEmulated, Codes) {
  const auto check_codes = [](Case c, uint64_t seed) {
    c.cache = DType::f8_e4m3;
    c.coded_queries = true;
    Problem p(c, seed);
    check_problem(p, 1e-3, [&] { result(p); }, 0.03);
  };
  const Case wide{.heads = 4, .kv_heads = 2, .dim_qk = 128, .dim_v = 128};
  Case c = wide;
  c.queries = {200, 0, 1, 33}, c.lengths = {330, 3, 17, 33};
  check_codes(c, 41);
  c.scales = Case::per_head;
  check_codes(c, 42);
  c = wide, c.queries = {130}, c.lengths = {257}, c.page_size = 16, c.causal = false;
  check_codes(c, 43);
  c = wide, c.dtype = DType::f16, c.dim_qk = 80, c.dim_v = 96, c.queries = {70}, c.lengths = {210}, c.page_size = 64, c.window = 100;
  check_codes(c, 44);
  c = wide, c.queries = {70}, c.lengths = {20}, c.document = 30;
  check_codes(c, 45);
  c = wide, c.queries = {9, 20}, c.lengths = {140, 300}, c.page_size = 16, c.sinks = true;
  check_codes(c, 46);
}
TEST_F(OverlappedEmulated, Decode) {
  check({.heads = 8, .kv_heads = 2, .queries = {1, 1, 1}, .lengths = {301, 1, 700}}, 8);
  check({.heads = 4,
         .kv_heads = 1,
         .dim_qk = 128,
         .dim_v = 128,
         .queries = {1, 1},
         .lengths = {300, 20},
         .page_size = 16},
        9);
  check({.heads = 4,
         .kv_heads = 1,
         .dim_qk = 192,
         .dim_v = 256,
         .queries = {1},
         .lengths = {200},
         .page_size = 4,
         .window = 100},
        10);
  // Splits of 512 keys by several programs, joined by one of them; a query without keys.
  check({.heads = 4, .kv_heads = 2, .queries = {1, 1, 1}, .lengths = {1100, 0, 520}, .page_size = 16, .sinks = true}, 12);
}

/// Counts are kept between launches where there are few, and zeros again after each: shapes in turn in one workspace, which
/// holds garbage, have the bits that each has in a workspace of its own. The last one has more counts than are kept.
TEST_F(OverlappedEmulated, DecodeLeavesZerosBehind) {
  Stream stream(kDevice);
  Buffer workspace(kDevice, size_t{2} << 20);
  std::vector<Problem> problems;
  for (const std::vector<int64_t>& lengths :
       {std::vector<int64_t>{2100}, {5, 0, 700, 20}, {513, 1030, 1600}, std::vector<int64_t>(250, 2)})
    problems.emplace_back(Case{.heads = 4, .kv_heads = 2, .queries = std::vector<int64_t>(lengths.size(), 1), .lengths = lengths, .page_size = 16}, 31);
  std::vector<std::vector<double>> wanted;
  for (Problem& p : problems) wanted.push_back(result(p));
  for (int round = 0; round < 3; ++round) {
    for (size_t i = 0; i < problems.size(); ++i) {
      Problem& p = problems[i];
      p.out.poison();
      const AttentionArgs args = p.args([&](TestTensor& t) { return t.on(stream); });
      const Plan<AttentionArgs> plan = plan_of(ops::attention_decode_tiles, args, kDevice);
      ASSERT_LE(plan.workspace_bytes, workspace.size());
      std::fill_n(workspace.as<unsigned char>(), workspace.size(), static_cast<unsigned char>(0x5a));
      plan.run(stream, args, workspace.data());
      p.out.fetch(stream);
      EXPECT_TRUE(same(p.out.values(), wanted[i])) << "round " << round << " shape " << i;
    }
  }
}

/// Many more tiles than programs, which share a queue: the results are those of tiles by number, the counts are zeros again after
/// each launch, whatever the workspace holds, and a tile without keys or without queries takes a ticket like the others.
TEST_F(OverlappedEmulated, TilesByTickets) {
  Stream stream(kDevice);
  Buffer workspace(kDevice, 4096);
  const Case coded{.cache = DType::f8_e4m3,
                   .coded_queries = true,
                   .heads = 6,
                   .kv_heads = 2,
                   .dim_qk = 128,
                   .dim_v = 128,
                   .queries = {130, 0},
                   .lengths = {150, 7},
                   .page_size = 64};
  std::vector<Problem> problems;
  problems.emplace_back(Case{.heads = 8, .kv_heads = 2, .queries = {200, 0, 1}, .lengths = {200, 3, 17}}, 33);
  problems.emplace_back(Case{.heads = 10, .kv_heads = 5, .queries = {193}, .lengths = {60}, .page_size = 16}, 34);
  problems.emplace_back(coded, 35);
  for (Problem& p : problems) {
    const auto& implementation = p.c.coded_queries ? ops::attention_codes : ops::attention_tiles;
    std::vector<std::vector<double>> got;
    for (int round = 0; round < 3; ++round) {  // the last one without a queue
      std::fill_n(workspace.as<unsigned char>(), workspace.size(), static_cast<unsigned char>(0x5a));
      p.out.poison();
      const AttentionArgs args = p.args([&](TestTensor& t) { return t.on(stream); });
      const Plan<AttentionArgs> plan = plan_of(implementation, args, kDevice);
      ASSERT_GT(plan.workspace_bytes, 0u);
      implementation.run(plan, stream, args, round == 2 ? nullptr : workspace.data());
      p.out.fetch(stream);
      got.push_back(p.out.values());
      EXPECT_TRUE(same(got.back(), got.front())) << "round " << round;
    }
    check_problem(p, 1e-3, [&] { result(p); }, p.c.coded_queries ? 0.03 : 0);
  }
}

/// What a key that a query does not see holds changes nothing for it, though it shares a block with keys that are seen: blocks are looked at first, and
/// multiplied one by one where they must be.
TEST_F(OverlappedEmulated, ValuesThatAreNotSeenDoNotLeak) {
  for (const int64_t queries : {130, 1}) {
    Problem p({.queries = {queries}, .lengths = {130}, .window = queries == 1 ? 50 : 0}, 11);
    const int64_t where = queries == 1 ? 70 : 100, rows = queries == 1 ? 1 : where;  // not seen by the first `rows`
    const std::vector<double> right = result(p);
    for (int64_t i = 3; i < 64; i += 7) p.values.set(where * 64 + i, i % 2 == 0 ? INFINITY : NAN);
    const std::vector<double> got = result(p);
    for (int64_t i = 0; i < rows * 128; ++i)
      ASSERT_NEAR(got[static_cast<size_t>(i)], right[static_cast<size_t>(i)], 0.02)
          << queries << " queries, element " << i;
    if (queries > 1) {
      EXPECT_FALSE(std::isfinite(got[static_cast<size_t>(where * 128 + 3)]));
    }
  }
}
// One value anywhere in a block, in rows behind the last eight whole ones too, is found by the warps that look: it reaches its own column alone.
TEST_F(OverlappedEmulated, AnyValueThatIsNotSeenIsFound) {
  Problem p({.heads = 1, .queries = {133}, .lengths = {133}}, 12);
  const std::vector<double> right = result(p);
  for (const auto& [key, col] : {std::pair<int64_t, int64_t>{1, 0}, {7, 63}, {40, 9}, {62, 38}, {127, 62}, {130, 1}, {132, 57}}) {
    const float before = p.values.get(key * 64 + col);
    p.values.set(key * 64 + col, key % 2 == 0 ? -INFINITY : NAN);
    const std::vector<double> got = result(p);
    for (int64_t row = 0; row < 133; ++row) {
      for (int64_t i = 0; i < 64; ++i) {
        const size_t at = static_cast<size_t>(row * 64 + i);
        if (row >= key && i == col) {
          EXPECT_FALSE(std::isfinite(got[at])) << "key " << key << ", row " << row;
        } else {
          ASSERT_NEAR(got[at], right[at], 0.02) << "key " << key << ", row " << row << ", column " << i;
        }
      }
    }
    p.values.set(key * 64 + col, before);
  }
}
// The same for codes, which have NaN alone; both halves of a block, each turned by a warp of its own.
TEST_F(OverlappedEmulated, CodesThatAreNotSeenDoNotLeak) {
  for (const int64_t where : {40, 100}) {
    Case c = kCodes;
    c.heads = 2, c.kv_heads = 1, c.queries = {130}, c.lengths = {130}, c.page_size = 0;
    Problem p(c, 11);
    const std::vector<double> right = result(p);
    for (int64_t i = 3; i < 128; i += 7) p.values.set(where * 128 + i, NAN);
    const std::vector<double> got = result(p);
    for (int64_t i = 0; i < where * 256; ++i)
      ASSERT_NEAR(got[static_cast<size_t>(i)], right[static_cast<size_t>(i)], 0.1) << "key " << where << ", element " << i;
    EXPECT_TRUE(std::isnan(got[static_cast<size_t>(where * 256 + 3)]));
    EXPECT_FALSE(std::isnan(got[static_cast<size_t>(where * 256 + 4)]));
  }
}

const Case kPrefill{.heads = 2, .queries = {100}, .lengths = {300}, .page_size = 64},
    kDecode{.heads = 4, .queries = {1, 1}, .lengths = {300, 500}, .page_size = 16},
    kDecodeByLanes{.heads = 2,
                   .dim_qk = 256,
                   .dim_v = 256,
                   .queries = {1},
                   .lengths = {256},
                   .page_size = 4};  // the ring goes round
TEST_F(OverlappedEmulated, InAnyOrder) {
  check_in_any_order(kPrefill, 3);
  check_in_any_order(kCodes, 3);
  check_in_any_order(kDecode, 2);
  check_in_any_order(kDecodeByLanes, 2);
}
TEST_F(OverlappedEmulated, PlantedMistakesAreNoticed) {
  EXPECT_LT(noticed(Fault::fragment_map, kPrefill), 100);
  EXPECT_LT(noticed(Fault::fragment_map, kCodes), 100);
  for (const Fault fault : {Fault::missing_barrier, Fault::pipeline_phase}) {
    EXPECT_LT(noticed(fault, kPrefill), 100);
    EXPECT_LT(noticed(fault, kCodes), 100);
    EXPECT_LT(noticed(fault, kDecode), 100);
  }
}

}  // namespace
}  // namespace monotile
