// Blocks copied, swapped and gathered, and rows by index: bit for bit on every device.

#include "ops/embedding/embedding.hpp"
#include "ops/kv_cache/kv_cache.hpp"
#include "tests/ops/test_util.hpp"

namespace monotile {
namespace {

using namespace test;  // NOLINT
using ops::CopyBlocksArgs;
using ops::GatherRowsArgs;
using ops::KvGatherArgs;

const TierPolicy kPortable{Tier::portable, false};
const Tolerance kExactly{.ulps = 0.0, .relative = 0.0};

class CopyTest : public OnDevice {};
MONOTILE_ON_DEVICES(CopyTest);

/// Any bytes, NaN of all kinds among them.
void fill_bytes(TestTensor& tensor, uint64_t seed) {
  ops::RandomData random(seed);
  const int64_t size = dtype_info(tensor.dtype()).block_bytes;
  for (int64_t i = 0; i < tensor.size(); ++i) {
    for (int64_t b = 0; b < size; ++b)
      tensor.host().as<uint8_t>()[tensor.offset(i) * size + b] = static_cast<uint8_t>(random.bits());
  }
}
bool same_bytes(const TestTensor& a, const TestTensor& b) {
  const size_t size = static_cast<size_t>(dtype_info(a.dtype()).block_bytes);
  for (int64_t i = 0; i < a.size(); ++i) {
    if (std::memcmp(a.host().as<uint8_t>() + static_cast<size_t>(a.offset(i)) * size,
                    b.host().as<uint8_t>() + static_cast<size_t>(b.offset(i)) * size, size) != 0)
      return false;
  }
  return true;
}

TEST_P(CopyTest, BlocksOfEveryDtype) {
  uint64_t seed = 1;
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f8_e4m3, DType::i8}) {
    for (const auto& [dim, dim_v] : {std::pair<int64_t, int64_t>{128, 128}, {40, 7}, {1, 300}}) {
      for (const Placement& placement : {Placement{}, Placement{.padding = {5, 0, 3}, .offset = 1}}) {
        SCOPED_TRACE(testing::Message() << dtype_info(dtype).name << " dims " << dim << ", " << dim_v);
        TestTensor keys(dtype, {7, 2, 3, dim}, placement), values(dtype, {7, 2, 3, dim_v}, placement),
            status(DType::i32, {4});
        fill_bytes(keys, seed++);
        fill_bytes(values, seed++);
        status.fill(0);
        TestTensor pairs(seed % 4 < 2 ? DType::i32 : DType::i64, {4, 2});
        const int64_t list[] = {0, 3, 6, 1, 0, 5, 2, 7};
        for (int64_t i = 0; i < 8; ++i) pairs.set_integer(i, list[i]);
        TestTensor wanted_keys = keys, wanted_values = values, wanted_status = status;
        const auto make = [&](const At& at) { return CopyBlocksArgs{at(keys), at(values), at(pairs), at(status)}; };
        ops::copy_blocks_reference_run({wanted_keys.host(), wanted_values.host(), pairs.host(), wanted_status.host()});
        run_on<CopyBlocksArgs>(device(), {&keys, &values, &status}, make, kPortable);
        EXPECT_TRUE(same_bytes(keys, wanted_keys));
        EXPECT_TRUE(same_bytes(values, wanted_values));
        EXPECT_TRUE(keys.guards_intact() && values.guards_intact());
        EXPECT_EQ(status.values(), (std::vector<double>{0, 0, 0, 1}));
      }
    }
  }
}

TEST_P(CopyTest, GathersSlots) {
  uint64_t seed = 50;
  for (const DType cache : {DType::f32, DType::bf16, DType::f8_e4m3, DType::f8_e5m2, DType::i8}) {
    for (const DType out : {DType::f32, DType::f16, DType::bf16}) {
      for (const int64_t dim : {64, 128, 33, 256}) {
        SCOPED_TRACE(testing::Message() << dtype_info(cache).name << " to " << dtype_info(out).name << " dim " << dim);
        const bool codes = is_code(cache);
        TestTensor keys = TestTensor::random(cache, {5, 3, 4, dim}, seed++, {}, codes ? -100 : -2, codes ? 100 : 2);
        TestTensor values =
            TestTensor::random(cache, {5, 3, 4, 24}, seed++, {.padding = {8}}, codes ? -100 : -2, codes ? 100 : 2);
        TestTensor key_scale = TestTensor::random(DType::f32, {5, 3, 4}, seed++),
                   value_scale = TestTensor::random(DType::f32, {seed % 2 == 0 ? 1 : 3}, seed + 1);
        TestTensor k(out, {6, 3, dim}, {.padding = {dim}}), v(out, {6, 3, 24}), slots(DType::i32, {6}),
            status(DType::i32, {6});
        const int64_t list[] = {19, 0, -1, 20, 7, 7};
        for (int64_t i = 0; i < 6; ++i) slots.set_integer(i, list[i]);
        status.fill(0);
        compare_with_reference<KvGatherArgs>(
            device(), ops::kv_gather_reference_run, {&k, &v, &status}, kExactly,
            [&](const At& at) {
              return KvGatherArgs{at(k),
                                  at(v),
                                  at(keys),
                                  at(values),
                                  at(slots),
                                  at(status),
                                  codes ? at(key_scale) : TensorView{},
                                  codes ? at(value_scale) : TensorView{}};
            },
            kPortable);
        EXPECT_EQ(status.values(), (std::vector<double>{0, 0, 0, 1, 0, 0}));
      }
    }
  }
}

// More rows than a program takes, in pages of 16; heads of whole vectors, and of one column more.
TEST_P(CopyTest, GathersManySlots) {
  uint64_t seed = 90;
  for (const DType cache : {DType::f16, DType::f8_e4m3, DType::f8_e5m2, DType::i8}) {
    for (const int64_t dim : {64, 128, 129, 256}) {
      SCOPED_TRACE(testing::Message() << dtype_info(cache).name << " dim " << dim);
      const bool codes = is_code(cache);
      constexpr int64_t kTokens = 45, kHeads = 3;
      TestTensor keys = TestTensor::random(cache, {6, kHeads, 16, dim}, seed++, {}, -100, 100),
                 values = TestTensor::random(cache, {6, kHeads, 16, 72}, seed++, {}, -100, 100),
                 key_scale = TestTensor::random(DType::f32, {kHeads}, seed++), value_scale = key_scale;
      TestTensor k(DType::bf16, {kTokens, kHeads, dim}), v(DType::bf16, {kTokens, kHeads, 72}),
          slots = TestTensor::random(DType::i64, {kTokens}, seed++, {}, -5, 6 * 16 - 1);
      compare_with_reference<KvGatherArgs>(
          device(), ops::kv_gather_reference_run, {&k, &v}, kExactly,
          [&](const At& at) {
            return KvGatherArgs{at(k), at(v), at(keys), at(values), at(slots), {},
                                codes ? at(key_scale) : TensorView{}, codes ? at(value_scale) : TensorView{}};
          },
          kPortable);
    }
  }
}

// Heads, tokens and columns that follow each other without gaps travel as one row; here the gap is at a head, then at a token, then at a block.
TEST_P(CopyTest, BlocksPackedInPart) {
  for (const std::vector<int64_t>& padding : {std::vector<int64_t>{8, 0, 0}, {0, 8, 0}, {0, 0, 8}, {0, 0, 0}}) {
    TestTensor keys(DType::bf16, {5, 4, 16, 64}, {.padding = padding}), values(DType::bf16, {5, 4, 16, 64}),
        pairs(DType::i32, {2, 2});
    fill_bytes(keys, 3);
    fill_bytes(values, 4);
    const int64_t list[] = {0, 3, 4, 1};
    for (int64_t i = 0; i < 4; ++i) pairs.set_integer(i, list[i]);
    TestTensor wanted_keys = keys, wanted_values = values;
    ops::copy_blocks_reference_run({wanted_keys.host(), wanted_values.host(), pairs.host(), {}});
    run_on<CopyBlocksArgs>(
        device(), {&keys, &values},
        [&](const At& at) {
          return CopyBlocksArgs{at(keys), at(values), at(pairs), {}};
        },
        kPortable);
    EXPECT_TRUE(same_bytes(keys, wanted_keys));
    EXPECT_TRUE(same_bytes(values, wanted_values));
    EXPECT_TRUE(keys.guards_intact() && values.guards_intact());
  }
}

TEST_P(CopyTest, SwapsWithTheHost) {
  TestTensor device_cache(DType::bf16, {5, 2, 4, 16}), host_cache(DType::bf16, {3, 2, 4, 16}),
      pairs(DType::i32, {2, 2});
  fill_bytes(device_cache, 1);
  fill_bytes(host_cache, 2);
  const int64_t list[] = {4, 0, 1, 2};
  for (int64_t i = 0; i < 4; ++i) pairs.set_integer(i, list[i]);
  Stream stream(device());
  Context context(stream);
  const TensorView on_device = device_cache.on(stream);
  ops::swap_blocks(context, host_cache.host(), on_device, pairs.host());
  stream.synchronize();
  const size_t block = 2 * 4 * 16 * 2;
  EXPECT_EQ(std::memcmp(host_cache.host().as<char>(), device_cache.host().as<char>() + 4 * block, block), 0);
  EXPECT_EQ(std::memcmp(host_cache.host().as<char>() + 2 * block, device_cache.host().as<char>() + block, block), 0);
  const int64_t back[] = {2, 3, 1, 0};
  for (int64_t i = 0; i < 4; ++i) pairs.set_integer(i, back[i]);
  ops::swap_blocks(context, on_device, host_cache.host(), pairs.host());
  stream.synchronize();
  TestTensor after = device_cache;
  device_cache.fetch(stream);
  EXPECT_EQ(std::memcmp(device_cache.host().as<char>() + 3 * block, after.host().as<char>() + block, block), 0);
  EXPECT_EQ(std::memcmp(device_cache.host().as<char>(), host_cache.host().as<char>() + block, block), 0);
  pairs.set_integer(0, 3);
  expect_error(ErrorCode::invalid_argument, {"swap_blocks: pairs", "3"},
               [&] { ops::swap_blocks(context, on_device, host_cache.host(), pairs.host()); });
}

TEST_P(CopyTest, RowsByIndex) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::i8, DType::i64}) {
    for (const int64_t cols : {1, 8, 77, 128, 1000, 2056, 10001}) {
      for (const Placement& placement : {Placement{}, Placement{.padding = {3}, .offset = 1}}) {
        SCOPED_TRACE(testing::Message() << dtype_info(dtype).name << " cols " << cols);
        TestTensor x(dtype, {6, cols}, placement), y(dtype, {5, cols}, placement), ids(DType::i64, {5}),
            status(DType::i32, {5});
        fill_bytes(x, 3);
        status.fill(0);
        const int64_t list[] = {5, 0, 6, -1, 5};
        for (int64_t i = 0; i < 5; ++i) ids.set_integer(i, list[i]);
        TestTensor wanted = y;
        ops::gather_rows_reference_run({wanted.host(), x.host(), ids.host(), {}});
        run_on<GatherRowsArgs>(
            device(), {&y, &status},
            [&](const At& at) {
              return GatherRowsArgs{at(y), at(x), at(ids), at(status)};
            },
            kPortable);
        EXPECT_TRUE(same_bytes(y, wanted));
        EXPECT_TRUE(y.guards_intact());
        EXPECT_EQ(status.values(), (std::vector<double>{0, 0, 1, 1, 0}));
      }
    }
  }
}

TEST(CopyErrors, Refusals) {
  TestTensor keys(DType::bf16, {5, 2, 4, 16}), pairs(DType::i32, {1, 2}), x(DType::f32, {3, 4}), y = x,
                                                                                                 ids(DType::i32, {3});
  pairs.fill(0);
  pairs.set_integer(1, 5);
  expect_error(ErrorCode::invalid_argument, {"copy_blocks: pairs", "block 5", "0 to 4"}, [&] {
    plan(Device{}, CopyBlocksArgs{keys.host(), {}, pairs.host(), {}});
  });
  ids.fill(0);
  EXPECT_NO_THROW(plan(Device{}, GatherRowsArgs{y.host(), x.host(), ids.host(), {}}));
  ids.set_integer(2, -1);
  expect_error(ErrorCode::invalid_argument, {"gather_rows: ids", "id -1"}, [&] {
    plan(Device{}, GatherRowsArgs{y.host(), x.host(), ids.host(), {}});
  });
  expect_error(ErrorCode::invalid_argument, {"gather_rows: y", "dtype"}, [&] {
    TensorView other = y.host();
    other.dtype = DType::i32;
    plan(Device{}, GatherRowsArgs{other, x.host(), ids.host(), {}});
  });
}

}  // namespace
}  // namespace monotile
