#pragma once
// Picks the next token from one row of logits with the sampling operators.

#include "monotile/engine.hpp"

namespace monotile::engine {

class Sampler {
 public:
  explicit Sampler(Device device) : memory_(device, sizeof(Block)) {}

  /// `position`: of the token to be drawn, the counter of the random numbers. Waits for the result. Throws
  /// Error(invalid_argument) for options out of range, Error(device_error) if the row holds no valid token.
  int32_t choose(monotile::Context& context, const TensorView& logits_row, const SamplingOptions& options,
                 int64_t position);

 private:
  /// Arguments and results, one copy each way.
  struct Block {
    int64_t seed, position;
    float temperature, top_p, min_p;
    int32_t top_k;
    int32_t id, status;
  };

  template <class T>
  TensorView field(size_t offset) const {
    return {memory_.as<std::byte>() + offset, dtype_of<T>, {1}, memory_.device()};
  }

  Buffer memory_;
};

}  // namespace monotile::engine
