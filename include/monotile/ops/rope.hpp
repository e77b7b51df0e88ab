#pragma once
// Rotary position embedding, and the builder of its tables.

#include <string>
#include <string_view>
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

/// q and k between their product and attention, in one launch: RMSNorm over each head, rotary embedding, and the rows of k and v to their slots in
/// paged caches. Equals rms_norm, rope and kv_append one after another to the bit: values are rounded to the dtype of q between the steps.
///
/// q [tokens, q_heads, dim], k and v [tokens, kv_heads, dim and dim_v], dims up to 256, and their norms (q_gamma, k_gamma [dim], optional), positions,
/// cos, sin, rotary_dim and interleaved as in RmsNormArgs and RopeArgs; caches, slots (at most tokens of them), scales as in KvAppendArgs.
/// q_out as q (may be q); k_out as k (may be k), optional: k is needed in its cache alone. One dtype of f32, f16, bf16 for q, k, v and the outputs.
/// status[t] = 1 where position or slot of token t is out of range.
struct NormRopeAppendArgs {
  static constexpr const char* op_name = "norm_rope_append";
  TensorView q_out, k_out;  ///< k_out: optional
  TensorView q, k, v;
  TensorView q_gamma, k_gamma;  ///< optional, both or none
  TensorView positions, cos, sin;
  TensorView key_cache, value_cache, slots;
  TensorView key_scale, value_scale;  ///< for caches of codes
  TensorView status;                  ///< optional
  float eps = 1e-6f;
  float gamma_offset = 0.0f;
  int rotary_dim = 0;
  bool interleaved = false;
};

/// How a model stretches its rotary frequencies.
struct RopeScaling {
  enum class Kind { none, linear, llama3, ntk, dynamic_ntk, yarn, longrope } kind = Kind::none;
  double factor = 1.0;             ///< all but none
  double low_freq_factor = 1.0;    ///< llama3
  double high_freq_factor = 4.0;   ///< llama3
  double original_context = 8192;  ///< llama3, dynamic_ntk, yarn, longrope: tokens that the model was trained for
  /// Optional divisors per pair (GGUF tensor rope_freqs.weight; longrope: those in use up to original_context); empty or rotary_dim / 2 values.
  std::vector<float> frequency_divisors;
  std::vector<float> long_divisors;  ///< longrope: those in use beyond original_context
  double context = 0;                ///< dynamic_ntk, longrope: tokens that the table is for; 0: original_context x factor
  double beta_fast = 32, beta_slow = 1;  ///< yarn: turns within original_context above which a pair is kept, and below which it is stretched in full
  double mscale = 0, mscale_all_dim = 0;   ///< yarn: 0 where the configuration has none
  double attention_factor = 0;             ///< yarn, longrope: the magnitude itself; 0 where the configuration has none
};
/// The kind that a configuration's `type` or `rope_type` names: "default", "linear", "ntk", "dynamic", "llama3", "yarn", "longrope" (or its old name "su"), "" for
/// none. Throws Error(invalid_argument) with the name for others.
RopeScaling::Kind rope_scaling_kind(std::string_view name);
/// What cos and sin are multiplied by. yarn: attention_factor, else g(mscale) / g(mscale_all_dim) where both are given, else g(1), with g(m) =
/// 0.1 m ln(factor) + 1. longrope: attention_factor, else sqrt(1 + ln(factor) / ln(original_context)). Others: 1.
/// Source: Peng et al., "YaRN", 2023; Ding et al., "LongRoPE", 2024.
double rope_magnitude(const RopeScaling& scaling);
/// Frequencies (radians per position) of each pair in fp64. Throws Error(invalid_argument) for odd or non-positive sizes.
std::vector<double> rope_frequencies(int rotary_dim, double base, const RopeScaling& scaling = {});
/// Fills cos and sin [max_position, rotary_dim / 2] (host, packed) from fp64 angles, times the magnitude.
void build_rope_table(float* cos, float* sin, int64_t max_position, int rotary_dim, double base, const RopeScaling& scaling = {});

}  // namespace monotile::ops
