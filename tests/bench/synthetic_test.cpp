// Synthetic models are read by the engine like any other file.

#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "bench/model_bench.hpp"

namespace monotile::bench {
namespace {

TEST(BenchSynthetic, AnswersAndIsMeasured) {
  ModelBenchOptions options;
  options.synthetic = "tiny";
  options.prompt = 8;
  options.generate = 4;
  options.repetitions = 2;
  options.price_per_hour = 3;
  options.profile = false;
  const ModelResult result = bench_model(options);
  EXPECT_EQ(result.name, "tiny (synthetic)");
  EXPECT_EQ(result.weights, "bf16");
  EXPECT_EQ(result.itl_us.size(), 8u);
  EXPECT_GT(result.ttft_us.median, 0);
  EXPECT_LE(result.itl_p50, result.itl_p99);
  const std::string text = text_table(result, options);
  EXPECT_NE(text.find("pp8"), std::string::npos);
  EXPECT_NE(text.find("tg4"), std::string::npos);
  EXPECT_NE(text.find("per million"), std::string::npos);
  EXPECT_EQ(to_json(result, options)["itl_us"]["n"], 8);
}

TEST(BenchSynthetic, TheProfileHasTheCallsOfTheEngine) {
  const std::string path = ::testing::TempDir() + "profiled.gguf";
  write_synthetic_gguf(path, "tiny", false);
  const engine::Model model = engine::Model::load(path);
  std::filesystem::remove(path);
  engine::EngineOptions options;
  options.count_uses = true;
  engine::Engine engine(model, options);
  engine::Session session(engine);
  session.decode(7);
  (void)session.choose();
  std::map<std::string, double> made, listed;
  for (const Context::Use& use : engine.context().uses()) made[use.op] += static_cast<double>(use.calls);
  const std::map<std::string, std::string> renamed = {{"add_rms_norm", "rms_norm"},
                                                      {"silu_mul", "gated_activation"},
                                                      {"attention_decode", "attention"},
                                                      {"gemm_mixed", "gemm"}};
  for (const auto& [item, dtype] : step_work(model, engine.options(), 1)) {
    const auto found = renamed.find(item.op);
    listed[found == renamed.end() ? item.op : found->second] += item.calls;
  }
  EXPECT_EQ(listed, made);
}

TEST(BenchSynthetic, HolesTakeNoDisk) {
  const std::string path = ::testing::TempDir() + "synthetic.gguf";
  write_synthetic_gguf(path, "gemma-3-270m", true);
  EXPECT_GT(std::filesystem::file_size(path), uint64_t{500} << 20);
  std::filesystem::remove(path);
}

TEST(BenchSynthetic, UnknownShapesAndProjectionsAreRefused) {
  EXPECT_THROW(write_synthetic_gguf("/tmp/none.gguf", "no-such-model", true), Error);
  EXPECT_THROW(write_synthetic_gguf("/no/such/folder/x.gguf", "tiny", true), Error);
  ModelBenchOptions options;
  options.project = "H100";
  ModelResult result;
  result.environment = {{"device_name", "some CPU"}};
  EXPECT_THROW(text_table(result, options), Error);
  result.environment = {{"device_name", "NVIDIA H200"}};
  result.itl_p50 = 4000;
  result.notes = {"tier forced to portable: failed: no kernel"};
  const std::string text = text_table(result, options);
  EXPECT_NE(text.find("projected, not measured: H100"), std::string::npos);
  EXPECT_NE(text.find("failed: no kernel"), std::string::npos);
  EXPECT_LT(to_json(result, options)["projected"]["decode"], 250);
}

}  // namespace
}  // namespace monotile::bench
