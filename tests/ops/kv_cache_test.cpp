// Cache append on every device against the oracle: exact, and nothing but the named slots changes.

#include "ops/kv_cache/kv_cache.hpp"

#include <sys/mman.h>

#include "tests/ops/test_util.hpp"

namespace monotile {
namespace {

using namespace test;  // NOLINT
using ops::KvAppendArgs;

const TierPolicy kPortable{Tier::portable, false};
constexpr DType kTypes[] = {DType::f32, DType::f16, DType::bf16};
const Tolerance kExact{.ulps = 0, .relative = 0};

class KvCacheTest : public OnDevice {};
MONOTILE_ON_DEVICES(KvCacheTest);

struct Shape {
  int64_t heads, dim_qk, dim_v;
};
struct Case {
  DType source = DType::bf16, cache = DType::bf16, slots = DType::i32;
  Placement source_placement{}, cache_placement{};
  bool with_status = true;
};

/// Pages of 5 tokens, 4 of them; eight tokens, of which `slots` are written.
void check(Device device, const Shape& s, const Case& c, uint64_t seed) {
  TestTensor k = TestTensor::random(c.source, {8, s.heads, s.dim_qk}, seed, c.source_placement),
             v = TestTensor::random(c.source, {8, s.heads, s.dim_v}, seed + 1, c.source_placement);
  TestTensor keys = TestTensor::random(c.cache, {4, s.heads, 5, s.dim_qk}, seed + 2, c.cache_placement);
  TestTensor values = TestTensor::random(c.cache, {4, s.heads, 5, s.dim_v}, seed + 3, c.cache_placement);
  TestTensor slots = TestTensor::of(c.slots, {19, 0, -1, c.with_status ? 20.0 : -7.0, 7, 4}),
             status = TestTensor::of(DType::i32, {0, 0, 0, 0, 0, 9});
  std::vector<TestTensor*> outputs{&keys, &values};
  if (c.with_status) outputs.push_back(&status);
  compare_with_reference<KvAppendArgs>(
      device, ops::kv_append_reference_run, outputs, kExact,
      [&](const At& at) {
        return KvAppendArgs{at(keys), at(values), at(k), at(v), at(slots), c.with_status ? at(status) : TensorView{}};
      },
      kPortable);
  if (!c.with_status) return;
  EXPECT_EQ(status.values(), (std::vector<double>{0, 0, 0, 1, 0, 9}));
}

TEST_P(KvCacheTest, DtypesAndDimensions) {
  uint64_t seed = 1;
  for (const DType source : kTypes) {
    for (const DType cache : kTypes) {
      for (const Shape& s : {Shape{3, 40, 24},
                             {1, 128, 128},
                             {2, 1, 7},
                             {2, 64, 64},
                             {1, 192, 128},
                             {1, 256, 80},
                             {2, 576, 512},
                             {1, 1300, 9}}) {
        SCOPED_TRACE(testing::Message() << dtype_info(source).name << " to " << dtype_info(cache).name << " dim "
                                        << s.dim_qk << " " << s.dim_v);
        check(device(), s, {source, cache, seed % 2 == 0 ? DType::i32 : DType::i64}, seed);
        seed += 4;
      }
    }
  }
}

TEST_P(KvCacheTest, StridesAndUnalignedPointers) {
  for (const DType cache : kTypes) {
    check(device(), {3, 64, 64}, {DType::bf16, cache, DType::i32, {.padding = {192}}, {.padding = {64, 8, 8}}}, 11);
    check(device(), {3, 64, 64}, {DType::bf16, cache, DType::i32, {.padding = {3, 1}, .offset = 1}, {}}, 21);
    check(device(), {3, 64, 64}, {DType::f32, cache, DType::i64, {}, {.padding = {7, 5, 3}, .offset = 1}}, 31);
    check(device(), {3, 33, 17}, {DType::f16, cache, DType::i64, {.padding = {1, 2}}, {.padding = {1, 1, 1}}, false},
          41);
  }
}

/// More rows than a program takes, in pages of 16, in an order of their own.
TEST_P(KvCacheTest, ManyTokens) {
  for (const DType cache : kTypes) {
    for (const int64_t dim : {64, 128, 256}) {
      constexpr int64_t kTokens = 37, kHeads = 5;
      TestTensor k = TestTensor::random(DType::f16, {kTokens, kHeads, dim}, 5),
                 v = TestTensor::random(DType::f16, {kTokens, kHeads, 64}, 6), slots(DType::i32, {kTokens});
      for (int64_t t = 0; t < kTokens; ++t) slots.set_integer(t, t % 11 == 3 ? -1 : t * 29 % (4 * 16));
      TestTensor keys = TestTensor::random(cache, {4, kHeads, 16, dim}, 7),
                 values = TestTensor::random(cache, {4, kHeads, 16, 64}, 8);
      compare_with_reference<KvAppendArgs>(
          device(), ops::kv_append_reference_run, {&keys, &values}, kExact,
          [&](const At& at) {
            return KvAppendArgs{at(keys), at(values), at(k), at(v), at(slots), {}};
          },
          kPortable);
    }
  }
}

/// Tokens before heads: another order of the cache is a matter of strides.
TEST_P(KvCacheTest, HeadsInnermostButOne) {
  TestTensor k = TestTensor::random(DType::f16, {3, 4, 32}, 1), v = TestTensor::random(DType::f16, {3, 4, 32}, 2),
             slots = TestTensor::of(DType::i32, {9, 0, 6});
  TestTensor keys = TestTensor::random(DType::f16, {2, 5, 4, 32}, 3),
             values = TestTensor::random(DType::f16, {2, 5, 4, 32}, 4);
  const auto turned = [](TensorView view) {
    std::swap(view.extent[1], view.extent[2]);
    std::swap(view.stride[1], view.stride[2]);
    return view;
  };
  compare_with_reference<KvAppendArgs>(
      device(), ops::kv_append_reference_run, {&keys, &values}, kExact,
      [&](const At& at) { return KvAppendArgs{turned(at(keys)), turned(at(values)), at(k), at(v), at(slots), {}}; },
      kPortable);
}

TEST_P(KvCacheTest, ConversionRoundsOnceAndKeepsNaN) {
  TestTensor k = TestTensor::of(DType::f32, {1, 1, 8},
                                {1.0 + 0x1p-11, 1.0 + 0x1p-8, 65520.0, 1e30, -0.0, std::nan(""), 0x1p-24, 3e-8}),
             v = k;
  for (const DType cache : {DType::f16, DType::bf16}) {
    TestTensor keys(cache, {1, 1, 1, 8}), values(cache, {1, 1, 1, 8}), slots = TestTensor::of(DType::i64, {0});
    compare_with_reference<KvAppendArgs>(
        device(), ops::kv_append_reference_run, {&keys, &values}, kExact,
        [&](const At& at) { return KvAppendArgs{at(keys), at(values), at(k), at(v), at(slots), {}}; }, kPortable);
  }
}

TEST_P(KvCacheTest, NothingToWrite) {
  for (const auto& [heads, count] : {std::pair<int64_t, int64_t>{2, 0}, {0, 3}}) {
    TestTensor k = TestTensor::random(DType::f16, {3, heads, 32}, 1), v = k, slots(DType::i32, {count});
    TestTensor keys(DType::f16, {2, heads, 5, 32}), values = keys;
    compare_with_reference<KvAppendArgs>(
        device(), ops::kv_append_reference_run, {&keys, &values}, kExact,
        [&](const At& at) { return KvAppendArgs{at(keys), at(values), at(k), at(v), at(slots), {}}; }, kPortable);
  }
}

// Case P-01: pages past the 2^31st element, in a mapping of which only a few pages of memory exist.
TEST_P(KvCacheTest, OffsetsBeyond32Bits) {
  if (!device().host_memory()) GTEST_SKIP() << "the sparse mapping is host memory";
  constexpr int64_t kPages = 131080, kHeads = 8, kPage = 16, kDim = 128;
  constexpr size_t kBytes = static_cast<size_t>(kPages * kHeads * kPage * kDim) * 2;
  void* memory[2];
  for (void*& m : memory) {
    m = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ASSERT_NE(m, MAP_FAILED);
  }
  const TensorView keys(memory[0], DType::bf16, {kPages, kHeads, kPage, kDim}, device()),
      values(memory[1], DType::bf16, {kPages, kHeads, kPage, kDim}, device());
  TestTensor k = TestTensor::random(DType::bf16, {2, kHeads, kDim}, 1),
             v = TestTensor::random(DType::bf16, {2, kHeads, kDim}, 2);
  const int64_t where[2] = {131072 * kPage + 3, (kPages - 1) * kPage + 15};
  TestTensor slots(DType::i32, {2});
  for (int64_t t = 0; t < 2; ++t) slots.set_integer(t, where[t]);
  Context context(device());
  context.tier = kPortable;
  run(context,
      KvAppendArgs{keys, values, k.on(context.stream()), v.on(context.stream()), slots.on(context.stream()), {}});
  context.stream().synchronize();
  for (int64_t t = 0; t < 2; ++t) {
    for (int64_t h = 0; h < kHeads; ++h) {
      const int64_t at = ((where[t] / kPage * kHeads + h) * kPage + where[t] % kPage) * kDim,
                    from = (t * kHeads + h) * kDim;
      EXPECT_EQ(0, std::memcmp(keys.as<bfloat16_t>() + at, k.host().as<bfloat16_t>() + from, kDim * 2))
          << "token " << t << " head " << h;
      EXPECT_EQ(0, std::memcmp(values.as<bfloat16_t>() + at, v.host().as<bfloat16_t>() + from, kDim * 2))
          << "token " << t << " head " << h;
    }
  }
  for (void* m : memory) munmap(m, kBytes);
}

}  // namespace
}  // namespace monotile
