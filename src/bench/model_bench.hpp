#pragma once
// `monotile bench model`: how fast a whole model answers, and where a step's time goes.

#include <string>
#include <utility>
#include <vector>

#include "bench/report.hpp"
#include "bench/shapes.hpp"
#include "monotile/engine.hpp"

namespace monotile::bench {

struct ModelBenchOptions {
  std::string path;       ///< a GGUF file, or
  std::string synthetic;  ///< the name of a model shape: random weights of that size
  Device device;
  int64_t prompt = 512, generate = 128;  ///< tokens, as in pp512 and tg128
  int repetitions = 0;                   ///< 0: 5, fewer for slow models
  bool portable_too = true;              ///< the same decode with the tier forced to portable
  bool profile = true;
  double price_per_hour = 0;
  std::string project;  ///< device whose specified limits scale the result
};

struct ModelResult {
  std::string name, weights;  ///< "llama-3-8b (synthetic)", "bf16"
  double parameters = 0, weight_bytes = 0;
  Spread prompt_us, ttft_us;   ///< of the whole prompt; until the first token is chosen
  std::vector<double> itl_us;  ///< between tokens, one sequence
  double itl_p50 = 0, itl_p90 = 0, itl_p99 = 0;
  double itl_portable_p50 = 0;     ///< 0: not measured, or no other tier was used
  double floor_us = 0;             ///< bytes of a decode step over the measured peak
  Report step;                     ///< operators of one decode step, measured one by one
  std::vector<std::string> notes;  ///< parts that failed
  Json environment;
};

ModelResult bench_model(const ModelBenchOptions& options);

/// The calls of one decode step over `context` keys as the engine makes them, equal ones counted together, with the dtypes
/// of this model's weights (which may differ from layer to layer) and activations.
std::vector<std::pair<WorkItem, DType>> step_work(const engine::Model& model, const engine::EngineOptions& options,
                                                  int64_t context);
std::string text_table(const ModelResult& result, const ModelBenchOptions& options);
Json to_json(const ModelResult& result, const ModelBenchOptions& options);

/// Writes a GGUF file of this shape in bf16 with a vocabulary of numbered tokens. With `holes`, weights are holes of the file
/// (they take no disk and read as zeros); else they are random.
void write_synthetic_gguf(const std::string& path, const std::string& shape, bool holes);

}  // namespace monotile::bench
