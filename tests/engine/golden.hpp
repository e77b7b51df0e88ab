#pragma once
// Comparison with recorded answers of llama.cpp; the rules and the format are in tests/golden/README.md.

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "monotile/engine.hpp"

namespace monotile::engine::golden {

using Json = nlohmann::json;

inline std::string source_path(const std::string& relative) {
  return std::string(MONOTILE_SOURCE_DIR) + "/" + relative;
}

inline Json read_json(const std::string& relative) {
  std::ifstream stream(source_path(relative));
  if (!stream) throw std::runtime_error("cannot open " + relative);
  return Json::parse(stream);
}

/// Little-endian float32 file of the golden folder.
inline std::vector<float> read_floats(const std::string& name, size_t count) {
  std::vector<float> values(count);
  std::ifstream stream(source_path("tests/golden/" + name), std::ios::binary);
  stream.read(reinterpret_cast<char*>(values.data()), static_cast<std::streamsize>(count * sizeof(float)));
  if (!stream || stream.peek() != EOF) throw std::runtime_error(name + ": not " + std::to_string(count) + " floats");
  return values;
}

/// Norm of the difference over the norm of the golden, for every `stride`-th value of ours; infinite if ours holds NaN.
inline double relative_error(std::span<const float> ours, std::span<const float> golden, size_t stride = 1) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < golden.size(); ++i) {
    const double g = static_cast<double>(golden[i]), d = static_cast<double>(ours[i * stride]) - g;
    difference += d * d;
    norm += g * g;
  }
  const double error = std::sqrt(difference / norm);
  return std::isnan(error) ? HUGE_VAL : error;
}

struct GreedyResult {
  int near_ties = 0;                  ///< differing tokens where the golden's best two are within the gap
  std::vector<std::string> failures;  ///< differing tokens elsewhere
};

/// Follows one recorded run: after each step the golden token is fed, so a difference never spreads.
inline GreedyResult follow(Session& session, const Json& run, double tie_gap) {
  GreedyResult result;
  const auto prompt = run.at("prompt_ids").get<std::vector<int32_t>>();
  session.clear();
  session.prefill(prompt);
  const Json& steps = run.at("steps");
  for (size_t i = 0; i < steps.size(); ++i) {
    const auto golden_id = steps[i][0].get<int32_t>();
    const double gap = steps[i][1].get<double>() - steps[i][3].get<double>();
    const int32_t ours = session.choose();
    if (ours != golden_id) {
      if (gap <= tie_gap) {
        ++result.near_ties;
      } else {
        result.failures.push_back(run.at("name").get<std::string>() + " step " + std::to_string(i) + ": token " +
                                  std::to_string(ours) + ", golden " + std::to_string(golden_id) + " leads by " +
                                  std::to_string(gap));
      }
    }
    if (i + 1 < steps.size()) session.decode(golden_id);
  }
  return result;
}

/// fp32 everywhere and no rounding of activations: what the goldens are held against.
inline EngineOptions exact_options(int64_t context) {
  EngineOptions options;
  options.context = context;
  options.activations = DType::f32;
  options.kv = DType::f32;
  options.cast = ops::ProductCast::none;
  return options;
}

inline std::vector<std::pair<std::string, double>> overrides_of(const Json& mutation) {
  std::vector<std::pair<std::string, double>> overrides;
  for (const auto& [key, value] : mutation.at("overrides").items()) overrides.emplace_back(key, value.get<double>());
  return overrides;
}

}  // namespace monotile::engine::golden
