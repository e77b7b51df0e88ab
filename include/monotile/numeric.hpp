#pragma once
// Host-side conversions between fp32 and the 16-bit storage types: round to nearest even, NaN stays NaN, subnormals kept.

#include <bit>
#include <cstdint>

#include "monotile/dtype.hpp"

namespace monotile {

constexpr float to_float(float v) { return v; }

constexpr float to_float(bfloat16_t v) { return std::bit_cast<float>(static_cast<uint32_t>(v.bits) << 16); }

constexpr float to_float(half_t v) {
  const uint32_t sign = static_cast<uint32_t>(v.bits & 0x8000u) << 16;
  const uint32_t exponent = (v.bits >> 10) & 31u, mantissa = v.bits & 0x3ffu;
  if (exponent == 31u) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent != 0u) return std::bit_cast<float>(sign | ((exponent + 112u) << 23) | (mantissa << 13));
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;  // subnormal: exact
  return sign != 0u ? -magnitude : magnitude;
}

template <class T>
constexpr T from_float(float v);

template <>
constexpr float from_float<float>(float v) {
  return v;
}

template <>
constexpr bfloat16_t from_float<bfloat16_t>(float v) {
  const uint32_t u = std::bit_cast<uint32_t>(v);
  if ((u & 0x7fffffffu) > 0x7f800000u) return {static_cast<uint16_t>((u >> 16) | 0x40u)};
  return {static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16)};
}

template <>
constexpr half_t from_float<half_t>(float v) {
  const uint32_t u = std::bit_cast<uint32_t>(v), sign = (u >> 16) & 0x8000u, a = u & 0x7fffffffu;
  if (a > 0x7f800000u) return {static_cast<uint16_t>(sign | 0x7e00u | ((a >> 13) & 0x3ffu))};
  if (a >= 0x477ff000u) return {static_cast<uint16_t>(sign | 0x7c00u)};  // 65520 and above round to infinity
  if (a < 0x38800000u) {                                               // below 2^-14: subnormal, exact fp32 addition rounds
    const float shifted = std::bit_cast<float>(a) + 0.5f;              // ulp of 0.5 is 2^-24, the subnormal step of fp16
    return {static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000u))};
  }
  const uint32_t rounded = a + 0xfffu + ((a >> 13) & 1u);
  return {static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13))};
}

}  // namespace monotile
