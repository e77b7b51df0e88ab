// Attention by matrix tiles against the fp64 oracle: masks, scores, caches, tiles and blocks at their borders. The
// kernel is called by itself, whatever the dispatcher would choose; on SPIR-V it is the kernel of rows.

#include <algorithm>
#include <cmath>
#include <limits>

#include "monotile/lang/backend/emulated/shared_memory.hpp"
#include "ops/attention/attention.hpp"
#include "tests/ops/attention_cases.hpp"

namespace monotile {
namespace {

using namespace test;  // NOLINT

class Prefill : public OnDevice {
 protected:
  const Implementation<AttentionArgs>& kernel() const {
    return device().kind == DeviceKind::opencl ? ops::attention_portable : ops::attention_tiles;
  }

 public:
  void run_tiles(const AttentionArgs& args, Stream& stream) const { run_by(kernel(), args, stream); }
  void check(const Case& c, uint64_t seed) const { check_by(kernel(), device(), c, seed); }
};
MONOTILE_ON_DEVICES(Prefill);

TEST_P(Prefill, HeadDims) {
  uint64_t seed = 1;
  for (const DType dtype : {DType::bf16, DType::f16}) {
    for (const int64_t dim : {1, 20, 64, 80, 96, 128, 192, 256}) {
      // Not built there: see register_prefill.hpp.
      if (device().kind == DeviceKind::cuda && dtype == DType::f16 && dim > 128) continue;
      check({.dtype = dtype, .dim_qk = dim, .dim_v = dim, .queries = {37}, .lengths = {101}}, seed++);
    }
  }
  check({.dim_qk = 96, .dim_v = 40, .queries = {37}, .lengths = {101}}, seed++);
  check({.dim_qk = 64, .dim_v = 200, .queries = {37}, .lengths = {70}}, seed++);
}

TEST_P(Prefill, TilesAndBlocksAtTheirBorders) {
  uint64_t seed = 50;
  for (const int64_t n : {1, 2, 63, 64, 65, 96, 127, 128, 129, 200}) {
    check({.heads = 1, .queries = {n}, .lengths = {n}}, seed++);
    check({.heads = 1, .queries = {n}, .lengths = {n}, .causal = false}, seed++);
  }
  for (const auto& [queries, keys] : std::vector<std::pair<int64_t, int64_t>>{{5, 300}, {130, 257}, {70, 20}, {3, 0}}) {
    check({.queries = {queries}, .lengths = {keys}}, seed++);  // some rows see no key
    check({.queries = {queries}, .lengths = {keys}, .causal = false}, seed++);
  }
}

TEST_P(Prefill, HeadsThatShareKeys) {
  uint64_t seed = 100;
  for (const int64_t kv_heads : {1, 2, 3, 6}) {
    check({.heads = 6, .kv_heads = kv_heads, .queries = {9}, .lengths = {75}}, seed++);
    check({.heads = 6, .kv_heads = kv_heads, .queries = {140}, .lengths = {140}}, seed++);
  }
  check({.heads = 5, .kv_heads = 1, .queries = {21, 3}, .lengths = {75, 3}, .page_size = 16}, seed++);
}

TEST_P(Prefill, RaggedAndPaged) {
  uint64_t seed = 150;
  for (const int64_t page : {0, 1, 7, 16, 24, 64, 128, 256}) {
    check({.heads = 4, .kv_heads = 2, .queries = {70, 0, 1, 33}, .lengths = {150, 3, 17, 33}, .page_size = page},
          seed++);
    check({.queries = {66, 5}, .lengths = {190, 64}, .page_size = page, .causal = false}, seed++);
  }
}

TEST_P(Prefill, Windows) {
  uint64_t seed = 200;
  for (const int64_t window : {1, 5, 64, 100, 1000}) {
    check({.queries = {150}, .lengths = {210}, .page_size = 16, .window = window}, seed++);
    check({.queries = {20}, .lengths = {210}, .window = window, .causal = false}, seed++);
  }
}

TEST_P(Prefill, PrefixAndDocuments) {
  uint64_t seed = 250;
  for (const int64_t prefix : {0, 3, 64, 90, 500}) {
    check({.queries = {150}, .lengths = {150}, .prefix = prefix}, seed++);
    check({.queries = {70, 5}, .lengths = {150, 9}, .page_size = 16, .window = 9, .prefix = prefix}, seed++);
  }
  for (const int64_t length : {1, 30, 64, 100}) {
    check({.queries = {200}, .lengths = {200}, .document = length}, seed++);
    check({.queries = {90, 7}, .lengths = {200, 7}, .page_size = 16, .causal = false, .document = length}, seed++);
    check({.queries = {70}, .lengths = {20}, .document = length}, seed++);
  }
}

TEST_P(Prefill, ChangesOfScores) {
  uint64_t seed = 300;
  check({.queries = {70}, .lengths = {150}, .softcap = 2.5f}, seed++);
  check({.queries = {70}, .lengths = {150}, .scale = -0.2f}, seed++);
  // Blocks that hide nothing: far below the cap (a polynomial), beyond it, both in turns; slopes of several heads in a tile.
  for (const int64_t dim : {64, 128}) {
    for (const float softcap : {0.5f, 2.5f, 4.0f, 50.0f})
      check({.heads = 1, .dim_qk = dim, .dim_v = dim, .queries = {200}, .lengths = {700}, .softcap = softcap}, seed++);
    check({.dtype = DType::f16, .dim_qk = dim, .dim_v = dim, .queries = {70}, .lengths = {500}, .softcap = 30.0f}, seed++);
    check({.heads = 1, .dim_qk = dim, .dim_v = dim, .queries = {70}, .lengths = {500}, .softcap = 70.0f, .scale = 1.0f}, seed++);
    check({.heads = 2, .dim_qk = dim, .dim_v = dim, .queries = {70}, .lengths = {500}, .softcap = 3.0f, .scale = -0.2f},
          seed++);
    check({.heads = 1, .dim_qk = dim, .dim_v = dim, .queries = {200}, .lengths = {700}, .alibi = true}, seed++);
    check({.heads = 6, .kv_heads = 2, .dim_qk = dim, .dim_v = dim, .queries = {30, 3}, .lengths = {500, 270}, .causal = false,
           .alibi = true},
          seed++);
  }
  check({.heads = 4, .kv_heads = 2, .queries = {40}, .lengths = {150}, .alibi = true}, seed++);
  check({.heads = 4, .queries = {20, 9}, .lengths = {150, 9}, .page_size = 16, .causal = false, .radius = 11}, seed++);
  check({.queries = {70}, .lengths = {70}, .radius = 0}, seed++);
  check({.heads = 4, .queries = {50}, .lengths = {90}, .sinks = true}, seed++);
  check({.heads = 4, .queries = {50}, .lengths = {9}, .window = 4, .sinks = true}, seed++);  // rows of the sink alone
  check({.heads = 4,
         .queries = {50},
         .lengths = {90},
         .window = 40,
         .softcap = 3.0f,
         .prefix = 5,
         .alibi = true,
         .sinks = true,
         .radius = 70},
        seed++);
}

// Whatever the dispatcher chooses for queries of codes: as they are, with weights of codes, or as 16 bits. On one query, too.
TEST_P(Prefill, QueriesOfCodes) {
  uint64_t seed = 700;
  const auto check_coded = [&](Case c) {
    c.cache = DType::f8_e4m3;
    c.coded_queries = true;
    Problem p(c, seed++);
    Stream stream(device());
    const AttentionArgs args = p.args([&](TestTensor& t) { return t.on(stream); });
    const Plan<AttentionArgs> chosen = plan<AttentionArgs>(device(), args);
    const bool codes = chosen.implementation == &ops::attention_codes;
    EXPECT_TRUE(codes || chosen.implementation == &ops::attention_widened) << chosen.implementation->name;
    check_problem(
        p, codes ? 1e-3 : 4e-3,  // queries times their scale are rounded to 16 bits
        [&] {
          p.out.on(stream), p.lse.on(stream);
          run_plan(chosen, stream, args);
          p.out.fetch(stream);
          p.lse.fetch(stream);
        },
        codes ? 0.03 : 0);
  };
  for (const Case::Scales scales : {Case::one, Case::per_head}) {
    for (const DType dtype : {DType::bf16, DType::f16})
      check_coded({.dtype = dtype,
                   .heads = 4,
                   .kv_heads = 2,
                   .dim_qk = 128,
                   .dim_v = 128,
                   .queries = {70, 3},
                   .lengths = {150, 40},
                   .page_size = 16,
                   .scales = scales});
    check_coded(
        {.heads = 4, .kv_heads = 2, .queries = {1, 1}, .lengths = {150, 40}, .page_size = 16, .scales = scales});
  }
  check_coded({.dim_qk = 40, .dim_v = 56, .queries = {33}, .lengths = {90}, .window = 20});
}

// Codes become values on their way. Unused slots and their scales are NaN.
TEST_P(Prefill, CachesOfCodes) {
  const bool every_code = device().kind == DeviceKind::cpu || device().kind == DeviceKind::opencl;
  if (!every_code && device().kind != DeviceKind::cuda && !(device() == Device{DeviceKind::emulated, 32}))
    GTEST_SKIP() << "the kernel of rows serves";
  uint64_t seed = 600;
  const DType e4m3 = DType::f8_e4m3;
  for (const DType dtype : {DType::bf16, DType::f16}) {
    for (const int64_t dim : {20, 64, 80, 128, 192, 256}) {
      if (device().kind == DeviceKind::cuda && dtype == DType::f16 && dim > 128) continue;  // not built there
      check({.dtype = dtype,
             .cache = e4m3,
             .dim_qk = dim,
             .dim_v = dim,
             .queries = {9},
             .lengths = {70},
             .page_size = 16,
             .scales = Case::per_vector},
            seed++);
    }
  }
  for (const Case::Scales scales : {Case::one, Case::per_head, Case::per_vector}) {
    for (const int64_t page : {0, 7, 64}) {
      if (page == 0 && scales == Case::per_vector) continue;
      check({.cache = e4m3,
             .heads = 4,
             .kv_heads = 2,
             .queries = {70, 0, 3},
             .lengths = {150, 3, 40},
             .page_size = page,
             .tokens_first = page == 7,
             .scales = scales},
            seed++);
    }
  }
  check({.cache = e4m3,
         .dim_qk = 37,
         .dim_v = 51,
         .queries = {40},
         .lengths = {90},
         .page_size = 16,
         .placement = {.padding = {0, 0, 5}, .offset = 3},
         .scales = Case::per_vector},
        seed++);
  check({.cache = e4m3, .heads = 4, .queries = {50}, .lengths = {90}, .window = 40, .prefix = 5, .sinks = true},
        seed++);
  if (!every_code) return;
  for (const DType cache : {DType::f8_e5m2, DType::i8})
    check({.dtype = DType::f32,
           .cache = cache,
           .queries = {40},
           .lengths = {90},
           .page_size = 16,
           .alibi = true,
           .scales = Case::per_vector},
          seed++);
  check({.cache = e4m3, .queries = {20}, .lengths = {90}, .page_size = 16, .tree_words = 1, .scales = Case::per_vector},
        seed++);
}

TEST_P(Prefill, StridesAndUnalignedRows) {
  uint64_t seed = 350;
  check({.dtype = DType::f16, .queries = {40}, .lengths = {90}, .placement = {.padding = {24, 8}, .offset = 1}},
        seed++);
  check({.queries = {40}, .lengths = {90}, .placement = {.padding = {16, 8}}}, seed++);
  check({.dim_qk = 37, .dim_v = 51, .queries = {40}, .lengths = {90}, .placement = {.padding = {5, 3}}}, seed++);
}

// What a key that a query does not see holds changes nothing for it, though it shares tiles with queries that see it.
TEST_P(Prefill, ValuesThatAreNotSeenDoNotLeak) {
  for (const double bad : std::vector<double>{INFINITY, -INFINITY, NAN}) {
    for (const int64_t where : {60, 100, 129}) {
      Problem p({.queries = {130}, .lengths = {130}}, 400);
      run_reference<AttentionArgs>(ops::attention_reference_run, [&](const At& at) { return p.args(at); });
      const TestTensor wanted = p.out;
      for (int64_t i = 3; i < 64; i += 7) p.values.set(where * 64 + i, bad);
      p.out.poison();
      Stream stream(device());
      run_tiles(p.args([&](TestTensor& t) { return t.on(stream); }), stream);
      p.out.fetch(stream);
      for (int64_t row = 0; row < 130; ++row) {
        for (int64_t i = 0; i < 128; ++i) {
          const double x = p.out.get(row * 128 + i);
          if (row >= where && i % 64 % 7 == 3) {
            ASSERT_FALSE(std::isfinite(x)) << bad << " at row " << row << " column " << i;
          } else {
            ASSERT_NEAR(x, wanted.get(row * 128 + i), 0.02) << bad << " at row " << row << " column " << i;
          }
        }
      }
    }
  }
}

// Infinities keep their sign in rows that see them, and two of different signs make NaN: weights of 0 hide both from the others.
TEST_P(Prefill, InfinitiesOfBothSigns) {
  for (const auto& [dtype, dim] :
       std::vector<std::pair<DType, int64_t>>{{DType::bf16, 64}, {DType::f16, 128}, {DType::bf16, 256}}) {
    Problem p({.dtype = dtype,
               .cache = dtype,
               .heads = 1,
               .kv_heads = 1,
               .dim_qk = dim,
               .dim_v = dim,
               .queries = {130},
               .lengths = {130}},
              405);
    p.values.set(90 * dim + 3, INFINITY);
    p.values.set(110 * dim + 3, -INFINITY);
    p.values.set(100 * dim + dim - 1, -INFINITY);
    Stream stream(device());
    run_tiles(p.args([&](TestTensor& t) { return t.on(stream); }), stream);
    p.out.fetch(stream);
    for (int64_t row = 0; row < 130; ++row) {
      const double both = p.out.get(row * dim + 3), negative = p.out.get(row * dim + dim - 1);
      EXPECT_TRUE(row < 90    ? std::isfinite(both)
                  : row < 110 ? both == INFINITY
                              : std::isnan(both))
          << dim << ": " << both << " at row " << row;
      EXPECT_TRUE(row < 100 ? std::isfinite(negative) : negative == -INFINITY)
          << dim << ": " << negative << " at row " << row;
    }
  }
}

// A NaN query: NaN in both outputs of its row, and in no other.
TEST_P(Prefill, NanQuery) {
  Problem p({.heads = 1, .queries = {70}, .lengths = {90}}, 410);
  p.q.set(33 * 64 + 5, NAN);
  Stream stream(device());
  run_tiles(p.args([&](TestTensor& t) { return t.on(stream); }), stream);
  p.out.fetch(stream);
  p.lse.fetch(stream);
  for (int64_t row = 0; row < 70; ++row) {
    EXPECT_EQ(std::isnan(p.out.get(row * 64)), row == 33) << row;
    EXPECT_EQ(std::isnan(p.lse.get(row)), row == 33) << row;
  }
}

// The bits of a row depend neither on the other queries of its call nor on how its keys are stored.
TEST_P(Prefill, ARowAloneHasTheBitsThatItHasInTheBatch) {
  const Case whole{.heads = 4, .kv_heads = 2, .queries = {150, 40}, .lengths = {170, 90}, .window = 100};
  Problem all(whole, 420);
  Stream stream(device());
  run_tiles(all.args([&](TestTensor& t) { return t.on(stream); }), stream);
  all.out.fetch(stream);
  for (const int64_t last : {1, 7, 64, 100, 149}) {  // the last queries of the first sequence
    Problem some(whole, 420);
    some.q_start.set_integer(0, 150 - last);
    AttentionArgs args = some.args([&](TestTensor& t) { return t.on(stream); });
    args.max_query = 150;
    run_tiles(args, stream);
    some.out.fetch(stream);
    for (int64_t i = (150 - last) * 4 * 64; i < 150 * 4 * 64; ++i)
      ASSERT_EQ(some.out.get(i), all.out.get(i)) << "last " << last << " element " << i;
    for (int64_t i = 0; i < (150 - last) * 4 * 64; ++i) ASSERT_TRUE(std::isnan(some.out.get(i)));  // not written
    args.max_query = std::max<int64_t>(last, 40);  // heads may be packed now
    some.out.poison();
    args.out = some.out.on(stream);
    run_tiles(args, stream);
    some.out.fetch(stream);
    for (int64_t i = (150 - last) * 4 * 64; i < 150 * 4 * 64; ++i)
      ASSERT_EQ(some.out.get(i), all.out.get(i)) << "packed, last " << last << " element " << i;
  }
}

// Table entries of pages that nobody sees may be stale.
TEST_P(Prefill, PagesBeforeTheWindowAreNotLookedUp) {
  Problem p({.queries = {10}, .lengths = {200}, .page_size = 16, .window = 20}, 430);
  run_reference<AttentionArgs>(ops::attention_reference_run, [&](const At& at) { return p.args(at); });
  const TestTensor wanted = p.out;
  for (int64_t column = 0; column < 10; ++column) p.table.set_integer(column, -1000000);
  TestTensor status = TestTensor::of(DType::i32, {0.0});
  p.out.poison();
  Stream stream(device());
  AttentionArgs args = p.args([&](TestTensor& t) { return t.on(stream); });
  args.status = status.on(stream);
  run_tiles(args, stream);
  p.out.fetch(stream);
  status.fetch(stream);
  EXPECT_LE(relative_norm(p.out, wanted), bound(DType::bf16));
  EXPECT_EQ(status.get(0), 0);
}

/// Fragments and copies touch every bank as evenly as can be, on 64 lanes also where blocks are turned.
TEST(SharedMemoryEmulated, NoBankConflictsInAttention) {
  for (const int16_t wave : {32, 64}) {
    for (const int64_t dim : {64, 128, 256}) {
      for (const int64_t queries : {130, 1}) {
        const Device device{DeviceKind::emulated, wave};
        Problem p({.heads = 1, .kv_heads = 1, .dim_qk = dim, .dim_v = dim, .queries = {queries}, .lengths = {192}},
                  440);
        Stream stream(device);
        const AttentionArgs args = p.args([&](TestTensor& t) { return t.on(stream); });
        (void)emulated::take_shared_accesses();
        run_by(queries == 1 ? ops::attention_decode_tiles : ops::attention_tiles, args, stream);
        const emulated::SharedAccesses seen = emulated::take_shared_accesses();
        EXPECT_GT(seen.needed, 0u);
        EXPECT_EQ(seen.passes, seen.needed)
            << "wave of " << wave << ", " << dim << " columns, " << queries << " queries";
      }
    }
  }
}

}  // namespace
}  // namespace monotile
