// Attention on every device against the fp64 oracle: dense and paged, prefill and decode.

#include <sys/mman.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "tests/ops/attention_cases.hpp"

namespace monotile {
namespace {

using namespace test;  // NOLINT

const TierPolicy kPortable{Tier::portable, false};

class AttentionTest : public OnDevice {};
MONOTILE_ON_DEVICES(AttentionTest);

/// What most cases here have in common, small and fp32.
struct Small {
  DType dtype = DType::f32, cache = DType::f32;
  int64_t heads = 2, kv_heads = 1, dim_qk = 64, dim_v = 64;
  std::vector<int64_t> queries{3}, lengths{17};
  int64_t page_size = 0;  ///< 0: dense
  int64_t window = 0;
  float softcap = 0.0f;
  bool causal = true;
  Placement placement{};
};

void check(Device device, const Small& c, uint64_t seed) {
  Problem p({.dtype = c.dtype, .cache = c.cache, .heads = c.heads, .kv_heads = c.kv_heads, .dim_qk = c.dim_qk, .dim_v = c.dim_v, .queries = c.queries,
             .lengths = c.lengths, .page_size = c.page_size, .window = c.window, .softcap = c.softcap, .causal = c.causal, .placement = c.placement},
            seed);
  check_problem(p, 1e-4, [&] {
    const auto make = [&](const At& at) {
      AttentionArgs a = p.args(at);
      a.max_kv_length = 0;  // from the table, or all rows
      return a;
    };
    run_on<AttentionArgs>(device, {&p.out, &p.lse}, make, kPortable);
  });
}

TEST_P(AttentionTest, HeadDimsAndDtypes) {
  uint64_t seed = 1;
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    for (const int64_t dim : {1, 20, 64, 80, 96, 128, 192, 256}) check(device(), {.dtype = dtype, .cache = dtype, .dim_qk = dim, .dim_v = dim}, seed++);
  }
  check(device(), {.cache = DType::f16, .page_size = 16}, seed++);
  check(device(), {.cache = DType::bf16, .page_size = 16}, seed++);
  check(device(), {.dim_qk = 96, .dim_v = 64}, seed++);
  check(device(), {.dim_qk = 64, .dim_v = 200, .page_size = 16}, seed++);
}

TEST_P(AttentionTest, QueriesAgainstLengths) {
  uint64_t seed = 50;
  for (const int64_t page : {0, 1, 16, 128}) {
    for (const bool causal : {true, false}) {
      check(device(), {.queries = {5}, .lengths = {5}, .page_size = page, .causal = causal}, seed++);
      check(device(), {.queries = {2}, .lengths = {33}, .page_size = page, .causal = causal}, seed++);
      check(device(), {.queries = {5}, .lengths = {2}, .page_size = page, .causal = causal}, seed++);  // rows that see no key
      check(device(), {.heads = 4, .kv_heads = 2, .queries = {7, 0, 1, 12}, .lengths = {40, 3, 17, 12}, .page_size = page, .causal = causal}, seed++);
    }
  }
}

TEST_P(AttentionTest, DecodeWithSplits) {
  uint64_t seed = 100;
  check(device(), {.heads = 8, .kv_heads = 2, .dim_qk = 128, .dim_v = 128, .queries = {1, 1, 1}, .lengths = {1, 511, 1300}, .page_size = 16}, seed++);
  check(device(), {.dtype = DType::bf16, .cache = DType::bf16, .heads = 4, .kv_heads = 1, .queries = {1, 1}, .lengths = {513, 1024}, .page_size = 16}, seed++);
  check(device(), {.heads = 3, .kv_heads = 3, .queries = {1}, .lengths = {700}, .page_size = 16, .window = 100}, seed++);
}

TEST_P(AttentionTest, WindowsSoftcapAndStrides) {
  uint64_t seed = 150;
  for (const int64_t window : {1, 4, 16, 1000}) {
    check(device(), {.queries = {20}, .lengths = {50}, .page_size = 16, .window = window}, seed++);
    check(device(), {.heads = 4, .queries = {3}, .lengths = {50}, .window = window}, seed++);
  }
  check(device(), {.queries = {4}, .lengths = {30}, .softcap = 2.5f}, seed++);
  check(device(), {.dtype = DType::f16, .cache = DType::f16, .queries = {4}, .lengths = {30}, .placement = {.padding = {24, 8}, .offset = 1}}, seed++);
  check(device(), {.dtype = DType::bf16, .cache = DType::bf16, .queries = {4}, .lengths = {30}, .placement = {.padding = {16, 8}}}, seed++);
}

// Caches of codes as kv_append writes them: a scale for all, for a head, for a head vector.
TEST_P(AttentionTest, CachesOfCodes) {
  uint64_t seed = 180;
  const auto check_codes = [&](Case c) {
    Problem p(c, seed++);
    check_problem(p, 1e-4, [&] { run_on<AttentionArgs>(device(), {&p.out, &p.lse}, [&](const At& at) { return p.args(at); }, kPortable); });
  };
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    for (const DType cache : {DType::f8_e4m3, DType::f8_e5m2, DType::i8}) {
      check_codes({.dtype = dtype, .cache = cache, .heads = 4, .kv_heads = 2, .queries = {3, 1}, .lengths = {40, 17}, .page_size = 16, .scales = Case::per_vector});
    }
  }
  for (const Case::Scales scales : {Case::one, Case::per_head, Case::per_vector}) {
    for (const bool tokens_first : {false, true}) {
      check_codes({.dtype = DType::f16, .cache = DType::f8_e4m3, .heads = 8, .kv_heads = 2, .dim_qk = 128, .dim_v = 96, .queries = {1, 1}, .lengths = {1, 700}, .page_size = 16,
                   .tokens_first = tokens_first, .softcap = 3.0f, .scales = scales});
    }
  }
  check_codes({.cache = DType::i8, .heads = 2, .kv_heads = 2, .queries = {9}, .lengths = {30}, .window = 12, .scales = Case::per_head});
  check_codes({.cache = DType::f8_e4m3, .dim_qk = 37, .dim_v = 51, .queries = {4}, .lengths = {30}, .page_size = 7, .scales = Case::per_vector});
}

// Public case: scales ignored. 100 with a scale of 0.5 is code 192, and comes back as 96.
TEST_P(AttentionTest, ScalesOfCodesCount) {
  TestTensor q = TestTensor::random(DType::f16, {1, 1, 64}, 1), out(DType::f16, {1, 1, 64}), codes(DType::f8_e4m3, {1, 1, 1, 64});
  codes.fill(192);
  TestTensor scale = TestTensor::of(DType::f32, {0.5}), q_start = TestTensor::of(DType::i32, {0.0, 1.0}), length = TestTensor::of(DType::i32, {1.0});
  TestTensor table(DType::i32, {1, 1}), keys = codes;
  table.fill(0);
  run_on<AttentionArgs>(device(), {&out}, [&](const At& at) {
    AttentionArgs a{.out = at(out), .q = at(q), .key_cache = at(keys), .value_cache = at(codes), .block_table = at(table)};
    a.q_start = at(q_start), a.kv_length = at(length), a.key_scale = at(scale), a.value_scale = at(scale);
    return a;
  }, kPortable);
  for (int64_t i = 0; i < 64; ++i) ASSERT_EQ(out.get(i), 96) << i;
}

// Case S-02: uniform weights make the mask readable.
TEST_P(AttentionTest, CausalAlignsBottomRight) {
  struct Row {
    int64_t queries, keys;
    std::vector<double> wanted;
  };
  for (const Row& r : {Row{2, 5, {2.5, 3.0}}, Row{5, 2, {0, 0, 0, 1, 1.5}}, Row{3, 128, {63.5, 64.0, 64.5}}}) {
    TestTensor q(DType::f32, {r.queries, 1, 2}), k(DType::f32, {r.keys, 1, 2}), v(DType::f32, {r.keys, 1, 2}), out(DType::f32, {r.queries, 1, 2});
    q.fill(0);
    k.fill(1);
    for (int64_t j = 0; j < r.keys; ++j) v.set(2 * j, static_cast<double>(j + 1)), v.set(2 * j + 1, static_cast<double>(j + 1));
    TestTensor q_start = TestTensor::of(DType::i32, {0.0, static_cast<double>(r.queries)}), length = TestTensor::of(DType::i32, {static_cast<double>(r.keys)}),
               start = TestTensor::of(DType::i32, {0.0});
    run_on<AttentionArgs>(device(), {&out}, [&](const At& at) {
      return AttentionArgs{.out = at(out), .q = at(q), .key_cache = at(k), .value_cache = at(v), .block_table = {}, .kv_start = at(start), .q_start = at(q_start),
                           .kv_length = at(length), .log_sum_exp = {}, .status = {}, .max_query = r.queries};
    }, kPortable);
    for (int64_t i = 0; i < r.queries; ++i) EXPECT_NEAR(out.get(2 * i), r.wanted[static_cast<size_t>(i)], 1e-4) << "query " << i;
  }
}

// Case P-01: a page past the 2^31st element, in a mapping of which only a few pages of memory exist, gives what page 0 gives, in every implementation.
TEST_P(AttentionTest, PagesBeyond32Bits) {
  if (!device().host_memory()) GTEST_SKIP() << "the sparse mapping is host memory";
  constexpr int64_t kPages = 131080, kHeads = 8, kPage = 16, kDim = 128, kBlock = kHeads * kPage * kDim;
  constexpr size_t kBytes = static_cast<size_t>(kPages * kBlock) * 2;
  void* const memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  const TensorView cache(memory, DType::bf16, {kPages, kHeads, kPage, kDim}, device());
  TestTensor content = TestTensor::random(DType::bf16, {kBlock}, 1), q = TestTensor::random(DType::bf16, {1, kHeads, kDim}, 2), out(DType::bf16, {1, kHeads, kDim});
  TestTensor q_start = TestTensor::of(DType::i32, {0.0, 1.0}), length = TestTensor::of(DType::i32, {13.0}), table(DType::i32, {1, 1});
  for (const int64_t page : {int64_t{0}, kPages - 1}) std::memcpy(cache.as<bfloat16_t>() + page * kBlock, content.host().data, kBlock * 2);
  Stream stream(device());
  for (const auto* implementation : {&ops::attention_portable, &ops::attention_tiles, &ops::attention_decode_tiles}) {
    std::vector<double> wanted;
    for (const int64_t page : {int64_t{0}, kPages - 1}) {
      table.set_integer(0, page);
      out.poison();
      AttentionArgs args{.out = out.on(stream), .q = q.on(stream), .key_cache = cache, .value_cache = cache, .block_table = table.on(stream)};
      args.q_start = q_start.on(stream), args.kv_length = length.on(stream);
      if (implementation->supports(args, device_info(device())) != nullptr) break;
      run_by(*implementation, args, stream);
      out.fetch(stream);
      if (page == 0) {
        wanted = out.values();
      } else {
        EXPECT_EQ(out.values(), wanted) << implementation->name;
      }
    }
  }
  munmap(memory, kBytes);
}

// A token that overflowed must not reach the earlier ones that cannot see it, though they share a tile.
TEST_P(AttentionTest, WhatLaterTokensHoldStaysTheirs) {
  for (const double bad : {std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    TestTensor q = TestTensor::random(DType::f32, {4, 1, 64}, 1), k = TestTensor::random(DType::f32, {4, 1, 64}, 2), v = TestTensor::random(DType::f32, {4, 1, 64}, 3);
    TestTensor out(DType::f32, {4, 1, 64}), lse(DType::f32, {4, 1});
    for (int64_t i = 0; i < 64; ++i) v.set(3 * 64 + i, bad);
    TestTensor q_start = TestTensor::of(DType::i32, {0.0, 4.0}), length = TestTensor::of(DType::i32, {4.0}), start = TestTensor::of(DType::i32, {0.0});
    run_on<AttentionArgs>(device(), {&out, &lse}, [&](const At& at) {
      return AttentionArgs{.out = at(out), .q = at(q), .key_cache = at(k), .value_cache = at(v), .block_table = {}, .kv_start = at(start), .q_start = at(q_start),
                           .kv_length = at(length), .log_sum_exp = at(lse), .status = {}, .max_query = 4};
    }, kPortable);
    for (int64_t i = 0; i < 3 * 64; ++i) ASSERT_TRUE(std::isfinite(out.get(i))) << bad << " at " << i;
    for (int64_t i = 3 * 64; i < 4 * 64; ++i) ASSERT_FALSE(std::isfinite(out.get(i))) << bad << " at " << i;
  }
}

// A NaN query: NaN in both outputs, or joining parts by their log-sum-exp would drop it.
TEST_P(AttentionTest, NanQueryShowsInBothOutputs) {
  TestTensor q = TestTensor::random(DType::f32, {2, 1, 64}, 1), k = TestTensor::random(DType::f32, {9, 1, 64}, 2), v = TestTensor::random(DType::f32, {9, 1, 64}, 3);
  TestTensor out(DType::f32, {2, 1, 64}), lse(DType::f32, {2, 1});
  q.set(5, NAN);
  TestTensor q_start = TestTensor::of(DType::i32, {0.0, 2.0}), length = TestTensor::of(DType::i32, {9.0}), start = TestTensor::of(DType::i32, {0.0});
  run_on<AttentionArgs>(device(), {&out, &lse}, [&](const At& at) {
    return AttentionArgs{.out = at(out), .q = at(q), .key_cache = at(k), .value_cache = at(v), .block_table = {}, .kv_start = at(start), .q_start = at(q_start),
                         .kv_length = at(length), .log_sum_exp = at(lse), .status = {}, .max_query = 2};
  }, kPortable);
  EXPECT_TRUE(std::isnan(out.get(0)) && std::isnan(lse.get(0)));
  EXPECT_TRUE(std::isfinite(out.get(64)) && std::isfinite(lse.get(1)));
}

// Tables on the device that point outside: clamped, reported, nothing outside touched (guard zones, sanitizers).
TEST_P(AttentionTest, TablesThatPointOutsideAreClampedAndReported) {
  struct Tables {
    double first, end, start, length;
    bool reported;
  };
  for (const Tables& t : {Tables{0, 4, 0, 8, false}, Tables{0, 9, 0, 8, true}, Tables{-3, 4, 0, 8, true}, Tables{0, 4, 100, 8, true}, Tables{0, 4, 5, 8, true},
                          Tables{0, 4, 0, -2, true}, Tables{0, 4, -1, 8, true}}) {
    TestTensor q = TestTensor::random(DType::f32, {4, 2, 64}, 1), k = TestTensor::random(DType::f32, {8, 1, 64}, 2), v = TestTensor::random(DType::f32, {8, 1, 64}, 3);
    TestTensor out(DType::f32, {4, 2, 64}), status = TestTensor::of(DType::i32, {0.0});
    TestTensor q_start = TestTensor::of(DType::i32, {t.first, t.end}), length = TestTensor::of(DType::i32, {t.length}), start = TestTensor::of(DType::i32, {t.start});
    const auto call = [&] {
      run_on<AttentionArgs>(device(), {&out, &status}, [&](const At& at) {
        return AttentionArgs{.out = at(out), .q = at(q), .key_cache = at(k), .value_cache = at(v), .block_table = {}, .kv_start = at(start), .q_start = at(q_start),
                             .kv_length = at(length), .log_sum_exp = {}, .status = at(status), .max_query = 4};
      }, kPortable);
    };
    try {
      call();
    } catch (const Error& error) {  // what the host can read it refuses
      EXPECT_TRUE(device().host_memory() && t.reported) << error.what();
      continue;
    }
    EXPECT_EQ(status.get(0) != 0, t.reported) << t.first << " " << t.end << " " << t.start << " " << t.length;
    EXPECT_TRUE(out.guards_intact());
    for (int64_t i = 0; i < out.size(); ++i) ASSERT_TRUE(std::isfinite(out.get(i))) << i;
  }
}

// max_query is a bound: one far above the tokens that are there costs nothing and changes nothing.
TEST_P(AttentionTest, GenerousBoundOfQueries) {
  TestTensor q = TestTensor::random(DType::f32, {3, 1, 64}, 1), k = TestTensor::random(DType::f32, {5, 1, 64}, 2), v = TestTensor::random(DType::f32, {5, 1, 64}, 3);
  TestTensor out(DType::f32, {3, 1, 64});
  TestTensor q_start = TestTensor::of(DType::i32, {0.0, 3.0}), length = TestTensor::of(DType::i32, {5.0}), start = TestTensor::of(DType::i32, {0.0});
  run_on<AttentionArgs>(device(), {&out}, [&](const At& at) {
    return AttentionArgs{.out = at(out), .q = at(q), .key_cache = at(k), .value_cache = at(v), .block_table = {}, .kv_start = at(start), .q_start = at(q_start),
                         .kv_length = at(length), .log_sum_exp = {}, .status = {}, .max_query = int64_t{1} << 34};
  }, kPortable);
  for (int64_t i = 0; i < out.size(); ++i) ASSERT_TRUE(std::isfinite(out.get(i))) << i;
}

// The same sequence alone and in a batch gives the same bits.
TEST_P(AttentionTest, BatchInvariance) {
  const auto run_batch = [&](int64_t sequences) {
    const int64_t length = 600, page = 16, columns = 64;
    TestTensor q = TestTensor::random(DType::bf16, {sequences, 4, 64}, 5), out(DType::bf16, {sequences, 4, 64});
    TestTensor keys = TestTensor::random(DType::bf16, {columns, 1, page, 64}, 6), values = TestTensor::random(DType::bf16, {columns, 1, page, 64}, 7);
    TestTensor table(DType::i32, {sequences, columns}), q_start(DType::i32, {sequences + 1}), lengths(DType::i32, {sequences});
    for (int64_t s = 0; s <= sequences; ++s) q_start.set_integer(s, s);
    for (int64_t s = 0; s < sequences; ++s) {
      lengths.set_integer(s, length);
      for (int64_t c = 0; c < columns; ++c) table.set_integer(s * columns + c, c);
    }
    run_on<AttentionArgs>(device(), {&out}, [&](const At& at) {
      return AttentionArgs{.out = at(out), .q = at(q), .key_cache = at(keys), .value_cache = at(values), .block_table = at(table), .kv_start = {},
                           .q_start = at(q_start), .kv_length = at(lengths), .log_sum_exp = {}, .status = {}};
    }, kPortable);
    return out;
  };
  const TestTensor one = run_batch(1), many = run_batch(5);
  for (int64_t i = 0; i < one.size(); ++i) ASSERT_EQ(one.get(i), many.get(i)) << i;
}

}  // namespace
}  // namespace monotile
