#pragma once
// Weights of a model as the operators take them.

#include <vector>

#include "engine/architectures.hpp"
#include "monotile/tensor.hpp"

namespace monotile::engine {

/// Matrices [outputs, inputs] in any type that gemm takes; norms and biases f32. Undefined where the architecture or
/// the file has none. Where weights are copied to a device and are of one type, q, k and v are parts of qkv, and their biases of qkv_bias.
struct LayerWeights {
  TensorView attention_norm, q, k, v, q_bias, k_bias, v_bias, q_norm, k_norm, o, o_bias, post_attention_norm;
  TensorView qkv, qkv_bias;
  TensorView feed_forward_norm, gate, up, down, gate_bias, up_bias, down_bias, post_feed_forward_norm;
};

struct Weights {
  TensorView embedding;    ///< [vocabulary, hidden]
  TensorView output_norm;  ///< [hidden]
  TensorView output;       ///< [vocabulary, hidden]; the embedding where tied
  std::vector<LayerWeights> layers;
};

}  // namespace monotile::engine
