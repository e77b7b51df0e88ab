// Norm, rotary embedding and cache append in one launch, and appends to caches of codes: against the oracle, and against the steps one by one.

#include "ops/kv_cache/kv_cache.hpp"
#include "ops/norm/norm.hpp"
#include "ops/rope/rope.hpp"
#include "tests/ops/test_util.hpp"

namespace monotile {
namespace {

using namespace test;  // NOLINT
using ops::KvAppendArgs;
using ops::NormRopeAppendArgs;
using ops::RmsNormArgs;
using ops::RopeArgs;

const TierPolicy kPortable{Tier::portable, false};
constexpr DType kTypes[] = {DType::f32, DType::f16, DType::bf16};

class HeadsTest : public OnDevice {};
MONOTILE_ON_DEVICES(HeadsTest);

enum class Scales { none, one, per_head, chosen };

struct Case {
  DType dtype = DType::bf16, cache = DType::bf16;
  int64_t dim = 128, dim_v = 128;
  int rotary_dim = 0;
  bool interleaved = false, norm = true, keep_k = true;
  Scales scales = Scales::none;
};

struct Heads {
  static constexpr int64_t kTokens = 7, kQHeads = 4, kKvHeads = 2, kPages = 5, kPage = 4, kPositions = 9;
  TestTensor q, k, v, q_gamma, k_gamma, cos, sin, positions, slots, status, q_out, k_out, key_cache, value_cache,
      key_scale, value_scale;
  Case c;

  Heads(const Case& with, uint64_t seed) : c(with) {
    const int64_t half = (c.rotary_dim == 0 ? c.dim : c.rotary_dim) / 2;
    q = TestTensor::random(c.dtype, {kTokens, kQHeads, c.dim}, seed, {.padding = {c.dim * 2}}, -2, 2);
    k = TestTensor::random(c.dtype, {kTokens, kKvHeads, c.dim}, seed + 1, {}, -2, 2);
    v = TestTensor::random(c.dtype, {kTokens, kKvHeads, c.dim_v}, seed + 2, {}, -2, 2);
    q_gamma = TestTensor::random(seed % 2 == 0 ? c.dtype : DType::f32, {c.dim}, seed + 3);
    k_gamma = TestTensor::random(c.dtype, {c.dim}, seed + 4);
    cos = TestTensor::random(DType::f32, {kPositions, half}, seed + 5);
    sin = TestTensor::random(DType::f32, {kPositions, half}, seed + 6);
    positions = TestTensor(DType::i64, {kTokens});
    slots = TestTensor(DType::i32, {kTokens - 1});  // the last token has no slot
    const int64_t at[] = {3, 0, 8, 9, -1, 5, 5}, slot[] = {19, 0, -1, 20, 7, 6};
    for (int64_t i = 0; i < kTokens; ++i) positions.set_integer(i, at[i]);
    for (int64_t i = 0; i < kTokens - 1; ++i) slots.set_integer(i, slot[i]);
    status = TestTensor(DType::i32, {kTokens});
    status.fill(0);
    q_out = TestTensor(c.dtype, {kTokens, kQHeads, c.dim});
    k_out = TestTensor(c.dtype, {kTokens, kKvHeads, c.dim}, {.padding = {8}});
    key_cache = TestTensor(c.cache, {kPages, kKvHeads, kPage, c.dim});
    value_cache = TestTensor(c.cache, {kPages, kKvHeads, kPage, c.dim_v}, {.padding = {16}});
    const std::vector<int64_t> extents = c.scales == Scales::chosen     ? std::vector<int64_t>{kPages, kKvHeads, kPage}
                                         : c.scales == Scales::per_head ? std::vector<int64_t>{kKvHeads}
                                                                        : std::vector<int64_t>{1};
    key_scale = TestTensor(DType::f32, extents);
    value_scale = TestTensor(DType::f32, extents);
    if (c.scales != Scales::chosen) {
      key_scale.fill_random(seed + 7, 0.01, 0.05);
      value_scale.fill_random(seed + 8, 0.01, 0.05);
    }
  }
  NormRopeAppendArgs args(const At& at) {
    NormRopeAppendArgs a;
    a.q_out = at(q_out), a.q = at(q), a.k = at(k), a.v = at(v);
    if (c.keep_k) a.k_out = at(k_out);
    if (c.norm) a.q_gamma = at(q_gamma), a.k_gamma = at(k_gamma);
    a.positions = at(positions), a.cos = at(cos), a.sin = at(sin);
    a.key_cache = at(key_cache), a.value_cache = at(value_cache), a.slots = at(slots);
    if (c.scales != Scales::none) a.key_scale = at(key_scale), a.value_scale = at(value_scale);
    a.status = at(status);
    a.gamma_offset = 1.0f;
    a.rotary_dim = c.rotary_dim;
    a.interleaved = c.interleaved;
    return a;
  }
  std::vector<TestTensor*> outputs() {
    std::vector<TestTensor*> list{&q_out, &key_cache, &value_cache, &status};
    if (c.keep_k) list.push_back(&k_out);
    if (c.scales == Scales::chosen) list.push_back(&key_scale), list.push_back(&value_scale);
    return list;
  }
};

/// One launch against its four operators on the same device: the same bits, in every output and outside of them.
void check_steps(Device device, const Case& c, uint64_t seed) {
  SCOPED_TRACE(testing::Message() << dtype_info(c.dtype).name << " cache " << dtype_info(c.cache).name << " dims "
                                  << c.dim << ", " << c.dim_v << " rotary " << c.rotary_dim
                                  << (c.interleaved ? " interleaved" : "") << (c.norm ? " norm" : "") << " scales "
                                  << static_cast<int>(c.scales));
  Heads fused(c, seed), steps(c, seed);
  run_on<NormRopeAppendArgs>(
      device, fused.outputs(), [&](const At& at) { return fused.args(at); }, kPortable);

  TestTensor q = steps.q, k = steps.k;
  if (c.norm) {
    run_on<RmsNormArgs>(
        device, {&q},
        [&](const At& at) {
          return RmsNormArgs{.y = at(q),
                             .residual = {},
                             .x = at(steps.q),
                             .gamma = at(steps.q_gamma),
                             .beta = {},
                             .eps = 1e-6f,
                             .gamma_offset = 1.0f};
        },
        kPortable);
    run_on<RmsNormArgs>(
        device, {&k},
        [&](const At& at) {
          return RmsNormArgs{.y = at(k),
                             .residual = {},
                             .x = at(steps.k),
                             .gamma = at(steps.k_gamma),
                             .beta = {},
                             .eps = 1e-6f,
                             .gamma_offset = 1.0f};
        },
        kPortable);
  }
  run_on<RopeArgs>(
      device, {&steps.q_out, &steps.k_out, &steps.status},
      [&](const At& at) {
        return RopeArgs{at(steps.q_out),     at(steps.k_out), at(q),         at(k),
                        at(steps.positions), at(steps.cos),   at(steps.sin), at(steps.status),
                        c.rotary_dim,        c.interleaved};
      },
      kPortable);
  std::vector<TestTensor*> written{&steps.key_cache, &steps.value_cache};
  if (c.scales == Scales::chosen) written.push_back(&steps.key_scale), written.push_back(&steps.value_scale);
  TestTensor append_status(DType::i32, {Heads::kTokens - 1});
  append_status.fill(0);
  run_on<KvAppendArgs>(
      device, written,
      [&](const At& at) {
        const bool with = c.scales != Scales::none;
        return KvAppendArgs{at(steps.key_cache),
                            at(steps.value_cache),
                            at(steps.k_out),
                            at(steps.v),
                            at(steps.slots),
                            at(append_status),
                            with ? at(steps.key_scale) : TensorView{},
                            with ? at(steps.value_scale) : TensorView{}};
      },
      kPortable);
  EXPECT_TRUE(is_identical(fused.q_out, steps.q_out)) << "q_out";
  if (c.keep_k) {
    EXPECT_TRUE(is_identical(fused.k_out, steps.k_out)) << "k_out";
  }
  EXPECT_TRUE(is_identical(fused.key_cache, steps.key_cache)) << "key_cache";
  EXPECT_TRUE(is_identical(fused.value_cache, steps.value_cache)) << "value_cache";
  EXPECT_TRUE(is_identical(fused.key_scale, steps.key_scale)) << "key_scale";
  EXPECT_TRUE(is_identical(fused.value_scale, steps.value_scale)) << "value_scale";
  const std::vector<double> wanted{0, 0, 0, 1, 1, 0, 0};
  EXPECT_EQ(fused.status.values(), wanted);
  for (TestTensor* output : fused.outputs()) EXPECT_TRUE(output->guards_intact());
}

TEST_P(HeadsTest, OneLaunchHasTheBitsOfItsSteps) {
  uint64_t seed = 1;
  for (const DType dtype : kTypes) {
    check_steps(device(), {.dtype = dtype, .cache = dtype}, seed++);
    check_steps(device(), {.dtype = dtype, .cache = DType::f16, .dim = 64, .dim_v = 64, .norm = false}, seed++);
    check_steps(device(), {.dtype = dtype, .cache = DType::f8_e4m3, .scales = Scales::chosen}, seed++);
    check_steps(
        device(),
        {.dtype = dtype, .cache = DType::i8, .dim = 96, .dim_v = 96, .keep_k = false, .scales = Scales::per_head},
        seed++);
    check_steps(
        device(),
        {.dtype = dtype, .cache = DType::f8_e5m2, .dim = 80, .dim_v = 40, .rotary_dim = 32, .scales = Scales::one},
        seed++);
    check_steps(device(), {.dtype = dtype, .cache = dtype, .dim = 256, .dim_v = 256, .rotary_dim = 64}, seed++);
    check_steps(device(), {.dtype = dtype, .cache = dtype, .dim = 128, .dim_v = 64, .interleaved = true}, seed++);
    check_steps(device(),
                {.dtype = dtype,
                 .cache = DType::f8_e4m3,
                 .dim = 66,
                 .dim_v = 33,
                 .rotary_dim = 20,
                 .interleaved = true,
                 .keep_k = false,
                 .scales = Scales::chosen},
                seed++);
    check_steps(device(), {.dtype = dtype, .cache = DType::f32, .dim = 10, .dim_v = 7, .rotary_dim = 6}, seed++);
  }
}

TEST_P(HeadsTest, AgreesWithTheOracle) {
  uint64_t seed = 100;
  for (const DType dtype : kTypes) {
    for (const bool interleaved : {false, true}) {
      Heads t({.dtype = dtype, .cache = DType::f32, .dim = 128, .rotary_dim = 96, .interleaved = interleaved}, seed++);
      // A rounding to the other side after the norm or the rotation is carried on.
      compare_with_reference<NormRopeAppendArgs>(
          device(), ops::norm_rope_append_reference_run, t.outputs(),
          {.ulps = 2.0, .absolute = dtype == DType::f32 ? 1e-5 : 4e-2, .scale = 4.0},
          [&](const At& at) { return t.args(at); }, kPortable);
    }
    for (const int64_t dim : {64, 128, 256}) {  // rotated as a whole: half a head to a lane group
      Heads t({.dtype = dtype, .cache = dim == 64 ? dtype : DType::f32, .dim = dim, .dim_v = dim, .norm = dim != 64},
              seed++);
      compare_with_reference<NormRopeAppendArgs>(
          device(), ops::norm_rope_append_reference_run, t.outputs(),
          {.ulps = 2.0, .absolute = dtype == DType::f32 ? 1e-5 : 4e-2, .scale = 4.0},
          [&](const At& at) { return t.args(at); }, kPortable);
    }
  }
}

// Codes of the cache are exact; spare case: K = 100 with a scale of 0.5 comes back as 96, code value 192.
TEST_P(HeadsTest, AppendsCodes) {
  uint64_t seed = 200;
  for (const DType dtype : kTypes) {
    for (const DType cache : {DType::f8_e4m3, DType::f8_e5m2, DType::i8}) {
      for (const Scales scales : {Scales::one, Scales::per_head, Scales::chosen}) {
        Heads t({.dtype = dtype, .cache = cache, .dim = 80, .dim_v = 128, .scales = scales}, seed++);
        TestTensor status(DType::i32, {Heads::kTokens - 1});
        status.fill(0);
        for (int64_t i = 0; i < 80; ++i) t.k.set(i, 0.0);
        std::vector<TestTensor*> outputs{&t.key_cache, &t.value_cache, &status};
        if (scales == Scales::chosen) outputs.push_back(&t.key_scale), outputs.push_back(&t.value_scale);
        compare_with_reference<KvAppendArgs>(
            device(), ops::kv_append_reference_run, outputs, {.ulps = 0.0, .relative = 0.0},
            [&](const At& at) {
              return KvAppendArgs{at(t.key_cache), at(t.value_cache), at(t.k),         at(t.v),
                                  at(t.slots),     at(status),        at(t.key_scale), at(t.value_scale)};
            },
            kPortable);
      }
    }
  }
  TestTensor k = TestTensor::of(DType::bf16, {1, 1, 1}, {100.0}), v = k, keys(DType::f8_e4m3, {1, 1, 1, 1}),
             values(DType::f8_e4m3, {1, 1, 1, 1}), slots(DType::i32, {1});
  TestTensor half = TestTensor::of(DType::f32, {0.5});
  slots.set_integer(0, 0);
  run_on<KvAppendArgs>(
      device(), {&keys, &values},
      [&](const At& at) { return KvAppendArgs{at(keys), at(values), at(k), at(v), at(slots), {}, at(half), at(half)}; },
      kPortable);
  EXPECT_EQ(keys.get(0), 192.0);
  EXPECT_EQ(keys.get(0) * 0.5, 96.0);
}

TEST(HeadsErrors, Refusals) {
  Heads t({}, 1);
  const auto host = [](TestTensor& tensor) { return tensor.host(); };
  EXPECT_NO_THROW(plan(Device{}, t.args(host)));
  const auto refuses = [&](const std::vector<std::string>& words, auto change) {
    NormRopeAppendArgs bad = t.args(host);
    change(bad);
    expect_error(ErrorCode::invalid_argument, words, [&] { plan(Device{}, bad); });
  };
  refuses({"norm_rope_append: k_gamma", "undefined"}, [](NormRopeAppendArgs& a) { a.k_gamma = {}; });
  refuses({"norm_rope_append: key_scale", "none with a cache of bf16"},
          [&](NormRopeAppendArgs& a) { a.key_scale = t.key_scale.host(); });
  refuses({"norm_rope_append: key_scale", "undefined"},
          [](NormRopeAppendArgs& a) { a.key_cache.dtype = a.value_cache.dtype = DType::i8; });
  refuses({"norm_rope_append: v", "dtype f16"}, [](NormRopeAppendArgs& a) { a.v.dtype = DType::f16; });
  refuses({"norm_rope_append: rotary_dim", "3"}, [](NormRopeAppendArgs& a) { a.rotary_dim = 3; });
  // v lies inside q_out whole: the other way round q_out would reach into whatever the allocator put behind v.
  refuses({"norm_rope_append: q_out", "shared with v"}, [](NormRopeAppendArgs& a) { a.v.data = a.q_out.data; });
  refuses({"norm_rope_append: slots", "8 slots"}, [](NormRopeAppendArgs& a) { a.slots.extent[0] = 8; });
}

}  // namespace
}  // namespace monotile
