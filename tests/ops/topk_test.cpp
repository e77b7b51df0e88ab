// The largest elements of rows, on every device against the oracle: exact, in order, ties to the lower column.

#include "ops/sampling/sampling.hpp"
#include "tests/ops/test_util.hpp"

namespace monotile {
namespace {

using namespace test;  // NOLINT
using ops::TopKArgs;

const TierPolicy kPortable{Tier::portable, false};
constexpr DType kTypes[] = {DType::f32, DType::f16, DType::bf16};
constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNaN = std::nan("");

class TopKTest : public OnDevice {};
MONOTILE_ON_DEVICES(TopKTest);

struct Largest {
  TestTensor values, ids, status;
};

Largest check_top_k(Device device, TestTensor& logits, int64_t rows, int64_t k, bool with_status = true) {
  Largest r{TestTensor(DType::f32, {rows, k}), TestTensor(DType::i32, {rows, k}), TestTensor(DType::i32, {rows})};
  std::vector<TestTensor*> outputs{&r.values, &r.ids};
  if (with_status) outputs.push_back(&r.status);
  Tolerance exact;
  exact.relative = 0;
  compare_with_reference<TopKArgs>(
      device, ops::top_k_reference_run, outputs, exact,
      [&](const At& at) {
        return TopKArgs{at(r.values), at(r.ids), at(logits), with_status ? at(r.status) : TensorView{}};
      },
      kPortable);
  return r;
}

/// Every dtype with rows of these lengths and the k that they allow. In parts: race checkers take minutes for all of them.
void check_odd_sizes(Device device, bool slow, std::initializer_list<int64_t> lengths) {
  uint64_t seed = 1;
  for (const DType dtype : kTypes) {
    for (const int64_t cols : lengths) {
      for (const int64_t k : {1, 2, 50, 256, 1000, 2048}) {
        if (k > cols || (slow && cols > 8193 && k != 50 && k != 1000)) continue;
        SCOPED_TRACE(testing::Message() << dtype_info(dtype).name << " cols " << cols << " k " << k);
        const int64_t rows = cols > 8000 ? 2 : 3;
        TestTensor logits = TestTensor::random(
            dtype, {rows, cols}, seed,
            {.padding = {static_cast<int64_t>(seed % 4)}, .offset = static_cast<int64_t>(seed % 3)}, -9, 9);
        check_top_k(device, logits, rows, k, seed % 2 == 0);
        ++seed;
      }
    }
  }
}

TEST_P(TopKTest, OddSizes) { check_odd_sizes(device(), slow(), {1, 7, 8, 9, 100, 128, 640}); }
TEST_P(TopKTest, OddSizesOf2048) { check_odd_sizes(device(), slow(), {2048}); }
TEST_P(TopKTest, OddSizesOf2049) { check_odd_sizes(device(), slow(), {2049}); }
TEST_P(TopKTest, OddSizesOf8192) { check_odd_sizes(device(), slow(), {8192}); }
TEST_P(TopKTest, OddSizesOf8193) { check_odd_sizes(device(), slow(), {8193}); }
TEST_P(TopKTest, OddSizesOf16400) { check_odd_sizes(device(), slow(), {16400}); }
TEST_P(TopKTest, OddSizesOf40001) { check_odd_sizes(device(), slow(), {40001}); }

TEST_P(TopKTest, AllOfARowIsASort) {
  for (const int64_t cols : {5, 300, 2048}) {
    TestTensor logits = TestTensor::random(DType::f16, {2, cols}, 9, {}, -9, 9);
    check_top_k(device(), logits, 2, cols);
  }
}

TEST_P(TopKTest, TiesGoToTheLowerColumn) {
  for (const int64_t cols : {16, 200, 3000, 20000}) {
    TestTensor logits = TestTensor::random(DType::f32, {4, cols}, 5, {}, -3, 3);
    for (int64_t i = 0; i < logits.size(); ++i) logits.set(i, std::round(logits.get(i) * 1.5) / 1.5);
    for (const int64_t k : {1, 7, 16}) check_top_k(device(), logits, 4, k);
    TestTensor equal(DType::f32, {1, cols});
    equal.fill(-0.5);
    const Largest r = check_top_k(device(), equal, 1, 10);
    for (int64_t j = 0; j < 10; ++j) EXPECT_EQ(r.ids.get(j), j);
  }
}

TEST_P(TopKTest, InfinitiesAndNaN) {
  for (const int64_t cols : {40, 3000, 9001}) {
    TestTensor logits = TestTensor::random(DType::f32, {6, cols}, 6);
    for (int64_t c = 0; c < cols; ++c) {
      logits.set(c, -kInf);
      logits.set(cols + c, kNaN);
      logits.set(2 * cols + c, c % 7 == 3 ? kInf : logits.get(2 * cols + c));
      logits.set(3 * cols + c, c == cols - 1 ? 2.0 : c % 2 == 0 ? -kInf : kNaN);
    }
    logits.set(4 * cols + 4, kNaN);
    logits.set(5 * cols, 0.0), logits.set(5 * cols + 1, -0.0);
    const Largest r = check_top_k(device(), logits, 6, 12);
    EXPECT_EQ(r.status.values(), (std::vector<double>{0, ops::row_has_nan, 0, ops::row_has_nan, ops::row_has_nan, 0}));
    EXPECT_EQ(r.ids.get(36), static_cast<double>(cols - 1));
    EXPECT_EQ(r.ids.get(37), 0.0);
  }
}

// What breaks a search by value: all of the largest in one place, steep rows, tiny and huge spreads.
TEST_P(TopKTest, UnevenRows) {
  for (const int64_t cols : {300, 9000, 24000}) {
    TestTensor logits(DType::f32, {7, cols});
    ops::RandomData random(4);
    for (int64_t c = 0; c < cols; ++c) {
      const double u = random.uniform(-1, 1), i = static_cast<double>(c);
      logits.set(c, i);
      logits.set(cols + c, -i);
      logits.set(2 * cols + c, u * 3e38);
      logits.set(3 * cols + c, 10.0 + u * 1e-5);
      logits.set(4 * cols + c, u * 1e-40);
      logits.set(5 * cols + c, c >= cols / 2 && c < cols / 2 + 100 ? 100.0 + u : u);
      logits.set(6 * cols + c, c == 77 ? 1e30 : std::exp(-i / 50));
    }
    for (const int64_t k : {1, 64, 256}) check_top_k(device(), logits, 7, k);
  }
}

TEST_P(TopKTest, BatchInvariance) {
  TestTensor logits = TestTensor::random(DType::bf16, {5, 20000}, 8, {}, -6, 6);
  const Largest all = check_top_k(device(), logits, 5, 30);
  TestTensor one(DType::bf16, {1, 20000});
  for (int64_t c = 0; c < 20000; ++c) one.set(c, logits.get(3 * 20000 + c));
  const Largest alone = check_top_k(device(), one, 1, 30);
  for (int64_t j = 0; j < 30; ++j) EXPECT_EQ(alone.ids.get(j), all.ids.get(90 + j));
}

TEST_P(TopKTest, NoRowsIsNoWork) {
  TestTensor logits(DType::f32, {0, 50});
  check_top_k(device(), logits, 0, 5);
}

TEST(TopKErrors, Refused) {
  TestTensor logits(DType::f32, {3, 12}), values(DType::f32, {3, 2}), ids(DType::i32, {3, 2});
  const TopKArgs good{values.host(), ids.host(), logits.host(), {}};
  const auto refuses = [&](const std::vector<std::string>& words, const std::function<void(TopKArgs&)>& change) {
    TopKArgs args = good;
    change(args);
    std::vector<std::string> all = words;
    all.emplace_back("top_k");
    expect_error(ErrorCode::invalid_argument, all, [&] { plan<TopKArgs>(Device{}, args); });
  };
  EXPECT_NO_THROW(plan<TopKArgs>(Device{}, good));
  refuses({"logits"}, [](TopKArgs& a) { a.logits.dtype = DType::i32; });
  refuses({"values"}, [](TopKArgs& a) { a.values.dtype = DType::bf16; });
  refuses({"values"}, [](TopKArgs& a) { a.values.extent[1] = 1; });
  refuses({"ids", "13"},
          [](TopKArgs& a) { a.ids.extent[1] = a.values.extent[1] = 13, a.ids.stride[0] = a.values.stride[0] = 13; });
  refuses({"ids", "stride"}, [](TopKArgs& a) { a.ids.stride[0] = 5; });
  refuses({"ids"}, [](TopKArgs& a) { a.ids = {}; });
}

}  // namespace
}  // namespace monotile
