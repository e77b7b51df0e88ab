#include "engine/sampler.hpp"

#include <cmath>
#include <cstddef>
#include <string>

#include "monotile/ops/sampling.hpp"

namespace monotile::engine {

namespace {

[[noreturn]] void refuse(const char* argument, double given, const char* allowed) {
  throw Error(ErrorCode::invalid_argument,
              std::string("sampling: ") + argument + ": " + std::to_string(given) + "; allowed: " + allowed);
}

constexpr float kGreedyBelow = 1e-5f;  // as the operator

}  // namespace

int32_t Sampler::choose(monotile::Context& context, const TensorView& logits_row, const SamplingOptions& options,
                        int64_t position) {
  if (!(options.temperature >= 0.0f) || !std::isfinite(options.temperature))
    refuse("temperature", options.temperature, "0 or more");
  if (!(options.top_p >= 0.0f) || !(options.top_p <= 1.0f)) refuse("top_p", options.top_p, "0 to 1");
  if (!(options.min_p >= 0.0f) || !(options.min_p <= 1.0f)) refuse("min_p", options.min_p, "0 to 1");

  Stream& stream = context.stream();
  Block block{.seed = static_cast<int64_t>(options.seed),
              .position = position,
              .temperature = options.temperature,
              .top_p = options.top_p,
              .min_p = options.min_p,
              .top_k = options.top_k,
              .id = -1,
              .status = -1};
  const TensorView ids = field<int32_t>(offsetof(Block, id)), status = field<int32_t>(offsetof(Block, status));
  copy_to_device(stream, memory_.data(), &block, sizeof(block));
  if (options.temperature < kGreedyBelow) {
    ops::argmax(context, ids, logits_row, status);
  } else {
    ops::sample(context, {.ids = ids,
                          .logits = logits_row,
                          .temperature = field<float>(offsetof(Block, temperature)),
                          .top_k = field<int32_t>(offsetof(Block, top_k)),
                          .top_p = field<float>(offsetof(Block, top_p)),
                          .min_p = field<float>(offsetof(Block, min_p)),
                          .seeds = field<int64_t>(offsetof(Block, seed)),
                          .positions = field<int64_t>(offsetof(Block, position)),
                          .status = status});
  }
  copy_to_host(stream, &block, memory_.data(), sizeof(block));
  stream.synchronize();
  if (block.status == ops::row_has_nan || block.status == ops::row_no_valid_token) {
    throw Error(ErrorCode::device_error,
                std::string("sampling: the logits at position ") + std::to_string(position) +
                    (block.status == ops::row_has_nan ? " hold NaN" : " hold no finite value") +
                    "; no token can be chosen");
  }
  return block.id;
}

}  // namespace monotile::engine
