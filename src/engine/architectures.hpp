#pragma once
// The supported architectures as data, and the reader of their hyperparameters.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/gguf.hpp"
#include "monotile/engine.hpp"

namespace monotile::engine {

/// Everything that tells one architecture from another. Common to all: RMS norms before attention, before the
/// feed-forward part and at the end, grouped-query attention with rotary positions, a gated feed-forward part.
struct Architecture {
  const char* name;  ///< general.architecture, also the prefix of the keys
  bool qk_norm;      ///< RMS norm of each head's query and key before the rotation
  bool post_norms;   ///< RMS norm of what attention and feed-forward part add to the residual stream
  bool biases;       ///< projections may have biases
  ops::Activation activation;
  bool embedding_times_sqrt_hidden;
  bool rope_interleaved;  ///< pairs (2i, 2i + 1), else (i, i + rotary_dim / 2)
  double rope_base;       ///< where the file names none
  double rope_base_local;
  bool rope_divisors;    ///< a tensor rope_freqs.weight may divide the frequencies
  int64_t global_every;  ///< with a window: every n-th layer sees all keys; 0: no layer has a window
  int64_t
      scale_by_width_layers;  ///< the variant with so many layers scales scores by 1 / sqrt(hidden / heads); 0: none
};

std::span<const Architecture> architectures();
/// Throws Error(unsupported) naming the file, the architecture and those there are.
const Architecture& find_architecture(const GgufFile& file);

/// Reads and checks all keys. Throws Error(bad_file) or Error(unsupported) naming file and key,
/// Error(invalid_argument) for overrides of keys that are not read. `rope_scaling.frequency_divisors` and
/// `tied_output` are left to the reader of the tensors.
Hyperparameters read_hyperparameters(const GgufFile& file, const Architecture& architecture,
                                     std::span<const std::pair<std::string, double>> overrides);

/// Lengths that tensor shapes are made of.
enum class Extent : uint8_t { none, hidden, query, key, value, attended, feed_forward, vocabulary, head, half_rotary };
int64_t extent_of(Extent extent, const Hyperparameters& hyperparameters);

}  // namespace monotile::engine
