// Frequencies and tables, all in fp64: fp16 or bf16 angles are wrong by whole turns at positions in the thousands.

#include <cmath>
#include <numbers>
#include <string>

#include "monotile/ops/rope.hpp"

namespace monotile::ops {

namespace {

[[noreturn]] void refuse(const std::string& argument, const std::string& given, const std::string& allowed) {
  throw Error(ErrorCode::invalid_argument, "rope table: " + argument + ": " + given + "; allowed: " + allowed);
}

void require_positive(const char* argument, double value) {
  if (!(value > 0.0) || !std::isfinite(value)) refuse(argument, std::to_string(value), "finite, above 0");
}

/// Llama 3: long waves are stretched by `factor`, short ones kept, those between blended linearly in context /
/// wavelength.
double llama3(double frequency, const RopeScaling& scaling) {
  const double turns =
      scaling.original_context * frequency / (2.0 * std::numbers::pi);  // full turns within the original context
  if (turns > scaling.high_freq_factor) return frequency;
  if (turns < scaling.low_freq_factor) return frequency / scaling.factor;
  const double keep = (turns - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor);
  return (1.0 - keep) * frequency / scaling.factor + keep * frequency;
}

}  // namespace

std::vector<double> rope_frequencies(int rotary_dim, double base, const RopeScaling& scaling) {
  if (rotary_dim < 2 || rotary_dim % 2 != 0) refuse("rotary_dim", std::to_string(rotary_dim), "even, 2 or more");
  require_positive("base", base);
  if (scaling.kind != RopeScaling::Kind::none) require_positive("factor", scaling.factor);
  if (scaling.kind == RopeScaling::Kind::llama3) {
    require_positive("original_context", scaling.original_context);
    require_positive("low_freq_factor", scaling.low_freq_factor);
    if (!(scaling.high_freq_factor > scaling.low_freq_factor)) {
      refuse("high_freq_factor", std::to_string(scaling.high_freq_factor),
             "above low_freq_factor " + std::to_string(scaling.low_freq_factor));
    }
  }
  const size_t half = static_cast<size_t>(rotary_dim) / 2;
  if (!scaling.frequency_divisors.empty() && scaling.frequency_divisors.size() != half) {
    refuse("frequency_divisors", std::to_string(scaling.frequency_divisors.size()) + " values",
           "none or " + std::to_string(half));
  }
  std::vector<double> frequencies(half);
  for (size_t pair = 0; pair < half; ++pair) {
    double frequency = std::pow(base, -2.0 * static_cast<double>(pair) / rotary_dim);
    if (scaling.kind == RopeScaling::Kind::linear) frequency /= scaling.factor;
    if (scaling.kind == RopeScaling::Kind::llama3) frequency = llama3(frequency, scaling);
    if (!scaling.frequency_divisors.empty()) {
      const double divisor = static_cast<double>(scaling.frequency_divisors[pair]);
      require_positive("frequency_divisors", divisor);
      frequency /= divisor;
    }
    frequencies[pair] = frequency;
  }
  return frequencies;
}

void build_rope_table(float* cos, float* sin, int64_t max_position, int rotary_dim, double base,
                      const RopeScaling& scaling) {
  if (max_position < 0) refuse("max_position", std::to_string(max_position), "0 or more");
  if (max_position > 0 && (cos == nullptr || sin == nullptr))
    refuse("cos, sin", "null pointer", "host memory of max_position x rotary_dim / 2 floats");
  const std::vector<double> frequencies = rope_frequencies(rotary_dim, base, scaling);
  for (int64_t position = 0; position < max_position; ++position) {
    for (const double frequency : frequencies) {
      const double angle = static_cast<double>(position) * frequency;
      *cos++ = static_cast<float>(std::cos(angle));
      *sin++ = static_cast<float>(std::sin(angle));
    }
  }
}

}  // namespace monotile::ops
