// Attention of one query per sequence, in splits of the keys, against the fp64 oracle. The kernel is called by itself,
// whatever the dispatcher would choose; on CPU and SPIR-V, which have none for one query, it is the kernel of rows.

#include <cmath>
#include <random>
#include <vector>

#include "monotile/kernels/attention/params.hpp"
#include "ops/attention/attention.hpp"
#include "tests/ops/attention_cases.hpp"

namespace monotile {
namespace {

using namespace test;  // NOLINT

class Decode : public OnDevice {
 protected:
  const Implementation<AttentionArgs>& kernel() const {
    const bool tiles = device().kind == DeviceKind::emulated || device().kind == DeviceKind::cuda;
    return tiles ? ops::attention_decode_tiles : ops::attention_portable;
  }
  void run_decode(const AttentionArgs& args, Stream& stream) const { run_by(kernel(), args, stream); }
  /// One query for each length, and none for the sequence number `without`.
  static Case one_query(Case c, size_t without = SIZE_MAX) {
    c.queries.assign(c.lengths.size(), 1);
    if (without < c.queries.size()) c.queries[without] = 0;
    return c;
  }
  void check(const Case& c, uint64_t seed, size_t without = SIZE_MAX) const {
    check_by(kernel(), device(), one_query(c, without), seed);
  }
};
MONOTILE_ON_DEVICES(Decode);

TEST(DecodeSplits, FollowFromTheLengthAlone) {
  EXPECT_EQ(kernels::split_keys(0), 256);
  EXPECT_EQ(kernels::split_keys(16384), 256);
  EXPECT_EQ(kernels::split_keys(16385), 512);
  EXPECT_EQ(kernels::split_keys(32768, 512), 512);
  EXPECT_EQ(kernels::split_keys(32769, 512), 1024);
  for (const int least : {kernels::kLeastSplitKeys, 512}) {
    for (const int length : {1, 255, 256, 257, 16384, 16385, 65536, 1 << 20, INT32_MAX / 2}) {
      const int keys = kernels::split_keys(length, least);
      EXPECT_EQ(keys % least, 0);
      EXPECT_LE((length - 1) / keys + 1, kernels::most_splits(length, least)) << length;
      EXPECT_LE(kernels::most_splits(length, least), kernels::kMostSplits);
    }
  }
}

TEST_P(Decode, HeadDims) {
  uint64_t seed = 1;
  for (const DType dtype : {DType::bf16, DType::f16}) {
    for (const int64_t dim : {1, 20, 64, 80, 96, 128, 192, 256}) {
      // Not built there: see register_decode.hpp.
      if (device().kind == DeviceKind::cuda && dtype == DType::f16 && dim > 128) continue;
      check({.dtype = dtype, .heads = 4, .kv_heads = 2, .dim_qk = dim, .dim_v = dim, .lengths = {301}}, seed++);
    }
  }
  check({.dim_qk = 96, .dim_v = 40, .lengths = {101}}, seed++);
  check({.dim_qk = 64, .dim_v = 200, .lengths = {70}}, seed++);
}

TEST_P(Decode, SplitsAndBlocksAtTheirBorders) {
  uint64_t seed = 50;
  for (const int64_t n : {1, 2, 63, 64, 65, 255, 256, 257, 511, 513, 700}) check({.lengths = {n}}, seed++);
  check({.heads = 1, .lengths = {16600}}, seed++);  // splits of 512 keys
}

TEST_P(Decode, HeadsThatShareKeys) {
  uint64_t seed = 100;
  for (const int64_t kv_heads : {1, 2, 3, 6}) check({.heads = 6, .kv_heads = kv_heads, .lengths = {75, 300}}, seed++);
  check({.heads = 17, .kv_heads = 1, .lengths = {280}}, seed++);
  check({.heads = 16, .kv_heads = 1, .lengths = {300}, .page_size = 16}, seed++);
  // More than a tile holds.
  check({.heads = 24, .kv_heads = 1, .lengths = {300, 0, 90}, .page_size = 8}, seed++);
  check({.heads = 48, .kv_heads = 1, .lengths = {70}, .page_size = 16}, seed++);
}

// Random lengths, none among them; slots that hold no key are NaN.
TEST_P(Decode, RaggedAndPaged) {
  uint64_t seed = 150;
  std::mt19937 random(7);
  for (const int64_t page : {0, 1, 2, 3, 4, 7, 8, 16, 24, 32, 64, 128}) {
    Case c{.heads = 4, .kv_heads = 2, .page_size = page, .tokens_first = page % 3 == 1};
    c.lengths = {0, 1};
    for (int i = 0; i < 3; ++i) c.lengths.push_back(static_cast<int64_t>(random() % 600));
    check(c, seed++);
    check(c, seed++, 3);  // a sequence without a query
  }
}

TEST_P(Decode, MasksAndChangesOfScores) {
  uint64_t seed = 200;
  for (const int64_t window : {1, 5, 64, 300, 1000})
    check({.lengths = {610, 3}, .page_size = 16, .window = window}, seed++);
  check({.lengths = {610}, .causal = false}, seed++);
  check({.lengths = {610}, .page_size = 16, .window = 9, .prefix = 90}, seed++);
  check({.lengths = {610}, .page_size = 16, .document = 100}, seed++);
  check({.lengths = {300}, .softcap = 2.5f}, seed++);
  check({.lengths = {300}, .scale = -0.2f}, seed++);
  check({.heads = 4, .kv_heads = 2, .lengths = {300}, .alibi = true}, seed++);
  check({.heads = 4, .lengths = {300, 9}, .page_size = 16, .radius = 11}, seed++);
  check({.heads = 4, .lengths = {300, 1, 0}, .sinks = true}, seed++);
}

// Codes of e4m3 become values on their way: pages of either layout, unaligned rows, scales of all three kinds. Unused slots and their scales are NaN.
TEST_P(Decode, CachesOfCodes) {
  if (device().kind == DeviceKind::emulated && device().index == 64) GTEST_SKIP() << "the kernel of rows serves";
  uint64_t seed = 500;
  const DType e4m3 = DType::f8_e4m3;
  for (const DType dtype : {DType::bf16, DType::f16}) {
    for (const int64_t dim : {20, 64, 80, 128, 192, 256}) {
      // Not built there: see register_decode.hpp.
      if (device().kind == DeviceKind::cuda && dtype == DType::f16 && dim > 128) continue;
      check({.dtype = dtype,
             .cache = e4m3,
             .heads = 4,
             .kv_heads = 2,
             .dim_qk = dim,
             .dim_v = dim,
             .lengths = {130, 1},
             .page_size = 16,
             .scales = Case::per_vector},
            seed++);
    }
  }
  for (const Case::Scales scales : {Case::one, Case::per_head, Case::per_vector}) {
    for (const int64_t page : {0, 1, 7, 16}) {
      if (page == 0 && scales == Case::per_vector) continue;
      check({.cache = e4m3,
             .heads = 6,
             .kv_heads = 3,
             .lengths = {0, 64, 65, 300},
             .page_size = page,
             .tokens_first = page % 3 == 1,
             .scales = scales},
            seed++);
    }
  }
  check({.cache = e4m3,
         .dim_qk = 37,
         .dim_v = 51,
         .lengths = {290},
         .page_size = 16,
         .placement = {.padding = {0, 0, 5}, .offset = 3},
         .scales = Case::per_vector},
        seed++);
  check({.cache = e4m3, .heads = 24, .lengths = {300, 90}, .page_size = 8, .window = 70, .sinks = true}, seed++);
  check({.cache = e4m3, .lengths = {300}, .page_size = 16, .prefix = 9, .document = 200}, seed++);
}

TEST_P(Decode, StridesAndUnalignedRows) {
  check({.dtype = DType::f16, .lengths = {290}, .placement = {.padding = {24, 8}, .offset = 1}}, 350);
  check({.dim_qk = 37, .dim_v = 51, .lengths = {290}, .placement = {.padding = {5, 3}}}, 351);
}

// The bits of a sequence depend neither on what else is in the batch nor on the bound of the lengths.
TEST_P(Decode, ASequenceAloneHasTheBitsThatItHasInTheBatch) {
  const Case whole = one_query({.heads = 4, .kv_heads = 2, .lengths = {610, 40, 900}, .page_size = 16});
  Problem all(whole, 420);
  Stream stream(device());
  run_decode(all.args([&](TestTensor& t) { return t.on(stream); }), stream);
  all.out.fetch(stream);
  for (const int64_t only : {0, 1, 2}) {
    Problem some(whole, 420);
    for (int64_t s = 0; s <= 3; ++s) some.q_start.set_integer(s, s <= only ? only : only + 1);
    AttentionArgs args = some.args([&](TestTensor& t) { return t.on(stream); });
    args.max_kv_length = only == 1 ? 40 : 900;
    if (only == 1) {
      for (const int64_t s : {0, 2}) some.kv_length.set_integer(s, 0);
      args.kv_length = some.kv_length.on(stream);
    }
    run_decode(args, stream);
    some.out.fetch(stream);
    for (int64_t i = 0; i < 3 * 4 * 64; ++i) {
      if (i / (4 * 64) == only) {
        ASSERT_EQ(some.out.get(i), all.out.get(i)) << only << " element " << i;
      } else {
        ASSERT_TRUE(std::isnan(some.out.get(i))) << "written: " << i;
      }
    }
  }
}

// Where programs take tiles from a queue and the last one joins, who does what differs from run to run; the bits do not.
TEST_P(Decode, EveryRunHasTheSameBits) {
  Problem p(one_query({.heads = 4, .kv_heads = 2, .lengths = {1030, 0, 513, 20}, .page_size = 16}), 425);
  Stream stream(device());
  std::vector<double> first;
  for (int run = 0; run < (device().kind == DeviceKind::cuda ? 20 : 2); ++run) {
    p.out.poison();
    run_decode(p.args([&](TestTensor& t) { return t.on(stream); }), stream);
    p.out.fetch(stream);
    for (int64_t i = 0; i < 4 * 4 * 64; ++i) {
      if (run == 0) first.push_back(p.out.get(i));
      ASSERT_EQ(p.out.get(i), first[static_cast<size_t>(i)]) << "run " << run << " element " << i;
    }
  }
}

// Counts are kept between launches where there are few: whoever counts to the end leaves zeros behind, for other shapes in
// the same workspace, too, whatever lies in it.
TEST_P(Decode, ManyShapesInOneWorkspace) {
  Stream stream(device());
  Buffer workspace(device(), size_t{1} << 20);
  for (int round = 0; round < 2; ++round) {
    for (const std::vector<int64_t>& lengths : {std::vector<int64_t>{1100}, {5, 0, 700, 20}, {513, 1030}}) {
      Problem p(one_query({.heads = 4, .kv_heads = 2, .lengths = lengths, .page_size = 16}), 426);
      run_reference<AttentionArgs>(ops::attention_reference_run, [&](const At& at) { return p.args(at); });
      const TestTensor wanted = p.out;
      const std::vector<unsigned char> garbage(workspace.size(), 0x5a);
      for (int run = 0; run < 2; ++run) {
        p.out.poison();
        const AttentionArgs args = p.args([&](TestTensor& t) { return t.on(stream); });
        const Plan<AttentionArgs> plan = plan_of(kernel(), args, device());
        ASSERT_LE(plan.workspace_bytes, workspace.size());
        copy_to_device(stream, workspace.data(), garbage.data(), garbage.size());
        plan.run(stream, args, workspace.data());
        p.out.fetch(stream);
        EXPECT_LE(relative_norm(p.out, wanted), bound(DType::bf16)) << "round " << round << " run " << run;
      }
    }
  }
}

// Table entries of pages that nobody sees may be stale; those in use are clamped and reported.
TEST_P(Decode, Tables) {
  Problem p(one_query({.lengths = {600}, .page_size = 16, .window = 20}), 430);
  run_reference<AttentionArgs>(ops::attention_reference_run, [&](const At& at) { return p.args(at); });
  const TestTensor wanted = p.out;
  for (int64_t column = 0; column < 36; ++column) p.table.set_integer(column, -1000000);
  TestTensor status = TestTensor::of(DType::i32, {0.0});
  p.out.poison();
  Stream stream(device());
  AttentionArgs args = p.args([&](TestTensor& t) { return t.on(stream); });
  args.status = status.on(stream);
  run_decode(args, stream);
  p.out.fetch(stream);
  status.fetch(stream);
  EXPECT_LE(relative_norm(p.out, wanted), bound(DType::bf16));
  EXPECT_EQ(status.get(0), 0);
  p.table.set_integer(37, -1000000);
  args.block_table = p.table.on(stream);
  run_decode(args, stream);
  status.fetch(stream);
  EXPECT_EQ(status.get(0), 1);
}

// More sequences than a wave has lanes: programs find their share of the splits among all of them.
TEST_P(Decode, ManySequences) {
  std::mt19937 random(11);
  Case c{.heads = 2, .kv_heads = 2, .page_size = 16};
  c.lengths.assign(150, 0);
  for (size_t i = 0; i < c.lengths.size(); ++i)
    c.lengths[i] = i % 50 == 49 ? 1000 : i % 3 == 0 ? 0 : static_cast<int64_t>(random() % 30);
  check(c, 360);
  check(c, 361, 49);
  c.lengths.assign(260, 3);  // more counts than are kept between launches
  check(c, 364);
  c.lengths.assign(70, 0);
  check(c, 362);
  c.lengths[69] = 5;
  check(c, 363);
}

// Values that are not seen may be NaN, in blocks that are seen in part, too; so may keys.
TEST_P(Decode, NanThatNobodySees) {
  for (const int64_t page : {0, 16}) {
    Problem p(one_query({.lengths = {600}, .page_size = page, .window = 150}), 435);
    run_reference<AttentionArgs>(ops::attention_reference_run, [&](const At& at) { return p.args(at); });
    const TestTensor wanted = p.out;
    for (const int64_t key : {449, 448, 440, 1}) {
      const int64_t row = page == 0 ? key : static_cast<int64_t>(p.table.get(key / page)) * page + key % page;
      for (int64_t d = 0; d < 64; ++d) {
        p.keys.set(row * 64 + d, NAN);
        p.values.set(row * 64 + d, d % 2 == 0 ? NAN : INFINITY);
      }
    }
    p.out.poison();
    Stream stream(device());
    run_decode(p.args([&](TestTensor& t) { return t.on(stream); }), stream);
    p.out.fetch(stream);
    EXPECT_LE(relative_norm(p.out, wanted), bound(DType::bf16)) << page;
  }
}

// NaN in a query or in a value that is seen shows in the rows that see it, and in no other.
TEST_P(Decode, NanStaysInItsRow) {
  Problem p(one_query({.heads = 2, .kv_heads = 2, .lengths = {300, 290}}), 440);
  p.q.set(1 * 64 + 5, NAN);  // the second head of the first sequence
  Stream stream(device());
  run_decode(p.args([&](TestTensor& t) { return t.on(stream); }), stream);
  p.out.fetch(stream);
  p.lse.fetch(stream);
  for (int64_t row = 0; row < 4; ++row) {
    EXPECT_EQ(std::isnan(p.out.get(row * 64)), row == 1) << row;
    EXPECT_EQ(std::isnan(p.lse.get(row)), row == 1) << row;
  }
}

TEST_P(Decode, WhatItDoesNotTake) {
  Problem p(one_query({.lengths = {30}}), 450);
  Stream stream(device());
  AttentionArgs args = p.args([&](TestTensor& t) { return t.on(stream); });
  args.max_query = 2;
  EXPECT_STREQ(ops::attention_decode_tiles.supports(args, device_info(device())), "one query per sequence only");
}

}  // namespace
}  // namespace monotile
