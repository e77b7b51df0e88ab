#pragma once
// The shapes of real models, as data: which calls a prefill or a decode step makes, and how often.

#include <string>
#include <vector>

#include "bench/operator.hpp"

namespace monotile::bench {

struct ModelShape {
  const char* name;
  int64_t layers, hidden, heads, kv_heads, head_dim, feed_forward, vocabulary;
  int64_t experts = 0, experts_per_token = 0;  ///< 0: dense
};
const std::vector<ModelShape>& model_shapes();
/// Throws Error(not_found) with the names there are.
const ModelShape& model_shape(const std::string& name);

/// One row to measure.
struct WorkItem {
  std::string op;
  Dims dims;
  std::string model, phase;  ///< "llama-3-8b", "prefill 1x2048"; empty for single shapes
  double calls = 0;          ///< in one step of the model
};

/// All operators of one step: `batch` sequences of `tokens` new tokens each (decode: one) with `context` keys in all.
std::vector<WorkItem> model_step(const ModelShape& model, bool decode, int64_t batch, int64_t tokens);

/// "default", "quick", "streams", "model:NAME", or numbers "M,N,..." for the operators in `ops`. Throws Error(invalid_argument).
std::vector<WorkItem> work_for(const std::string& shapes, const std::vector<std::string>& ops, bool cpu);

}  // namespace monotile::bench
