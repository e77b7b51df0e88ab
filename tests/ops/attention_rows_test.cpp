// Every mask and change of scores by the kernel of rows, which serves where no matrix tiles do, against the fp64 oracle. The plain ones are
// in attention_test.cpp, trees of drafts in attention_verify_test.cpp.

#include "ops/attention/attention.hpp"
#include "tests/ops/attention_cases.hpp"

namespace monotile {
namespace {

using namespace test;  // NOLINT

class Rows : public OnDevice {
 protected:
  void check(const Case& c, uint64_t seed) const { check_by(ops::attention_portable, device(), c, seed); }
};
MONOTILE_ON_DEVICES(Rows);

TEST_P(Rows, PrefixAndDocuments) {
  uint64_t seed = 1;
  for (const int64_t prefix : {0, 3, 20, 500}) {
    check({.dtype = DType::f32, .queries = {30}, .lengths = {30}, .prefix = prefix}, seed++);
    check({.queries = {20, 5}, .lengths = {50, 9}, .page_size = 16, .window = 9, .prefix = prefix}, seed++);
  }
  for (const int64_t length : {1, 7, 16, 100}) {
    check({.dtype = DType::f32, .queries = {40}, .lengths = {40}, .document = length}, seed++);
    check({.queries = {30, 7}, .lengths = {50, 7}, .page_size = 16, .causal = false, .document = length}, seed++);
    check({.queries = {30}, .lengths = {10}, .document = length}, seed++);  // rows that see no key
  }
}

TEST_P(Rows, ChangesOfScores) {
  uint64_t seed = 50;
  for (const DType dtype : {DType::f32, DType::f16}) {
    check({.dtype = dtype, .heads = 4, .kv_heads = 2, .queries = {20}, .lengths = {50}, .alibi = true}, seed++);
    check({.dtype = dtype,
           .heads = 4,
           .queries = {9, 1},
           .lengths = {50, 9},
           .page_size = 16,
           .causal = false,
           .radius = 11},
          seed++);
    check({.dtype = dtype, .queries = {30}, .lengths = {30}, .radius = 0}, seed++);
    check({.dtype = dtype, .heads = 4, .queries = {20}, .lengths = {40}, .sinks = true}, seed++);
    check({.dtype = dtype, .heads = 4, .queries = {20}, .lengths = {9}, .window = 4, .sinks = true},
          seed++);  // rows of the sink alone
    check({.dtype = dtype, .heads = 4, .queries = {20}, .lengths = {40}, .scale = -0.2f, .alibi = true}, seed++);
    check({.dtype = dtype,
           .heads = 4,
           .queries = {20},
           .lengths = {40},
           .window = 15,
           .softcap = 3.0f,
           .prefix = 5,
           .alibi = true,
           .sinks = true,
           .radius = 70},
          seed++);
  }
}

TEST_P(Rows, OneQuery) {
  uint64_t seed = 100;
  check({.dtype = DType::f32,
         .heads = 8,
         .kv_heads = 2,
         .dim_qk = 128,
         .dim_v = 128,
         .queries = {1, 1, 0},
         .lengths = {1, 700, 5},
         .page_size = 16,
         .sinks = true},
        seed++);
  check({.heads = 4, .queries = {1, 1}, .lengths = {600, 30}, .page_size = 16, .alibi = true}, seed++);
  check({.queries = {1}, .lengths = {600}, .window = 9, .prefix = 550}, seed++);
}

TEST_P(Rows, HeadDimsAndCaches) {
  uint64_t seed = 150;
  for (const int64_t dim : {1, 80, 128, 256})
    check({.dtype = DType::f16, .dim_qk = dim, .dim_v = dim, .queries = {9}, .lengths = {40}, .alibi = true}, seed++);
  check({.dim_qk = 37, .dim_v = 51, .queries = {9}, .lengths = {40}, .prefix = 20, .placement = {.padding = {5, 3}}},
        seed++);
  for (const DType cache : {DType::f16, DType::bf16})
    check({.dtype = DType::f32, .cache = cache, .queries = {9}, .lengths = {40}, .sinks = true}, seed++);
  for (const DType cache : {DType::f8_e4m3, DType::f8_e5m2, DType::i8})
    check({.dtype = DType::f32,
           .cache = cache,
           .queries = {9},
           .lengths = {40},
           .page_size = 16,
           .radius = 5,
           .scales = Case::per_vector},
          seed++);
}

// Tiles are chosen where there are some.
TEST_P(Rows, AreTheLastChoice) {
  const Case c{.queries = {9}, .lengths = {40}, .page_size = 16, .prefix = 3, .sinks = true};
  Problem p(c, 200);
  Stream stream(device());
  for (const int64_t most : {1, 9}) {
    p.q_start.set_integer(1, most);
    AttentionArgs args = p.args([&](TestTensor& t) { return t.on(stream); });
    args.max_query = most;
    EXPECT_EQ(plan<AttentionArgs>(device(), args).implementation == &ops::attention_portable,
              device().kind == DeviceKind::opencl)
        << most << " queries";
  }
}

}  // namespace
}  // namespace monotile
