// The tuning table: what it may say, whom it is for, and that dispatch follows it.

#include "ops/gemm/tuning.hpp"

#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "ops/gemm/gemm.hpp"
#include "ops/gemm/tile_configs.hpp"
#include "test_util.hpp"

namespace monotile::test {
namespace {

using ops::GemmArgs;
using ops::tiles::ScopedTuning;
using ops::tiles::Tuned;
using ops::tiles::TuningTable;

struct Product {
  TestTensor a, b, c;
  Product(DType t, int64_t m, int64_t n, int64_t k)
      : a(TestTensor::random(t, {m, k}, 1)), b(TestTensor::random(t, {n, k}, 2)), c(t, {m, n}) {}
  GemmArgs on(Stream& stream) {
    GemmArgs args;
    args.c = c.on(stream), args.a = a.on(stream), args.b = b.on(stream);
    return args;
  }
};

TuningTable table_of(const DeviceInfo& info, const GemmArgs& args, const std::string& implementation,
                     const std::string& tile, int split = 1) {
  TuningTable table;
  table.path = "some.json", table.device = info.name, table.code_path = info.path;
  Tuned row;
  row.range = ops::tiles::range_of(args).value();
  row.implementation = implementation, row.tile = tile, row.split = split;
  row.us = 1.5, row.chosen_us = 2.25;
  row.m = args.m(), row.n = args.n(), row.k = args.k();
  table.rows.push_back(row);
  return table;
}

class TuningTest : public OnDevice {};
MONOTILE_ON_DEVICES(TuningTest);

TEST_P(TuningTest, DispatchFollowsTheTable) {
  const DeviceInfo& info = device_info(device());
  Stream stream(device());
  const ScopedTuning none(nullptr);
  Product x(DType::f16, 40, 48, 64), same_range(DType::f16, 63, 33, 127), beyond(DType::f16, 64, 48, 64);
  const GemmArgs args = x.on(stream), near = same_range.on(stream), far = beyond.on(stream);
  for (const char* name : {"tiles", "portable"}) {
    TuningTable table = table_of(info, args, name, "");
    if (table.rows[0].implementation == "tiles") table.rows[0].tile = ops::tiles::candidates(args, info).back().tile;
    const std::string without = plan(device(), far).implementation->name;
    const ScopedTuning tuning(&table);
    EXPECT_STREQ(plan(device(), args).implementation->name, name);
    EXPECT_STREQ(plan(device(), near).implementation->name, name) << "the table knows ranges, not shapes";
    EXPECT_EQ(plan(device(), far).implementation->name, without);
    if (device().host_memory()) {
      EXPECT_STREQ(plan(device(), args, TierPolicy{Tier::reference}).implementation->name, "gemm_reference");
    }
  }
}

/// Every candidate is a product.
TEST_P(TuningTest, CandidatesAreRight) {
  const DeviceInfo& info = device_info(device());
  Stream stream(device());
  Product x(DType::bf16, 35, 48, 64);
  GemmArgs host;
  host.c = x.c.host(), host.a = x.a.host(), host.b = x.b.host();
  ops::gemm_reference_run(host);
  const std::vector<double> wanted = x.c.values();
  const GemmArgs args = x.on(stream);
  const auto candidates = ops::tiles::candidates(args, info);
  EXPECT_GE(candidates.size(), 2u);
  for (const auto& candidate : candidates) {
    SCOPED_TRACE(candidate.implementation + " " + candidate.tile);
    x.c.fill(-7.0);
    (void)x.c.on(stream);
    Buffer workspace(device(), std::max<size_t>(candidate.plan.workspace_bytes, 1));
    candidate.plan.run(stream, args, workspace.data());
    x.c.fetch(stream);
    for (int64_t i = 0; i < x.c.size(); ++i)
      ASSERT_NEAR(x.c.get(i), wanted[static_cast<size_t>(i)],
                  ulp(DType::bf16, std::abs(wanted[static_cast<size_t>(i)])) + 1e-4)
          << i;
  }
}

/// `monotile ops` says that the table decided.
TEST_P(TuningTest, IsExplained) {
  const DeviceInfo& info = device_info(device());
  GemmArgs typical;
  typical.a = TensorView(nullptr, DType::bf16, {2048, 4096}),
  typical.b = TensorView(nullptr, DType::bf16, {4096, 4096});
  typical.c = TensorView(nullptr, DType::bf16, {2048, 4096});
  const TuningTable table = table_of(info, typical, "portable", "");
  const ScopedTuning tuning(&table);
  int explained = 0;
  for (const Choice& choice : ops::gemm_operator.explain(info, {})) {
    if (!choice.chosen) continue;
    EXPECT_EQ(choice.implementation, "portable");
    EXPECT_NE(choice.why.find("some.json"), std::string::npos) << choice.why;
    EXPECT_NE(choice.why.find("m 2048 to 4095"), std::string::npos) << choice.why;
    EXPECT_EQ(choice.cost, 1.5);
    ++explained;
  }
  EXPECT_EQ(explained, 1);
}

/// A tile that cannot take the operands leaves them to the cost model.
TEST(Tuning, UnsuitableTilesEmulated) {
  const Device device{DeviceKind::emulated, 32};
  Stream stream(device);
  Product few(DType::bf16, 64, 32, 64), many(DType::bf16, 65, 32, 64);
  const GemmArgs args = few.on(stream), more = many.on(stream);
  const TuningTable table = table_of(device_info(device), args, "tiles", "fewring");
  const ScopedTuning tuning(&table);
  EXPECT_EQ(plan(device, args).config[0], ops::tiles::kFewRing);
  EXPECT_EQ(plan(device, more).config[0], ops::tiles::kRing) << "tiles that lie across take 64 rows at most";
}

class File {
 public:
  explicit File(const std::string& text) : path_("/tmp/monotile-tuning-" + std::to_string(getpid()) + ".json") {
    std::ofstream(path_) << text;
  }
  ~File() { std::remove(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

TEST(Tuning, FilesHoldWhatWasWritten) {
  const DeviceInfo& info = device_info(Device{});
  Stream stream((Device()));
  Product x(DType::f32, 40, 48, 64);
  TuningTable table = table_of(info, x.on(stream), "tiles", "plain");
  table.rows.push_back(table.rows[0]);
  table.rows[1].range.cast = ops::ProductCast::tf32, table.rows[1].range.form = ops::ProductForm::tn,
  table.rows[1].range.b = DType::q4_k;
  table.rows[1].implementation = "portable", table.rows[1].tile = "";
  const File file(to_json(table));
  const TuningTable read = ops::tiles::read_tuning(file.path(), info);
  ASSERT_EQ(read.rows.size(), 2u);
  EXPECT_EQ(to_json(read), to_json(table));
  EXPECT_EQ(read.rows[1].range, table.rows[1].range);
}

TEST(Tuning, FilesAreRefused) {
  const DeviceInfo& info = device_info(Device{});
  Stream stream((Device()));
  Product x(DType::f32, 40, 48, 64);
  const std::string good = to_json(table_of(info, x.on(stream), "tiles", "plain"));
  const auto refused = [&](const std::string& from, const std::string& to, const std::string& word) {
    std::string text = good;
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    const File file(text.replace(at, from.size(), to));
    try {
      (void)ops::tiles::read_tuning(file.path(), info);
      ADD_FAILURE() << "not refused: " << to;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find(file.path()), std::string::npos) << error.what();
    }
  };
  refused(info.name, "another machine", "another machine");
  refused(ops::tiles::tiles_fingerprint(), "0000000000000000", "monotile tune");
  refused("\"monotile_tuning\": 1", "\"monotile_tuning\": 2", "version 2");
  refused("32,\n        63", "32,\n        64", "power of two");
  refused("\"plain\"", "\"round\"", "round");
  refused("\"split\": 1", "\"split\": 5", "split 5");
  refused("\"tiles\",\n", "\"magic\",\n", "magic");
  refused("\"ranges\"", "\"rangers\"", "ranges");
  refused("{", "", "tuning table");
  EXPECT_THROW((void)ops::tiles::read_tuning("/nowhere/at/all.json", info), Error);
}

}  // namespace
}  // namespace monotile::test
