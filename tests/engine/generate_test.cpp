// The engine on the small random models in tests/models, against llama.cpp's answers for them, and its own bookkeeping.

#include <gtest/gtest.h>

#include <cmath>

#include "tests/engine/golden.hpp"

namespace monotile::engine {
namespace {

using golden::Json;

const char* const kArchitectureNames[] = {"llama", "gemma3"};
constexpr int64_t kContext = 128;

std::string model_path(const std::string& file) { return golden::source_path("tests/models/" + file); }

double logits_error(Session& session, const Json& prompt) {
  session.clear();
  session.prefill(prompt.at("prompt_ids").get<std::vector<int32_t>>());
  return golden::relative_error(session.logits(), prompt.at("logits").get<std::vector<float>>());
}

/// All files of one architecture: logits and greedy tokens of every prompt.
void check_small_models(const std::string& architecture, Device device, const EngineOptions& options,
                        double logit_limit, double factor_of_peer = 0) {
  const Json goldens = golden::read_json("tests/golden/small-" + architecture + ".json");
  const double tie_gap = goldens.at("limits").at("tie_gap");
  for (const Json& entry : goldens.at("models")) {
    SCOPED_TRACE(entry.at("file").get<std::string>());
    const Model model = Model::load(model_path(entry.at("file")), {.device = device});
    Engine engine(model, options);
    Session session(engine);
    double worst = 0;
    int near_ties = 0;
    for (const Json& prompt : entry.at("prompts")) {
      const std::string name = prompt.at("name");
      const double peer = entry.at("quantized_activations_logit_error").at(name);
      const double error = logits_error(session, prompt);
      EXPECT_LE(error, std::max(logit_limit, factor_of_peer * peer)) << name;
      worst = std::max(worst, error);
      const golden::GreedyResult greedy = golden::follow(session, prompt, tie_gap);
      for (const std::string& failure : greedy.failures) ADD_FAILURE() << failure;
      near_ties += greedy.near_ties;
    }
    std::printf("  %-26s %-11s logit error %.2e, near ties %d\n", entry.at("file").get<std::string>().c_str(),
                to_string(device).c_str(), worst, near_ties);
  }
}

EngineOptions exact() {
  EngineOptions options = golden::exact_options(kContext);
  options.poison = true;
  return options;
}

TEST(SmallGolden, Llama) { check_small_models("llama", Device{}, exact(), 1e-4); }
// llama.cpp looks GELU up in a table of fp16 values.
TEST(SmallGolden, Gemma3) { check_small_models("gemma3", Device{}, exact(), 1e-3); }

}  // namespace
}  // namespace monotile::engine
