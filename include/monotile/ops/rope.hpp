#pragma once
// Rotary position embedding, and the builder of its tables.

#include <string>
#include <vector>

#include "monotile/dispatch.hpp"

namespace monotile::ops {

/// Rotates pairs of the first `rotary_dim` elements of each head by the angle of the token's position; the rest is copied.
///
/// q [tokens, q_heads, head_dim], k [tokens, kv_heads, head_dim] (optional), outputs of the same shapes (may be the inputs); f32, f16 or
/// bf16, one dtype for all four; outer strides free. positions [tokens] i32 or i64, each in [0, max_position): others are clamped and
/// set status[token] = 1 where `status` (i32 [tokens]) is given. cos, sin [max_position, rotary_dim / 2] f32.
/// Pairs: (i, i + rotary_dim/2), or (2i, 2i+1) when `interleaved`. rotary_dim even, 2 <= rotary_dim <= head_dim; 0 means head_dim.
/// Source: Su et al., "RoFormer", 2021.
struct RopeArgs {
  static constexpr const char* op_name = "rope";
  TensorView q_out, k_out;
  TensorView q, k;
  TensorView positions;
  TensorView cos, sin;
  TensorView status;  ///< optional
  int rotary_dim = 0;
  bool interleaved = false;
};

inline void rope(Context& context, const TensorView& q, const TensorView& k, const TensorView& positions, const TensorView& cos,
                 const TensorView& sin, bool interleaved = false, int rotary_dim = 0) {
  run(context, RopeArgs{.q_out = q, .k_out = k, .q = q, .k = k, .positions = positions, .cos = cos, .sin = sin, .status = {},
                        .rotary_dim = rotary_dim, .interleaved = interleaved});
}

/// How a model stretches its rotary frequencies.
struct RopeScaling {
  enum class Kind { none, linear, llama3 } kind = Kind::none;
  double factor = 1.0;             ///< linear, llama3
  double low_freq_factor = 1.0;    ///< llama3
  double high_freq_factor = 4.0;   ///< llama3
  double original_context = 8192;  ///< llama3
  /// Optional divisors per pair (GGUF tensor rope_freqs.weight); empty or rotary_dim / 2 values.
  std::vector<float> frequency_divisors;
};
/// Frequencies (radians per position) of each pair in fp64. Throws Error(invalid_argument) for odd or non-positive sizes.
std::vector<double> rope_frequencies(int rotary_dim, double base, const RopeScaling& scaling = {});
/// Fills cos and sin [max_position, rotary_dim / 2] (host, packed) from fp64 angles.
void build_rope_table(float* cos, float* sin, int64_t max_position, int rotary_dim, double base, const RopeScaling& scaling = {});

}  // namespace monotile::ops
