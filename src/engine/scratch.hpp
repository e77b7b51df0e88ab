#pragma once
// The activations of one step, allocated once for the largest step.

#include "monotile/engine.hpp"

namespace monotile::engine {

/// Views of the first rows of each buffer. `rows` tokens; logits always f32.
struct Activations {
  TensorView residual, normed, delta;  ///< [rows, hidden]
  TensorView qkv, k, v, attended;      ///< [rows, heads * dim]; qkv those of q, k and v together, or q alone at its front
  TensorView gate, up;                 ///< [rows, feed_forward]
};

class Scratch {
 public:
  Scratch(Stream& stream, const Hyperparameters& hyperparameters, DType dtype, int64_t max_rows, int64_t max_outputs,
          bool poison);

  Activations rows(int64_t count) const;
  TensorView logits(int64_t count) const { return logits_.slice(0, 0, count); }
  uint64_t bytes() const { return memory_.size(); }

 private:
  Buffer memory_;
  Activations all_;
  TensorView logits_;
};

}  // namespace monotile::engine
