// Frequencies and tables, all in fp64: fp16 or bf16 angles are wrong by whole turns at positions in the thousands.

#include <algorithm>
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

/// YaRN: pairs that turn often within the original context are kept, those that turn seldom are stretched by `factor`, those between are blended along
/// the pair's index.
struct YarnRamp {
  double low, high;
  YarnRamp(int rotary_dim, double base, const RopeScaling& scaling) {
    const auto pair_of = [&](double turns) {
      return rotary_dim * std::log(scaling.original_context / (turns * 2.0 * std::numbers::pi)) /
             (2.0 * std::log(base));
    };
    low = std::max(std::floor(pair_of(scaling.beta_fast)), 0.0);
    high = std::min(std::ceil(pair_of(scaling.beta_slow)), static_cast<double>(rotary_dim - 1));
    if (low == high) high += 0.001;
  }
  double stretched(size_t pair) const { return std::clamp((static_cast<double>(pair) - low) / (high - low), 0.0, 1.0); }
};

/// Tokens that a table of a scaling by length is for.
double context_of(const RopeScaling& scaling) {
  return scaling.context > 0 ? scaling.context : scaling.original_context * scaling.factor;
}

/// The base of the NTK scalings: the longest wave stretched in full, the shortest kept.
double ntk_base(int rotary_dim, double base, double factor) {
  return base * std::pow(factor, rotary_dim / static_cast<double>(std::max(1, rotary_dim - 2)));
}

void check_scaling(const RopeScaling& scaling, double base) {
  using Kind = RopeScaling::Kind;
  const Kind kind = scaling.kind;
  if (kind != Kind::none) require_positive("factor", scaling.factor);
  if (kind == Kind::llama3 || kind == Kind::dynamic_ntk || kind == Kind::yarn || kind == Kind::longrope) {
    require_positive("original_context", scaling.original_context);
  }
  if (kind == Kind::llama3) {
    require_positive("low_freq_factor", scaling.low_freq_factor);
    if (!(scaling.high_freq_factor > scaling.low_freq_factor)) {
      refuse("high_freq_factor", std::to_string(scaling.high_freq_factor),
             "above low_freq_factor " + std::to_string(scaling.low_freq_factor));
    }
  }
  if ((kind == Kind::dynamic_ntk || kind == Kind::longrope) &&
      !(scaling.context >= 0 && std::isfinite(scaling.context))) {
    refuse("context", std::to_string(scaling.context), "0 or a number of tokens");
  }
  if (kind == Kind::yarn) {
    require_positive("beta_slow", scaling.beta_slow);
    if (!(scaling.beta_fast > scaling.beta_slow)) {
      refuse("beta_fast", std::to_string(scaling.beta_fast), "above beta_slow " + std::to_string(scaling.beta_slow));
    }
    if (!(base > 1.0)) refuse("base", std::to_string(base), "above 1 for yarn");
  }
}

void check_divisors(const char* argument, const std::vector<float>& divisors, size_t half) {
  if (!divisors.empty() && divisors.size() != half) {
    refuse(argument, std::to_string(divisors.size()) + " values", "none or " + std::to_string(half));
  }
  for (const float divisor : divisors) require_positive(argument, static_cast<double>(divisor));
}

}  // namespace

RopeScaling::Kind rope_scaling_kind(std::string_view name) {
  using Kind = RopeScaling::Kind;
  if (name.empty() || name == "default" || name == "none") return Kind::none;
  if (name == "linear") return Kind::linear;
  if (name == "ntk") return Kind::ntk;
  if (name == "dynamic") return Kind::dynamic_ntk;
  if (name == "llama3") return Kind::llama3;
  if (name == "yarn") return Kind::yarn;
  if (name == "longrope" || name == "su") return Kind::longrope;
  refuse("type", "'" + std::string(name) + "'", "default, linear, ntk, dynamic, llama3, yarn, longrope");
}

double rope_magnitude(const RopeScaling& scaling) {
  using Kind = RopeScaling::Kind;
  if (scaling.kind != Kind::yarn && scaling.kind != Kind::longrope) return 1.0;
  if (scaling.attention_factor != 0) {
    require_positive("attention_factor", scaling.attention_factor);
    return scaling.attention_factor;
  }
  require_positive("factor", scaling.factor);
  if (scaling.factor <= 1.0) return 1.0;
  if (scaling.kind == Kind::longrope) {
    if (!(scaling.original_context > 1.0))
      refuse("original_context", std::to_string(scaling.original_context), "above 1 for longrope");
    return std::sqrt(1.0 + std::log(scaling.factor) / std::log(scaling.original_context));
  }
  const auto g = [&](double m) { return 0.1 * m * std::log(scaling.factor) + 1.0; };
  return scaling.mscale != 0 && scaling.mscale_all_dim != 0 ? g(scaling.mscale) / g(scaling.mscale_all_dim) : g(1.0);
}

std::vector<double> rope_frequencies(int rotary_dim, double base, const RopeScaling& scaling) {
  using Kind = RopeScaling::Kind;
  if (rotary_dim < 2 || rotary_dim % 2 != 0) refuse("rotary_dim", std::to_string(rotary_dim), "even, 2 or more");
  require_positive("base", base);
  check_scaling(scaling, base);
  const size_t half = static_cast<size_t>(rotary_dim) / 2;
  check_divisors("frequency_divisors", scaling.frequency_divisors, half);
  check_divisors("long_divisors", scaling.long_divisors, half);
  const double context = context_of(scaling);
  if (scaling.kind == Kind::ntk) base = ntk_base(rotary_dim, base, scaling.factor);
  if (scaling.kind == Kind::dynamic_ntk && context > scaling.original_context) {
    base = ntk_base(rotary_dim, base, scaling.factor * context / scaling.original_context - (scaling.factor - 1.0));
  }
  const bool longer = scaling.kind == Kind::longrope && context > scaling.original_context;
  const std::vector<float>& divisors = longer ? scaling.long_divisors : scaling.frequency_divisors;
  std::vector<double> frequencies(half);
  for (size_t pair = 0; pair < half; ++pair) {
    double frequency = std::pow(base, -2.0 * static_cast<double>(pair) / rotary_dim);
    if (scaling.kind == Kind::linear) frequency /= scaling.factor;
    if (scaling.kind == Kind::llama3) frequency = llama3(frequency, scaling);
    if (scaling.kind == Kind::yarn) {
      const double stretched = YarnRamp(rotary_dim, base, scaling).stretched(pair);
      frequency = frequency / scaling.factor * stretched + frequency * (1.0 - stretched);
    }
    if (!divisors.empty()) frequency /= static_cast<double>(divisors[pair]);
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
  const double magnitude = rope_magnitude(scaling);
  for (int64_t position = 0; position < max_position; ++position) {
    for (const double frequency : frequencies) {
      const double angle = static_cast<double>(position) * frequency;
      *cos++ = static_cast<float>(std::cos(angle) * magnitude);
      *sin++ = static_cast<float>(std::sin(angle) * magnitude);
    }
  }
}

}  // namespace monotile::ops
