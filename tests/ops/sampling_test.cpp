// Argmax and sampling on every device against the oracle. Draws are exact: only where a filter's boundary lies within rounding of a token may
// the kept sets differ, and such rows are left out here by name.

#include "ops/sampling/sampling.hpp"

#include <algorithm>
#include <numeric>

#include "tests/ops/test_util.hpp"

namespace monotile {
namespace {

using namespace test;  // NOLINT
using ops::ArgmaxArgs;
using ops::SampleArgs;

const TierPolicy kPortable{Tier::portable, false};
constexpr DType kTypes[] = {DType::f32, DType::f16, DType::bf16};
constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNaN = std::nan("");

class SamplingTest : public OnDevice {};
MONOTILE_ON_DEVICES(SamplingTest);

// ---- Argmax ----------------------------------------------------------------------------------------------------------------------------

std::vector<double> check_argmax(Device device, TestTensor& logits, int64_t rows, bool with_status = true) {
  TestTensor ids(DType::i32, {rows}), status(DType::i32, {rows});
  std::vector<TestTensor*> outputs{&ids};
  if (with_status) outputs.push_back(&status);
  compare_with_reference<ArgmaxArgs>(
      device, ops::argmax_reference_run, outputs, {},
      [&](const At& at) {
        return ArgmaxArgs{at(ids), at(logits), with_status ? at(status) : TensorView{}};
      },
      kPortable);
  return ids.values();
}

TEST_P(SamplingTest, ArgmaxOddSizes) {
  uint64_t seed = 1;
  for (const DType dtype : kTypes) {
    for (const int64_t cols : {1, 7, 8, 9, 100, 128, 640, 2048, 2049, 8192, 8193, 16400, 40001}) {
      SCOPED_TRACE(testing::Message() << dtype_info(dtype).name << " cols " << cols);
      TestTensor logits = TestTensor::random(
          dtype, {5, cols}, seed,
          {.padding = {static_cast<int64_t>(seed % 4)}, .offset = static_cast<int64_t>(seed % 3)}, -9, 9);
      check_argmax(device(), logits, 5, seed % 2 == 0);
      ++seed;
    }
  }
}

TEST_P(SamplingTest, ArgmaxOfLastAndFirstColumnTiesAndInfinities) {
  for (const int64_t cols : {5, 300, 9000}) {
    TestTensor logits = TestTensor::random(DType::f32, {8, cols}, 3);
    const auto row = [&](int64_t r, double value) {
      for (int64_t c = 0; c < cols; ++c) logits.set(r * cols + c, value);
    };
    logits.set(0 * cols + cols - 1, 50.0);
    logits.set(1 * cols, 50.0);
    row(2, 1.5);
    row(3, -kInf);
    row(4, kNaN);
    row(5, kNaN), logits.set(5 * cols + 3, -7.0);
    logits.set(6 * cols + 4, kInf), logits.set(6 * cols + 2, kNaN);
    row(7, -0.0), logits.set(7 * cols + 2, 0.0);
    EXPECT_EQ(check_argmax(device(), logits, 8),
              (std::vector<double>{static_cast<double>(cols - 1), 0, 0, 0, 0, 3, 4, 0}));
  }
}

// ---- Sampling --------------------------------------------------------------------------------------------------------------------------

struct Row {
  double temperature = 1.0;
  int64_t top_k = 0;
  double top_p = 1.0, min_p = 0.0;
  int64_t seed = 1, position = 0;
};

/// Does a boundary of this row's filters lie within rounding of a token? Judged in fp64, apart from the oracle's code.
bool on_the_edge(const std::vector<double>& logits, const Row& row) {
  const double t = static_cast<double>(static_cast<float>(row.temperature));
  std::vector<double> order;
  for (const double v : logits) {
    if (v > -kInf) order.push_back(v);
  }
  if (order.empty() || !(t >= 1e-5)) return false;
  std::sort(order.begin(), order.end(), std::greater<>());
  if (row.top_k > 0 && row.top_k < static_cast<int64_t>(order.size())) order.resize(static_cast<size_t>(row.top_k));
  std::vector<double> weights;
  for (const double v : order) weights.push_back(std::exp((v - order[0]) / t));
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0),
               top_p = static_cast<double>(static_cast<float>(row.top_p));
  const double min_p = static_cast<double>(static_cast<float>(row.min_p));
  double sum = 0;
  for (const double w : weights) {
    sum += w;
    if (top_p > 0 && top_p < 1 && std::abs(sum / total - top_p) < 1e-5) return true;
    if (min_p > 0 && w != 1.0 && std::abs(w / min_p - 1.0) < 1e-4) return true;
  }
  return false;
}

/// Ids of all rows, compared with the oracle's where no boundary is on the edge; says how many rows were left out.
std::vector<int64_t> check_sample(Device device, TestTensor& logits, const std::vector<Row>& rows,
                                  int64_t* left_out = nullptr, bool undefined = false) {
  const int64_t count = static_cast<int64_t>(rows.size()), cols = logits.size() / std::max<int64_t>(1, count);
  TestTensor temperature(DType::f32, {count}), top_p(DType::f32, {count}), min_p(DType::f32, {count}),
      top_k(DType::i32, {count});
  TestTensor seeds(DType::i64, {count}), positions(DType::i64, {count}), ids(DType::i32, {count}),
      status(DType::i32, {count});
  for (int64_t r = 0; r < count; ++r) {
    const Row& row = rows[static_cast<size_t>(r)];
    temperature.set(r, row.temperature), top_p.set(r, row.top_p), min_p.set(r, row.min_p);
    top_k.set_integer(r, row.top_k), seeds.set_integer(r, row.seed), positions.set_integer(r, row.position);
  }
  const auto make = [&](const At& at) {
    SampleArgs args;
    args.ids = at(ids), args.logits = at(logits), args.status = at(status);
    if (undefined) return args;
    args.temperature = at(temperature), args.top_k = at(top_k), args.top_p = at(top_p), args.min_p = at(min_p);
    args.seeds = at(seeds), args.positions = at(positions);
    return args;
  };
  run_reference<SampleArgs>(ops::sample_reference_run, make);
  const TestTensor wanted = ids, wanted_status = status;
  ids.poison(), status.poison();
  run_on<SampleArgs>(device, {&ids, &status}, make, kPortable);
  EXPECT_TRUE(ids.guards_intact() && status.guards_intact());
  std::vector<int64_t> result;
  for (int64_t r = 0; r < count; ++r) {
    std::vector<double> values;
    for (int64_t c = 0; c < cols; ++c) values.push_back(logits.get(r * cols + c));
    EXPECT_EQ(status.get(r), wanted_status.get(r)) << "row " << r;
    result.push_back(static_cast<int64_t>(ids.get(r)));
    if (!undefined && on_the_edge(values, rows[static_cast<size_t>(r)])) {
      if (left_out != nullptr) ++*left_out;
      continue;
    }
    const Row& row = rows[static_cast<size_t>(r)];
    EXPECT_EQ(ids.get(r), wanted.get(r)) << "row " << r << ": temperature " << row.temperature << ", top-k "
                                         << row.top_k << ", top-p " << row.top_p << ", min-p " << row.min_p << ", seed "
                                         << row.seed << ", position " << row.position;
  }
  return result;
}

/// Many draws with many settings over random logits.
std::vector<Row> mixed_rows(int64_t count, uint64_t seed) {
  ops::RandomData random(seed);
  const double temperatures[] = {1.0, 0.6, 0.05, 2.5, 40.0, 1e-5}, masses[] = {1.0, 0.0, 0.1, 0.5, 0.9, 0.95, 0.999},
               ratios[] = {0.0, -1.0, 0.01, 0.2, 1.0, 1.5};
  const int64_t counts[] = {0, -1, 1, 2, 5, 40, 100, 1000, 1 << 20};
  std::vector<Row> rows;
  for (int64_t i = 0; i < count; ++i) {
    rows.push_back({temperatures[random.integer(0, 5)], counts[random.integer(0, 8)], masses[random.integer(0, 6)],
                    ratios[random.integer(0, 3) == 0 ? random.integer(2, 5) : 0], random.integer(-1000, 1000),
                    random.integer(0, int64_t{1} << 40)});
  }
  return rows;
}

TEST_P(SamplingTest, MixedRowsOfRandomLogits) {
  uint64_t seed = 1;
  int64_t left_out = 0, total = 0;
  for (const DType dtype : kTypes) {
    for (const int64_t cols : {1, 2, 9, 128, 1001, 2049, 9001, 20000}) {
      SCOPED_TRACE(testing::Message() << dtype_info(dtype).name << " cols " << cols);
      const int64_t rows = slow() && cols > 5000 ? 6 : 40;
      TestTensor logits =
          TestTensor::random(dtype, {rows, cols}, seed, {.padding = {static_cast<int64_t>(seed % 3)}}, -12, 12);
      check_sample(device(), logits, mixed_rows(rows, seed), &left_out);
      total += rows;
      ++seed;
    }
  }
  EXPECT_LT(left_out, total / 4) << "too few rows were judged";
}

// Logits of few distinct values: every boundary falls among ties, which the lower indices win.
TEST_P(SamplingTest, TiesGoToTheLowerIndex) {
  uint64_t seed = 50;
  for (const int64_t cols : {16, 200, 3000, 12000}) {
    const int64_t rows = slow() && cols > 5000 ? 8 : 60;
    TestTensor logits = TestTensor::random(DType::f32, {rows, cols}, seed, {}, -3, 3);
    for (int64_t i = 0; i < logits.size(); ++i) logits.set(i, std::round(logits.get(i) * 1.5) / 1.5);
    check_sample(device(), logits, mixed_rows(rows, seed));
    ++seed;
  }
}

/// With all weights equal only a prefix of the ids may appear.
TEST_P(SamplingTest, EqualLogitsKeepAPrefixOfTheIds) {
  constexpr int64_t kCols = 200, kRows = 64;
  for (const auto& [row, kept] : {std::pair<Row, int64_t>{{.top_k = 7}, 7},
                                  {{.top_p = 0.1001}, 21},
                                  {{.top_k = 100, .top_p = 0.5001}, 51},
                                  {{.min_p = 1.0}, 200},
                                  {{.min_p = 1.5}, 1},
                                  {{.top_k = 1}, 1},
                                  {{.top_p = 1e-6}, 1}}) {
    TestTensor logits(DType::f32, {kRows, kCols});
    logits.fill(-2.5);
    std::vector<Row> rows(kRows, row);
    for (int64_t r = 0; r < kRows; ++r) rows[static_cast<size_t>(r)].seed = r;
    const std::vector<int64_t> ids = check_sample(device(), logits, rows);
    EXPECT_LT(*std::max_element(ids.begin(), ids.end()), kept);
    if (kept > 1) {
      EXPECT_GT(*std::max_element(ids.begin(), ids.end()), kept * 3 / 4);
    }
  }
}

// Case T-01.
TEST_P(SamplingTest, TopKBeyondTheVocabularyOrOffInOneRow) {
  TestTensor logits = TestTensor::random(DType::f32, {7, 128}, 4, {}, -4, 4);
  check_sample(device(), logits,
               {{.top_k = 9999999},
                {.top_k = 128},
                {.top_k = 129},
                {.top_k = 0},
                {.top_k = -1},
                {.temperature = 0},
                {.top_k = 64}});
}

// Case T-02: greedy rows keep masked tokens out; tiny temperatures are greedy.
TEST_P(SamplingTest, GreedyRows) {
  const double inf = kInf;
  TestTensor logits = TestTensor::of(
      DType::f32, {6, 4}, {2, -inf, 5, -inf, 0, 0, 0, 0, 2, -inf, 5, -inf, 2, -inf, 5, -inf, 5, 5, 5, 1, 2, 3, 5, 4});
  const std::vector<int64_t> ids = check_sample(
      device(), logits,
      {{.temperature = 0}, {}, {.temperature = 1e-8}, {.temperature = 1e-45}, {.temperature = 0}, {.temperature = -1}});
  EXPECT_EQ(ids[0], 2);
  EXPECT_EQ(ids[2], 2);
  EXPECT_EQ(ids[3], 2);
  EXPECT_EQ(ids[4], 0);
  EXPECT_EQ(ids[5], 2);
}

// Case T-04, and NaN rows: they fail alone.
TEST_P(SamplingTest, RowsWithoutTokens) {
  for (const int64_t cols : {8, 3000, 9000}) {
    TestTensor logits = TestTensor::random(DType::f32, {6, cols}, 8), clean = logits;
    for (int64_t c = 0; c < cols; ++c) {
      logits.set(c, -kInf);
      logits.set(cols + c, c == cols - 2 ? -3.0 : -kInf);
      logits.set(2 * cols + c, c == 5 ? -1e30 : -kInf);
    }
    logits.set(3 * cols + cols - 1, kNaN);
    logits.set(4 * cols, kInf), logits.set(4 * cols + 1, kNaN);
    const std::vector<Row> rows(6, Row{.top_k = 5, .top_p = 0.9, .min_p = 0.05});
    const std::vector<int64_t> ids = check_sample(device(), logits, rows), alone = check_sample(device(), clean, rows);
    EXPECT_EQ(ids, (std::vector<int64_t>{0, cols - 2, 5, 0, 0, alone[5]}));
    const std::vector<Row> strict(6, Row{.min_p = 1.0});
    EXPECT_EQ(check_sample(device(), logits, strict)[1], cols - 2);
  }
}

TEST_P(SamplingTest, InfiniteLogitsWin) {
  TestTensor logits = TestTensor::random(DType::f32, {4, 50}, 8);
  for (int64_t r = 0; r < 4; ++r) logits.set(r * 50 + 11, kInf), logits.set(r * 50 + 33, kInf);
  for (const int64_t id :
       check_sample(device(), logits, {{}, {.top_k = 1}, {.top_p = 0.3}, {.top_k = 3, .top_p = 0.9, .min_p = 0.1}}))
    EXPECT_TRUE(id == 11 || id == 33);
}

// Case T-06: temperature first, then top-k, top-p on the renormalised rest, min-p against the largest probability.
TEST_P(SamplingTest, OrderOfFilters) {
  const auto seen = [&](const std::vector<double>& values, Row row) {
    constexpr int64_t kRows = 200;
    TestTensor logits(DType::f32, {kRows, static_cast<int64_t>(values.size())});
    std::vector<Row> rows(kRows, row);
    for (int64_t r = 0; r < kRows; ++r) {
      rows[static_cast<size_t>(r)].position = r;
      for (size_t c = 0; c < values.size(); ++c)
        logits.set(r * static_cast<int64_t>(values.size()) + static_cast<int64_t>(c), values[c]);
    }
    std::vector<int64_t> ids = check_sample(device(), logits, rows);
    std::sort(ids.begin(), ids.end());
    ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
    return ids;
  };
  const std::vector<double> probabilities = {std::log(0.4), std::log(0.3), std::log(0.2), std::log(0.1)};
  EXPECT_EQ(seen({3, 2, 1}, {.temperature = 0.5, .top_p = 0.8}), (std::vector<int64_t>{0}));
  EXPECT_EQ(seen(probabilities, {.top_k = 2, .top_p = 0.55}), (std::vector<int64_t>{0}));
  EXPECT_EQ(seen(probabilities, {.min_p = 0.45}), (std::vector<int64_t>{0, 1, 2}));
  EXPECT_EQ(seen(probabilities, {}), (std::vector<int64_t>{0, 1, 2, 3}));
}

TEST_P(SamplingTest, UndefinedParametersAreOff) {
  TestTensor logits = TestTensor::random(DType::bf16, {9, 700}, 8, {}, -3, 3);
  check_sample(device(), logits, std::vector<Row>(9, Row{.seed = 0}), nullptr, true);
}

TEST_P(SamplingTest, WideSpreadsAndTinyDifferences) {
  TestTensor logits(DType::f32, {24, 300});
  ops::RandomData random(77);
  for (int64_t i = 0; i < logits.size(); ++i) {
    const int64_t row = i / 300;
    const double u = random.uniform(-1, 1);
    logits.set(i, row % 3 == 0 ? u * 3e38 : row % 3 == 1 ? 10.0 + u * 1e-5 : u * 1e-40);
  }
  std::vector<Row> rows;
  for (int64_t r = 0; r < 24; ++r)
    rows.push_back({.top_k = r % 2 == 0 ? 37 : 0, .top_p = r % 4 < 2 ? 0.7003 : 1.0, .seed = r});
  check_sample(device(), logits, rows);
}

// The likely tokens lie close together, so that one lane meets more of them than it can set aside.
TEST_P(SamplingTest, ClusteredCandidates) {
  constexpr int64_t kRows = 12, kCols = 20000;
  TestTensor logits = TestTensor::random(DType::f32, {kRows, kCols}, 17, {}, -9, -5);
  ops::RandomData random(3);
  std::vector<Row> rows;
  for (int64_t r = 0; r < kRows; ++r) {
    for (const int64_t first : {0, 4096, 8192, 12288}) {
      for (int64_t c = first; c < first + 8; ++c) logits.set(r * kCols + c, random.uniform(4, 5));
    }
    rows.push_back({.top_k = r % 3 == 0 ? 0 : 20 + r, .top_p = r % 2 == 0 ? 1.0 : 0.8003, .seed = r});
  }
  check_sample(device(), logits, rows);
}

TEST_P(SamplingTest, NoRowsIsNoWork) {
  TestTensor logits(DType::f32, {0, 50});
  check_sample(device(), logits, {});
}

// Long rows are scanned in chunks on GPUs: lists that suffice, lists that do not, rows without filters, flat rows, rows of ties.
TEST_P(SamplingTest, LongRowsOfEveryKind) {
  constexpr int64_t kCols = 20000;
  uint64_t seed = 300;
  for (const double spread : {0.0, 0.02, 2.0, 12.0}) {
    std::vector<Row> rows = {{},
                             {.temperature = 0},
                             {.top_k = 50, .top_p = 0.9003, .min_p = 0.0501},
                             {.top_k = 3000},
                             {.top_k = 600, .top_p = 0.5003},
                             {.top_p = 0.3003},
                             {.temperature = 0.7, .top_p = 0.9503},
                             {.top_p = 0.9993},
                             {.min_p = 0.1003},
                             {.min_p = 0.9003},
                             {.min_p = 1.5},
                             {.top_p = 0.7003, .min_p = 0.3003}};
    TestTensor logits =
        TestTensor::random(DType::f32, {static_cast<int64_t>(rows.size()), kCols}, seed, {}, -spread, spread);
    for (size_t r = 0; r < rows.size(); ++r) rows[r].seed = static_cast<int64_t>(seed + r), rows[r].position = 1000;
    check_sample(device(), logits, rows);
    for (int64_t i = 0; i < logits.size(); i += 3) logits.set(i, -kInf);  // a mask
    check_sample(device(), logits, rows);
    seed += 20;
  }
}

// The same row alone and in a batch draws the same token.
TEST_P(SamplingTest, BatchInvariance) {
  const std::vector<Row> rows = mixed_rows(12, 99);
  TestTensor logits = TestTensor::random(DType::f16, {12, 5000}, 7, {}, -6, 6);
  const std::vector<int64_t> all = check_sample(device(), logits, rows);
  for (const size_t r : {size_t{0}, size_t{5}, size_t{11}}) {
    TestTensor one(DType::f16, {1, 5000});
    for (int64_t c = 0; c < 5000; ++c) one.set(c, logits.get(static_cast<int64_t>(r) * 5000 + c));
    EXPECT_EQ(check_sample(device(), one, {rows[r]})[0], all[r]);
  }
}

// ---- Penalties -------------------------------------------------------------------------------------------------------------------------

struct Penalties {
  TestTensor history, history_length, prompt_length, repetition, presence, frequency, bias_ids, bias;

  Penalties(int64_t rows, int64_t cols, int64_t most, int64_t biased, uint64_t seed) {
    history = TestTensor::random(DType::i32, {rows, most}, seed, {.padding = {static_cast<int64_t>(seed % 3)}}, -1,
                                 static_cast<double>(cols));
    for (int64_t i = 0; i < history.size(); i += 2) history.set(i, static_cast<double>(i % 7));  // many times the same
    history_length = TestTensor::random(DType::i32, {rows}, seed + 1, {}, -1, static_cast<double>(most + 2));
    prompt_length = TestTensor::random(DType::i32, {rows}, seed + 2, {}, -1, static_cast<double>(most / 2 + 2));
    repetition = TestTensor::random(DType::f32, {rows}, seed + 3, {}, 0.5, 2);
    presence = TestTensor::random(DType::f32, {rows}, seed + 4);
    frequency = TestTensor::random(DType::f32, {rows}, seed + 5);
    bias_ids = TestTensor::random(DType::i32, {rows, biased}, seed + 6, {}, -1, static_cast<double>(cols));
    for (int64_t i = 0; i < bias_ids.size(); i += 3) bias_ids.set(i, 4);
    bias = TestTensor::random(DType::f32, {rows, biased}, seed + 7, {}, -3, 3);
  }
  ops::PenaltiesArgs args(const At& at) {
    ops::PenaltiesArgs a;
    a.history = at(history), a.history_length = at(history_length), a.prompt_length = at(prompt_length);
    a.repetition = at(repetition), a.presence = at(presence), a.frequency = at(frequency);
    a.bias_ids = at(bias_ids), a.bias = at(bias);
    return a;
  }
};

TEST_P(SamplingTest, PenaltiesOfEverySize) {
  uint64_t seed = 1;
  for (const DType dtype : kTypes) {
    for (const int64_t cols : {1, 9, 1001, 8192, 8193, 20000}) {
      for (const int64_t most : {1, 40, 700, 2500}) {  // the last one takes windows of columns
        SCOPED_TRACE(testing::Message() << dtype_info(dtype).name << " cols " << cols << " history " << most);
        Penalties penalties(4, cols, most, 6, seed);
        TestTensor logits =
            TestTensor::random(dtype, {4, cols}, seed, {.padding = {static_cast<int64_t>(seed % 3)}}, -9, 9);
        Tolerance tolerance;
        tolerance.ulps = 2;  // two roundings, each of which may turn on the last bit of what was before
        tolerance.scale = 16;
        compare_with_reference<ops::PenaltiesArgs>(
            device(), ops::penalties_reference_run, {&logits}, tolerance,
            [&](const At& at) {
              ops::PenaltiesArgs a = penalties.args(at);
              a.logits = at(logits);
              return a;
            },
            kPortable);
        ++seed;
      }
    }
  }
}

TEST_P(SamplingTest, PenaltiesByHand) {
  TestTensor logits = TestTensor::of(DType::f32, {1, 6}, {2, -2, 4, -kInf, 1, 8}),
             history = TestTensor::of(DType::i32, {1, 6}, {0, 1, 2, 2, 3, 0});
  TestTensor prompt = TestTensor::of(DType::i32, {2}), repetition = TestTensor::of(DType::f32, {2}),
             presence = TestTensor::of(DType::f32, {0.5}), frequency = TestTensor::of(DType::f32, {0.25});
  run_on<ops::PenaltiesArgs>(device(), {&logits}, [&](const At& at) {
    ops::PenaltiesArgs a;
    a.logits = at(logits), a.history = at(history), a.prompt_length = at(prompt), a.repetition = at(repetition);
    a.presence = at(presence), a.frequency = at(frequency);
    return a;
  });
  EXPECT_EQ(logits.values(), (std::vector<double>{0.25, -4, 1, -kInf, 1, 8}));
}

/// Fused is unfused: the same tokens and the same logits, to the bit.
TEST_P(SamplingTest, PenaltiesInTheChain) {
  for (const int64_t cols : {500, 20000}) {
    constexpr int64_t kRows = 6;
    Penalties penalties(kRows, cols, 64, 4, 5);
    TestTensor logits = TestTensor::random(DType::f32, {kRows, cols}, 2, {}, -6, 6), fused = logits,
               ids(DType::i32, {kRows}), apart = ids;
    TestTensor top_k = TestTensor::of(DType::i32, {0, 5, 50, 0, 1, 20}),
               seeds = TestTensor::of(DType::i64, {1, 2, 3, 4, 5, 6});
    const auto chain = [&](const At& at, TestTensor& l, TestTensor& out) {
      SampleArgs a;
      a.ids = at(out), a.logits = at(l), a.top_k = at(top_k), a.seeds = at(seeds);
      return a;
    };
    run_on<SampleArgs>(device(), {&ids, &fused}, [&](const At& at) {
      SampleArgs a = chain(at, fused, ids);
      a.penalties = penalties.args(at);
      return a;
    });
    run_on<ops::PenaltiesArgs>(device(), {&logits}, [&](const At& at) {
      ops::PenaltiesArgs a = penalties.args(at);
      a.logits = at(logits);
      return a;
    });
    run_on<SampleArgs>(device(), {&apart}, [&](const At& at) { return chain(at, logits, apart); });
    EXPECT_TRUE(is_identical(fused, logits));
    EXPECT_TRUE(is_identical(ids, apart));
  }
}

// ---- Log-probabilities -----------------------------------------------------------------------------------------------------------------

TEST_P(SamplingTest, Logprobs) {
  uint64_t seed = 1;
  for (const DType dtype : kTypes) {
    for (const int64_t cols : {1, 9, 1001, 8192, 8193, 20000}) {
      for (const int64_t k : {0, 1, 20}) {
        if (k > cols) continue;
        SCOPED_TRACE(testing::Message() << dtype_info(dtype).name << " cols " << cols << " k " << k);
        const int64_t n = k == 1 ? 0 : 3;
        TestTensor logits =
            TestTensor::random(dtype, {5, cols}, seed, {.padding = {static_cast<int64_t>(seed % 3)}}, -30, 30);
        TestTensor tokens = TestTensor::random(DType::i32, {5, n}, seed, {}, -1, static_cast<double>(cols));
        for (int64_t c = 0; c < cols; ++c) logits.set(3 * cols + c, -kInf);
        logits.set(4 * cols, kNaN);
        TestTensor scores(DType::f32, {5, n}), top_ids(DType::i32, {5, k}), top(DType::f32, {5, k}),
            status(DType::i32, {5});
        Tolerance tolerance;
        tolerance.absolute = 1e-5;
        compare_with_reference<ops::LogprobsArgs>(
            device(), ops::logprobs_reference_run, {&scores, &top_ids, &top, &status}, tolerance,
            [&](const At& at) {
              ops::LogprobsArgs a;
              a.logits = at(logits), a.status = at(status);
              const TensorView given = at(tokens), given_out = at(scores), ids = at(top_ids), ids_out = at(top);
              if (n > 0) a.tokens = given, a.logprobs = given_out;
              if (k > 0 || n == 0) a.top_ids = ids, a.top_logprobs = ids_out;
              return a;
            },
            kPortable);
        ++seed;
      }
    }
  }
}

// ---- Speculative verification ----------------------------------------------------------------------------------------------------------

struct Verified {
  TestTensor tokens, accepted, status;
};

Verified check_verify(Device device, TestTensor& target, TestTensor* draft, TestTensor& drafts, int64_t batch,
                      int64_t n, TestTensor* seeds = nullptr, TestTensor* positions = nullptr) {
  Verified r{TestTensor(DType::i32, {batch, n + 1}), TestTensor(DType::i32, {batch}), TestTensor(DType::i32, {batch})};
  compare_with_reference<ops::VerifyArgs>(
      device, ops::verify_reference_run, {&r.tokens, &r.accepted, &r.status}, {},
      [&](const At& at) {
        ops::VerifyArgs a;
        a.tokens = at(r.tokens), a.accepted = at(r.accepted), a.status = at(r.status);
        a.target_probs = at(target), a.draft_tokens = at(drafts);
        if (draft != nullptr) a.draft_probs = at(*draft);
        if (seeds != nullptr) a.seeds = at(*seeds);
        if (positions != nullptr) a.positions = at(*positions);
        return a;
      },
      kPortable);
  return r;
}

TEST_P(SamplingTest, VerifySizes) {
  uint64_t seed = 1;
  for (const int64_t cols : {1, 3, 100, 2049, 9000}) {
    for (const int64_t n : {0, 1, 4}) {
      for (const bool certain : {false, true}) {
        SCOPED_TRACE(testing::Message() << "cols " << cols << " drafts " << n << (certain ? " certain" : ""));
        constexpr int64_t kBatch = 5;
        TestTensor target = TestTensor::random(DType::f32, {kBatch, n + 1, cols}, seed,
                                               {.padding = {0, static_cast<int64_t>(seed % 3)}}, 0, 1);
        TestTensor draft = TestTensor::random(DType::f32, {kBatch, n, cols}, seed + 1, {}, 0, 1);
        for (int64_t i = 0; i < target.size(); i += 2) target.set(i, 0.0);
        TestTensor drafts = TestTensor::random(DType::i32, {kBatch, n}, seed + 2, {}, seed % 2 == 0 ? -1 : 0,
                                               static_cast<double>(cols - 1));
        TestTensor seeds = TestTensor::random(DType::i64, {kBatch}, seed, {}, -50, 50),
                   positions = TestTensor::random(DType::i64, {kBatch}, seed, {}, 0, 900);
        check_verify(device(), target, certain ? nullptr : &draft, drafts, kBatch, n, &seeds, &positions);
        ++seed;
      }
    }
  }
}

// Case V-02: greedy targets.
TEST_P(SamplingTest, VerifyGreedy) {
  constexpr int64_t kCols = 10;
  const std::vector<double> best = {1, 2, 3, 4, 6, 8};
  TestTensor target(DType::f32, {2, 6, kCols});
  target.fill(0.0);
  for (int64_t i = 0; i < 6; ++i) {
    target.set(i * kCols + static_cast<int64_t>(best[static_cast<size_t>(i)]), 1.0);
    target.set((6 + i) * kCols + static_cast<int64_t>(best[static_cast<size_t>(i)]), 1.0);
  }
  TestTensor drafts = TestTensor::of(DType::i32, {2, 5}, {1, 2, 3, 5, 7, 1, 2, 3, 4, 6});
  const Verified r = check_verify(device(), target, nullptr, drafts, 2, 5);
  EXPECT_EQ(r.tokens.values(), (std::vector<double>{1, 2, 3, 4, -1, -1, 1, 2, 3, 4, 6, 8}));
  EXPECT_EQ(r.accepted.values(), (std::vector<double>{3, 5}));
}

// Case V-01: the output follows the target whatever the draft was, if the draft is judged by the distribution it was drawn from.
TEST_P(SamplingTest, VerifyFollowsTheTarget) {
  constexpr int64_t kBatch = 6000;
  const double p[3] = {0.6, 0.3, 0.1}, q[3] = {0.625, 0.375, 0.0};
  TestTensor target(DType::f32, {kBatch, 2, 3}), draft(DType::f32, {kBatch, 1, 3}), drafts(DType::i32, {kBatch, 1}),
      seeds(DType::i64, {kBatch});
  for (int64_t b = 0; b < kBatch; ++b) {
    for (int64_t c = 0; c < 3; ++c) {
      target.set(b * 6 + c, p[c]), target.set(b * 6 + 3 + c, p[c]);
      draft.set(b * 3 + c, q[c]);
    }
    drafts.set(b, b % 1000 < 625 ? 0 : 1);  // drawn from q, by enumeration
    seeds.set_integer(b, 77 + b);
  }
  const Verified r = check_verify(device(), target, &draft, drafts, kBatch, 1, &seeds);
  double seen[3] = {};
  for (int64_t b = 0; b < kBatch; ++b) seen[static_cast<int64_t>(r.tokens.get(b * 2))] += 1.0 / kBatch;
  for (int c = 0; c < 3; ++c) EXPECT_NEAR(seen[c], p[c], 4 * std::sqrt(p[c] * (1 - p[c]) / kBatch));
  // p = q accepts always.
  for (int64_t b = 0; b < kBatch; ++b) {
    for (int64_t c = 0; c < 3; ++c) draft.set(b * 3 + c, p[c]);
  }
  const Verified same = check_verify(device(), target, &draft, drafts, kBatch, 1, &seeds);
  for (int64_t b = 0; b < kBatch; ++b) ASSERT_EQ(same.accepted.get(b), 1);
}

TEST_P(SamplingTest, VerifyNothingToChooseFrom) {
  TestTensor target = TestTensor::of(DType::f32, {2, 2, 3}, {0, 0, 0, 0, 0, 0, kNaN, 0, 1, 0, kNaN, 0}),
             drafts = TestTensor::of(DType::i32, {2, 1}, {-1, 2});
  const Verified r = check_verify(device(), target, nullptr, drafts, 2, 1);
  EXPECT_EQ(r.status.values(), (std::vector<double>{ops::row_no_valid_token, ops::row_no_valid_token}));
  EXPECT_EQ(r.accepted.values(), (std::vector<double>{0, 1}));
}

TEST(SamplingErrors, PenaltiesLogprobsAndVerify) {
  TestTensor logits(DType::f32, {3, 12}), i(DType::i32, {3, 2}), f(DType::f32, {3, 2}), row_i(DType::i32, {3}),
      row_f(DType::f32, {3});
  const auto refuses = [](auto good, const std::vector<std::string>& words, auto change) {
    change(good);
    expect_error(ErrorCode::invalid_argument, words, [&] { plan<decltype(good)>(Device{}, good); });
  };
  ops::PenaltiesArgs penalties;
  penalties.logits = logits.host(), penalties.history = i.host(), penalties.history_length = row_i.host(),
  penalties.repetition = row_f.host();
  penalties.bias_ids = i.host(), penalties.bias = f.host();
  EXPECT_NO_THROW(plan<ops::PenaltiesArgs>(Device{}, penalties));
  refuses(penalties, {"apply_penalties", "history"}, [](auto& a) { a.history.dtype = DType::i64; });
  refuses(penalties, {"apply_penalties", "history", "extent"}, [](auto& a) { a.history.extent[0] = 2; });
  refuses(penalties, {"apply_penalties", "repetition"}, [](auto& a) { a.repetition.dtype = DType::f16; });
  refuses(penalties, {"apply_penalties", "bias"}, [](auto& a) { a.bias = {}; });
  refuses(penalties, {"apply_penalties", "bias"}, [](auto& a) { a.bias.extent[1] = 1; });
  SampleArgs sample;
  sample.ids = row_i.host(), sample.logits = logits.host(), sample.penalties.history = i.host();
  EXPECT_NO_THROW(plan<SampleArgs>(Device{}, sample));
  refuses(sample, {"sample", "penalties.logits"}, [](auto& a) { a.penalties.logits = a.logits; });
  refuses(sample, {"sample", "history"}, [](auto& a) { a.penalties.history.extent[0] = 4; });

  ops::LogprobsArgs logprobs;
  logprobs.logits = logits.host(), logprobs.tokens = i.host(), logprobs.logprobs = f.host();
  EXPECT_NO_THROW(plan<ops::LogprobsArgs>(Device{}, logprobs));
  refuses(logprobs, {"logprobs", "tokens"}, [](auto& a) { a.tokens = a.logprobs = {}; });
  refuses(logprobs, {"logprobs", "logprobs"}, [](auto& a) { a.logprobs.dtype = DType::bf16; });
  refuses(logprobs, {"logprobs", "top_logprobs"}, [&](auto& a) { a.top_ids = i.host(); });

  TestTensor target(DType::f32, {3, 3, 7}), draft(DType::f32, {3, 2, 7}), tokens(DType::i32, {3, 3});
  ops::VerifyArgs verify;
  verify.tokens = tokens.host(), verify.accepted = row_i.host(), verify.target_probs = target.host(),
  verify.draft_probs = draft.host();
  verify.draft_tokens = i.host();
  EXPECT_NO_THROW(plan<ops::VerifyArgs>(Device{}, verify));
  refuses(verify, {"speculative_verify", "target_probs"}, [](auto& a) { a.target_probs.dtype = DType::f16; });
  refuses(verify, {"speculative_verify", "draft_probs"}, [](auto& a) { a.draft_probs.extent[1] = 3; });
  refuses(verify, {"speculative_verify", "tokens"}, [](auto& a) { a.tokens.extent[1] = 2; });
  refuses(verify, {"speculative_verify", "accepted"}, [](auto& a) { a.accepted = {}; });
}

}  // namespace
}  // namespace monotile
