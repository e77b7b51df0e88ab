#pragma once
// Host-side conversions between fp32 and the storage types: round to nearest even, NaN stays NaN, subnormals kept. 8-bit types saturate, infinities
// too; a NaN has no int8 code and gives 0.

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

/// Shared by both 8-bit floats: `Fraction` stored fraction bits, exponent bias `Bias`.
template <int Fraction, int Bias>
constexpr float small_to_float(uint8_t bits) {
  const uint32_t sign = (bits & 0x80u) << 24, magnitude = bits & 0x7fu;
  if (magnitude >> Fraction != 0) return std::bit_cast<float>(sign | ((magnitude << (23 - Fraction)) + ((127u - Bias) << 23)));
  const float step = std::bit_cast<float>((128u - Bias - Fraction) << 23);  // of subnormals
  return static_cast<float>(magnitude) * (sign != 0 ? -step : step);
}
template <int Fraction, int Bias>
constexpr uint8_t small_from_float(float v, uint8_t largest) {
  constexpr int kShift = 23 - Fraction;
  const uint32_t u = std::bit_cast<uint32_t>(v), sign = (u >> 24) & 0x80u, a = u & 0x7fffffffu;
  if (a > 0x7f800000u) return 0x7f;
  if (a < (128u - Bias) << 23) {  // below the smallest normal number: an exact fp32 addition rounds
    constexpr uint32_t kAnchor = (128u - Bias - Fraction + 23) << 23;
    return static_cast<uint8_t>(sign | (std::bit_cast<uint32_t>(std::bit_cast<float>(a) + std::bit_cast<float>(kAnchor)) - kAnchor));
  }
  const uint32_t rounded = (a + ((1u << (kShift - 1)) - 1u) + ((a >> kShift) & 1u) - ((127u - Bias) << 23)) >> kShift;
  return static_cast<uint8_t>(sign | (rounded < largest ? rounded : largest));
}

constexpr float to_float(e4m3_t v) {
  return (v.bits & 0x7fu) == 0x7fu ? std::bit_cast<float>(0x7fc00000u) : small_to_float<3, 7>(v.bits);
}
constexpr float to_float(e5m2_t v) {
  const uint32_t magnitude = v.bits & 0x7fu;
  if (magnitude < 0x7cu) return small_to_float<2, 15>(v.bits);
  return std::bit_cast<float>((v.bits & 0x80u) << 24 | (magnitude == 0x7cu ? 0x7f800000u : 0x7fc00000u));
}

template <class T>
constexpr T from_float(float v);

template <>
constexpr e4m3_t from_float<e4m3_t>(float v) {
  return {small_from_float<3, 7>(v, 0x7e)};
}
template <>
constexpr e5m2_t from_float<e5m2_t>(float v) {
  return {small_from_float<2, 15>(v, 0x7b)};
}
template <>
constexpr int8_t from_float<int8_t>(float v) {
  if (!(v == v)) return 0;
  const float inside = v < -128.0f ? -128.0f : v > 127.0f ? 127.0f : v;
  return static_cast<int8_t>((inside + 12582912.0f) - 12582912.0f);  // 1.5 * 2^23: rounds to the nearest integer, ties to even
}

template <>
constexpr uint8_t from_float<uint8_t>(float v) {  // whole numbers from 0 to 255
  return static_cast<uint8_t>(static_cast<int32_t>(v));
}
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
