#pragma once
// Mathematics from the chip's own instructions, without device libraries: exponential and logarithm to base 2, reciprocals. `Unit` gives
// them, so that the same formulas are tested on the host with a model of the instructions (tests/lang/hip_math_test.cpp has the bounds).
// Source of the instructions' errors (1 unit in the last place, denormal results flushed): "CDNA3 Instruction Set Architecture", v_exp_f32,
// v_log_f32, v_rcp_f32, v_rsq_f32.

#include <cstdint>

#include "monotile/lang/backend/target.hpp"

namespace monotile::hip {

template <class Unit>
struct mathematics {
  static MT_FN float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
  static MT_FN float copy_sign(float size, float sign) { return __builtin_copysignf(size, sign); }

  /// 2^x. Below -126 the result would be subnormal, which v_exp_f32 flushes: x is raised by 64 and the result scaled, so that subnormals come out.
  static MT_FN float exp2(float x) {
    const bool low = x < -126.0f;
    const float y = Unit::exp2(low ? x + 64.0f : x);
    return low ? y * 0x1p-64f : y;
  }
  /// e^x: x / ln 2 in two parts, since rounding it once would cost x / 2 units in the last place.
  static MT_FN float exp(float x) {
    constexpr float kHigh = 1.44269502f, kLow = 1.92596303e-8f;
    const float high = x * kHigh;
    const float low = fma(x, kLow, fma(x, kHigh, -high));
    const float whole = __builtin_rintf(high);
    const float y = exp2_scaled((high - whole) + low, whole);
    return x > 88.7228394f    ? __builtin_huge_valf()
           : x < -103.972084f ? 0.0f
                              : y;  // also at infinities, where `low` is NaN
  }
  /// 2^fraction * 2^whole for fractions about [-0.5, 0.5] and whole numbers from -150 to 128.
  static MT_FN float exp2_scaled(float fraction, float whole) {
    return __builtin_ldexpf(Unit::exp2(fraction), static_cast<int>(whole));
  }

  /// ln x: subnormals are scaled first, which v_log_f32 would take for 0.
  static MT_FN float log(float x) {
    const bool small = x < 0x1p-126f;
    const float l = Unit::log2(small ? x * 0x1p32f : x);
    constexpr float kHigh = 0.693147182f, kLow = -1.90465421e-9f;
    const float high = l * kHigh;
    float y = fma(l, kLow, fma(l, kHigh, -high)) + high;
    if (!(l < __builtin_huge_valf() && l > -__builtin_huge_valf())) y = l;  // 0, infinity, NaN
    return small ? y - 22.1807098f : y;
  }

  /// tanh: a polynomial near 0, where 1 - 2 / (e^2x + 1) would cancel.
  static MT_FN float tanh(float x) {
    const float a = __builtin_fabsf(x), x2 = x * x;
    if (a < 0.35f) {
      float p = fma(x2, 0.00886323553f, -0.0218694885f);
      p = fma(p, x2, 0.0539682540f);
      p = -fma(p, x2, -0.133333333f);
      p = fma(p, x2, -0.333333333f);
      return fma(p * x2, x, x);
    }
    const float e = exp(a + a);
    return copy_sign(1.0f - 2.0f * Unit::reciprocal(e + 1.0f), x + 0.0f * x);
  }

  /// erfc(x) with a small relative error also where it is tiny: t exp(-x^2 + p(t)), t = 1 / (1 + x / 2); p interpolates at ten Chebyshev nodes.
  static MT_FN float erfc(float x) {
    const float z = __builtin_fabsf(x), t = Unit::reciprocal(fma(z, 0.5f, 1.0f));
    float q = fma(t, 0.154572314f, -0.7327497713f);
    q = fma(q, t, 1.277319378f);
    q = fma(q, t, -0.8542826934f);
    q = fma(q, t, 4.807507904e-2f);
    q = fma(q, t, -6.549319066e-2f);
    q = fma(q, t, 5.675516336e-2f);
    q = fma(q, t, 0.3821351817f);
    q = fma(q, t, 0.9991407234f);
    q = fma(q, t, -1.265472129f);
    const float square = z * z;
    // The roundings of the square and of the exponent are given back as a factor 1 + error: the exponent goes to -81, where they are 4e-6.
    const float exponent = q - square, part = exponent - q;
    const float lost = ((q - (exponent - part)) - (square + part)) - fma(z, z, -square), y = t * exp(exponent);
    const float tail = z < 11.0f ? fma(lost, y, y) : z != z ? z : 0.0f;
    return x < 0.0f ? 2.0f - tail : tail;
  }
  /// erf(x): its series near 0, 1 - erfc beyond.
  static MT_FN float erf(float x) {
    const float a = __builtin_fabsf(x), x2 = x * x;
    if (a < 0.5f) {
      float p = fma(x2, 0.000120553329f, -0.000854832701f);
      p = fma(p, x2, 0.00522397762f);
      p = fma(p, x2, -0.0268661706f);
      p = fma(p, x2, 0.112837917f);
      p = fma(p, x2, -0.376126389f);
      p = fma(p, x2, 0.128379167f);
      return fma(p, x, x);
    }
    const float y = 1.0f - erfc(a);
    return x < 0.0f ? -y : y;
  }

  /// 1 / sqrt(x), with one step of Newton's method after the instruction; 0, infinities and NaN as it gives them.
  static MT_FN float recip_sqrt(float x) {
    const float y = Unit::reciprocal_root(x);
    const float e = fma(-x * y, y, 1.0f);
    const float better = fma(0.5f * y, e, y);
    return x > 0x1p-126f && x < __builtin_huge_valf() ? better : y;
  }
  /// a / b to 3 units in the last place; 0 where b is above 2^126.
  static MT_FN float divide(float a, float b) { return a * Unit::reciprocal(b); }
};

}  // namespace monotile::hip
