#pragma once
// Packs of fp32 (or int32, or masks) on CPU: compiler vector types of 8, so the same text serves AVX2 and plain builds.

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#if defined(__F16C__)
#include <immintrin.h>
#endif

#include "monotile/lang/backend/conversions.hpp"
#include "monotile/lang/reduction.hpp"
#include "monotile/numeric.hpp"
#include "monotile/random.hpp"

namespace monotile::lang::inline MONOTILE_TARGET_NAME {

typedef float float8 __attribute__((vector_size(32)));
typedef int32_t int8x32 __attribute__((vector_size(32)));
typedef uint32_t uint8x32 __attribute__((vector_size(32)));
typedef uint16_t ushort8 __attribute__((vector_size(16)));
typedef uint8_t uchar8 __attribute__((vector_size(8)));

template <int N>
struct mask_pack {
  int8x32 part[N / 8];  // all ones or zero
};
template <int N>
struct int_pack {
  int8x32 part[N / 8];
};
template <int N>
struct pack {
  static constexpr int width = N;
  float8 part[N / 8];
  pack() = default;
  MT_FN pack(float v) {  // NOLINT: scalars take part in expressions as themselves
    for (int i = 0; i < N / 8; ++i) part[i] = v - float8{};  // -0 stays
  }
};
template <int N>
struct sums_pack {
  pack<N> first;
  pack<N> second;
};
template <int N>
MT_FN sums_pack<N> operator+(const sums_pack<N>& a, const sums_pack<N>& b);
template <int N>
struct indexed_pack {
  pack<N> value;
  int_pack<N> index;
};

#define MT_PACK_OPERATOR(op)                                                     \
  template <int N>                                                               \
  MT_FN pack<N> operator op(const pack<N>& a, const pack<N>& b) {                \
    pack<N> r;                                                                   \
    for (int i = 0; i < N / 8; ++i) r.part[i] = a.part[i] op b.part[i];          \
    return r;                                                                    \
  }                                                                              \
  template <int N>                                                               \
  MT_FN pack<N> operator op(const pack<N>& a, float b) { return a op pack<N>(b); } \
  template <int N>                                                               \
  MT_FN pack<N> operator op(float a, const pack<N>& b) { return pack<N>(a) op b; }
MT_PACK_OPERATOR(+)
MT_PACK_OPERATOR(-)
MT_PACK_OPERATOR(*)
MT_PACK_OPERATOR(/)
#undef MT_PACK_OPERATOR
template <int N>
MT_FN pack<N> operator-(const pack<N>& a) {
  pack<N> r;
  for (int i = 0; i < N / 8; ++i) r.part[i] = -a.part[i];
  return r;
}
#define MT_PACK_COMPARE(op)                                                           \
  template <int N>                                                                    \
  MT_FN mask_pack<N> operator op(const pack<N>& a, const pack<N>& b) {                \
    mask_pack<N> r;                                                                   \
    for (int i = 0; i < N / 8; ++i) r.part[i] = a.part[i] op b.part[i];               \
    return r;                                                                         \
  }                                                                                   \
  template <int N>                                                                    \
  MT_FN mask_pack<N> operator op(const pack<N>& a, float b) { return a op pack<N>(b); } \
  template <int N>                                                                    \
  MT_FN mask_pack<N> operator op(const int_pack<N>& a, int32_t b) {                   \
    mask_pack<N> r;                                                                   \
    for (int i = 0; i < N / 8; ++i) r.part[i] = a.part[i] op(int8x32{} + b);          \
    return r;                                                                         \
  }
MT_PACK_COMPARE(<)
MT_PACK_COMPARE(>)
MT_PACK_COMPARE(<=)
MT_PACK_COMPARE(>=)
MT_PACK_COMPARE(==)
MT_PACK_COMPARE(!=)
#undef MT_PACK_COMPARE
template <int N>
MT_FN mask_pack<N> operator&(const mask_pack<N>& a, const mask_pack<N>& b) {
  mask_pack<N> r;
  for (int i = 0; i < N / 8; ++i) r.part[i] = a.part[i] & b.part[i];
  return r;
}
template <int N>
MT_FN mask_pack<N> operator|(const mask_pack<N>& a, const mask_pack<N>& b) {
  mask_pack<N> r;
  for (int i = 0; i < N / 8; ++i) r.part[i] = a.part[i] | b.part[i];
  return r;
}
template <int N>
MT_FN bool any_of(const mask_pack<N>& m) {
#if defined(__AVX2__)
  int8x32 all = m.part[0];
  for (int i = 1; i < N / 8; ++i) all |= m.part[i];
  return _mm256_movemask_ps(reinterpret_cast<__m256>(all)) != 0;
#else
  uint64_t words[N / 2], any = 0;
  std::memcpy(words, m.part, sizeof words);
  for (const uint64_t word : words) any |= word;
  return any != 0;
#endif
}
template <int N>
MT_FN pack<N> select(const mask_pack<N>& m, const pack<N>& a, const pack<N>& b) {
  pack<N> r;
  for (int i = 0; i < N / 8; ++i) r.part[i] = m.part[i] ? a.part[i] : b.part[i];
  return r;
}
template <int N>
MT_FN pack<N> select(const mask_pack<N>& m, float a, const pack<N>& b) { return select(m, pack<N>(a), b); }
template <int N>
MT_FN pack<N> select(const mask_pack<N>& m, const pack<N>& a, float b) { return select(m, a, pack<N>(b)); }
template <int N>
MT_FN int_pack<N> select(const mask_pack<N>& m, const int_pack<N>& a, const int_pack<N>& b) {
  int_pack<N> r;
  for (int i = 0; i < N / 8; ++i) r.part[i] = m.part[i] ? a.part[i] : b.part[i];
  return r;
}
template <int N>
MT_FN pack<N> select(const mask_pack<N>& m, float a, float b) { return select(m, pack<N>(a), pack<N>(b)); }
template <int N>
MT_FN int_pack<N> select(const mask_pack<N>& m, int32_t a, const int_pack<N>& b) {
  int_pack<N> r;
  for (int i = 0; i < N / 8; ++i) r.part[i] = m.part[i] ? int8x32{} + a : b.part[i];
  return r;
}
template <int N>
MT_FN sums_pack<N> operator+(const sums_pack<N>& a, const sums_pack<N>& b) { return {a.first + b.first, a.second + b.second}; }
template <int N>
MT_FN mask_pack<N> is_nan(const pack<N>& v) { return v != v; }
template <int N>
MT_FN pack<N> select(bool condition, float a, const pack<N>& b) { return condition ? pack<N>(a) : b; }
#if defined(__AVX2__)
// Spelled out: as comparisons and selections each would be four operations instead of one.
template <int N>
MT_FN pack<N> max_of(const pack<N>& a, const pack<N>& b) {
  pack<N> r;
  for (int i = 0; i < N / 8; ++i)
    r.part[i] = reinterpret_cast<float8>(
        _mm256_max_ps(reinterpret_cast<__m256>(a.part[i]), reinterpret_cast<__m256>(b.part[i])));
  return r;
}
template <int N>
MT_FN pack<N> min_of(const pack<N>& a, const pack<N>& b) {
  pack<N> r;
  for (int i = 0; i < N / 8; ++i)
    r.part[i] = reinterpret_cast<float8>(
        _mm256_min_ps(reinterpret_cast<__m256>(a.part[i]), reinterpret_cast<__m256>(b.part[i])));
  return r;
}
template <int N>
MT_FN pack<N> abs_of(const pack<N>& a) {
  pack<N> r;
  for (int i = 0; i < N / 8; ++i)
    r.part[i] = reinterpret_cast<float8>(reinterpret_cast<int8x32>(a.part[i]) & 0x7fffffff);
  return r;
}
#else
template <int N>
MT_FN pack<N> max_of(const pack<N>& a, const pack<N>& b) {
  return select(a > b, a, b);
}
template <int N>
MT_FN pack<N> min_of(const pack<N>& a, const pack<N>& b) {
  return select(a < b, a, b);
}
template <int N>
MT_FN pack<N> abs_of(const pack<N>& a) { return select(a < 0.0f, -a, a); }
#endif
template <int N>
MT_FN pack<N> max_of(const pack<N>& a, float b) {
  return max_of(a, pack<N>(b));
}
template <int N>
MT_FN pack<N> min_of(const pack<N>& a, float b) {
  return min_of(a, pack<N>(b));
}
/// To the nearest integer, ties to even; |a| below 2^22.
template <int N>
MT_FN pack<N> round_even(const pack<N>& a) {
#if defined(__AVX2__)
  pack<N> r;  // spelled out: with a product before it the addition below would become one rounding of both
  for (int i = 0; i < N / 8; ++i) {
    r.part[i] = reinterpret_cast<float8>(_mm256_round_ps(reinterpret_cast<__m256>(a.part[i]), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
  return r;
#else
  return (a + 12582912.0f) - 12582912.0f;
#endif
}
template <int N>
MT_FN pack<N> fma_of(const pack<N>& a, const pack<N>& b, const pack<N>& c) {
#if defined(__FMA__)
  pack<N> r;  // spelled out: the compiler may fuse another product, and which one decides the last bit
  for (int i = 0; i < N / 8; ++i) {
    r.part[i] = reinterpret_cast<float8>(_mm256_fmadd_ps(reinterpret_cast<__m256>(a.part[i]), reinterpret_cast<__m256>(b.part[i]), reinterpret_cast<__m256>(c.part[i])));
  }
  return r;
#else
  return a * b + c;
#endif
}
template <int N>
MT_FN pack<N> sqrt_of(const pack<N>& a) {
  pack<N> r;
  for (int i = 0; i < N / 8; ++i) {
    for (int j = 0; j < 8; ++j) r.part[i][j] = __builtin_sqrtf(a.part[i][j]);
  }
  return r;
}
template <int N>
MT_FN pack<N> recip_sqrt(const pack<N>& a) { return 1.0f / sqrt_of(a); }

#if defined(__AVX2__)
MT_FN __m256 all_of(float v) { return _mm256_set1_ps(v); }
/// q * 2^(n - 1) with n in the low bits of `shifted`, from -126, where it is 0, to 128. Whoever doubles q has q * 2^n, beyond the largest number too.
MT_FN float8 half_power(__m256 q, __m256 shifted) {
  const __m256i scale =
      _mm256_add_epi32(_mm256_slli_epi32(_mm256_castps_si256(shifted), 23), _mm256_set1_epi32(126 << 23));
  return reinterpret_cast<float8>(_mm256_mul_ps(q, _mm256_castsi256_ps(scale)));
}
/// e^x to about 2 units in the last place; underflows to 0 below -86.9, NaN stays.
template <int N>
MT_FN pack<N> fast_exp(const pack<N>& x) {
  pack<N> r;
  for (int i = 0; i < N / 8; ++i) {
    const __m256 v = reinterpret_cast<__m256>(x.part[i]),
                 magic = all_of(12582912.0f);  // 1.5 * 2^23: rounds to the nearest integer
    const __m256 t =
        _mm256_min_ps(all_of(89.0f), _mm256_max_ps(all_of(-87.3365f), v));  // of two operands NaN wins as the second
    const __m256 shifted = _mm256_fmadd_ps(t, all_of(1.44269504f), magic), n = _mm256_sub_ps(shifted, magic);
    const __m256 f = _mm256_fnmadd_ps(n, all_of(1.42860677e-6f), _mm256_fnmadd_ps(n, all_of(0.693145752f), t));
    __m256 q = _mm256_fmadd_ps(f, all_of(2.0f / 720), all_of(2.0f / 120));
    q = _mm256_fmadd_ps(q, f, all_of(2.0f / 24));
    q = _mm256_fmadd_ps(q, f, all_of(2.0f / 6));
    q = _mm256_fmadd_ps(q, f, all_of(1.0f));
    q = _mm256_fmadd_ps(q, f, all_of(2.0f));
    q = _mm256_fmadd_ps(q, f, all_of(2.0f));
    r.part[i] = half_power(q, shifted);
  }
  return r;
}
/// 2^x to about 2 units in the last place; underflows to 0 below -125.5, NaN stays.
template <int N>
MT_FN pack<N> fast_exp2(const pack<N>& x) {
  pack<N> r;
  for (int i = 0; i < N / 8; ++i) {
    const __m256 v = reinterpret_cast<__m256>(x.part[i]), magic = all_of(12582912.0f);
    const __m256 t = _mm256_min_ps(all_of(128.0f), _mm256_max_ps(all_of(-126.0f), v));
    const __m256 shifted = _mm256_add_ps(t, magic), f = _mm256_sub_ps(t, _mm256_sub_ps(shifted, magic));
    // Interpolation of 2^f at Chebyshev nodes: relative error 2.6e-9. Doubled.
    __m256 q = _mm256_fmadd_ps(f, all_of(2 * 1.54614447e-4f), all_of(2 * 1.340042818e-3f));
    q = _mm256_fmadd_ps(q, f, all_of(2 * 9.618056679e-3f));
    q = _mm256_fmadd_ps(q, f, all_of(2 * 5.550327227e-2f));
    q = _mm256_fmadd_ps(q, f, all_of(2 * 0.2402265092f));
    q = _mm256_fmadd_ps(q, f, all_of(2 * 0.6931472067f));
    q = _mm256_fmadd_ps(q, f, all_of(2.0f));
    r.part[i] = half_power(q, shifted);
  }
  return r;
}
#else
/// v * 2^n for whole n from -126 to 128; in two steps, so that 128 works.
MT_FN float8 times_two_to_the(float8 v, float8 n) {
  const int8x32 exponent = __builtin_convertvector(n, int8x32);
  const int8x32 half = exponent >> 1;
  float8 s1, s2;
  const int8x32 b1 = (half + 127) << 23, b2 = (exponent - half + 127) << 23;
  std::memcpy(&s1, &b1, 32);
  std::memcpy(&s2, &b2, 32);
  return v * s1 * s2;
}

/// e^x to about 2 units in the last place; underflows to 0 below -87.3, NaN stays.
template <int N>
MT_FN pack<N> fast_exp(const pack<N>& x) {
  pack<N> r;
  for (int i = 0; i < N / 8; ++i) {
    const float8 v = x.part[i];
    float8 t = v > 88.7228f ? float8{} + 88.7228f : v;
    t = t < -87.3365f ? float8{} - 87.3365f : t;
    const float8 shifted = t * 1.44269504f + 12582912.0f;  // 1.5 * 2^23: rounds to the nearest integer
    const float8 n = shifted - 12582912.0f;
    const float8 f = (t - n * 0.693145752f) - n * 1.42860677e-6f;
    float8 q = f * (1.0f / 720) + (1.0f / 120);
    q = q * f + (1.0f / 24);
    q = q * f + (1.0f / 6);
    q = q * f + 0.5f;
    q = q * f + 1.0f;
    q = q * f + 1.0f;
    q = times_two_to_the(q, n);
    q = v < -87.3365f ? float8{} : q;
    q = v > 88.7228f ? float8{} + kInfinity : q;
    r.part[i] = v != v ? v : q;
  }
  return r;
}
/// 2^x to about 2 units in the last place; underflows to 0 below -126, NaN stays.
template <int N>
MT_FN pack<N> fast_exp2(const pack<N>& x) {
  pack<N> r;
  for (int i = 0; i < N / 8; ++i) {
    const float8 v = x.part[i];
    float8 t = v > 128.0f ? float8{} + 128.0f : v;
    t = t < -126.0f ? float8{} - 126.0f : t;
    const float8 n = (t + 12582912.0f) - 12582912.0f;  // 1.5 * 2^23: rounds to the nearest integer
    const float8 f = t - n;
    // Interpolation of 2^f at Chebyshev nodes: relative error 2.6e-9.
    float8 q = f * 1.54614447e-4f + 1.340042818e-3f;
    q = q * f + 9.618056679e-3f;
    q = q * f + 5.550327227e-2f;
    q = q * f + 0.2402265092f;
    q = q * f + 0.6931472067f;
    q = q * f + 1.0f;
    q = times_two_to_the(q, n);
    q = v < -126.0f ? float8{} : q;
    r.part[i] = v != v ? v : q;
  }
  return r;
}
#endif
template <int N>
MT_FN pack<N> fast_divide(const pack<N>& a, const pack<N>& b) { return a / b; }
template <int N>
MT_FN pack<N> fast_tanh(const pack<N>& x) {
  const pack<N> a = abs_of(x), x2 = x * x;
  const pack<N> small = x * (1.0f + x2 * (-0.333333333f + x2 * (0.133333333f + x2 * (-0.0539682540f + x2 * 0.0218694885f))));
  const pack<N> big = 1.0f - 2.0f / (fast_exp(a * 2.0f) + 1.0f);
  const pack<N> signed_big = select(x < 0.0f, -big, big);
  return select(a < 0.2f, small, signed_big);
}
template <int N>
MT_FN pack<N> near_tanh(const pack<N>& x) {
  return fast_tanh(x);
}
/// Abramowitz and Stegun 7.1.26: absolute error under 2e-7.
template <int N>
MT_FN pack<N> erf_of(const pack<N>& x) {
  const pack<N> a = abs_of(x), t = 1.0f / (1.0f + a * 0.3275911f);
  const pack<N> p = t * (0.254829592f + t * (-0.284496736f + t * (1.421413741f + t * (-1.453152027f + t * 1.061405429f))));
  const pack<N> y = 1.0f - p * fast_exp(-(a * a));
  return select(x < 0.0f, -y, y);
}

/// erfc to a relative error of about 1e-6 (the rounding of the square in the exponent), so that GELU keeps its digits at the negative end.
/// t exp(-z^2 + p(t)) with t = 1 / (1 + z / 2); p interpolates at the ten Chebyshev nodes of [1 / 6.4, 1].
template <int N>
MT_FN pack<N> erfc_of(const pack<N>& x) {
  const pack<N> z = abs_of(x), t = 1.0f / (1.0f + z * 0.5f);
  pack<N> q = t * 0.154572314f + -0.7327497713f;
  q = q * t + 1.277319378f;
  q = q * t + -0.8542826934f;
  q = q * t + 4.807507904e-2f;
  q = q * t + -6.549319066e-2f;
  q = q * t + 5.675516336e-2f;
  q = q * t + 0.3821351817f;
  q = q * t + 0.9991407234f;
  q = q * t + -1.265472129f;
  const pack<N> y = t * fast_exp(q - z * z);
  return select(x < 0.0f, 2.0f - y, y);
}

// Scalars, for row values.
MT_FN float recip_sqrt(float v) { return 1.0f / std::sqrt(v); }
MT_FN float fast_exp(float v) { return std::exp(v); }
MT_FN float fast_exp2(float v) { return std::exp2(v); }
MT_FN float fast_log(float v) { return std::log(v); }
MT_FN float fast_tanh(float v) { return std::tanh(v); }
MT_FN float near_tanh(float v) { return std::tanh(v); }
MT_FN float erf_of(float v) { return std::erf(v); }
MT_FN float erfc_of(float v) { return std::erfc(v); }
MT_FN float fast_divide(float a, float b) { return a / b; }
MT_FN float fma_of(float a, float b, float c) { return std::fma(a, b, c); }
MT_FN float max_of(float a, float b) { return a > b ? a : b; }
MT_FN float min_of(float a, float b) { return a < b ? a : b; }
MT_FN float abs_of(float a) { return std::fabs(a); }
MT_FN float round_even(float a) { return std::nearbyint(a); }
template <class T>
  requires std::is_arithmetic_v<T>
MT_FN T select(bool condition, T a, T b) { return condition ? a : b; }
MT_FN bool is_nan(float v) { return v != v; }

// --- random draws ------------------------------------------------------------------------------------------------------------------
/// 1 - u of the random draws for `tokens`, to 31 bits, rounded down.
MT_FN pack<8> random_tail(uint64_t seed, int64_t position, random::Purpose purpose, const int_pack<8>& tokens) {
  pack<8> r;
#if defined(__AVX2__)
  // Philox4x32-10 of eight counters side by side: products of even and of odd lanes.
  const auto multiply = [](__m256i a, uint32_t by, __m256i& low, __m256i& high) {
    const __m256i factor = _mm256_set1_epi32(static_cast<int>(by));
    const __m256i even = _mm256_mul_epu32(a, factor), odd = _mm256_mul_epu32(_mm256_srli_epi64(a, 32), factor);
    low = _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xaa);
    high = _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xaa);
  };
  const auto all = [](uint32_t v) { return _mm256_set1_epi32(static_cast<int>(v)); };
  __m256i w0 = all(static_cast<uint32_t>(position)), w1 = all(static_cast<uint32_t>(static_cast<uint64_t>(position) >> 32));
  __m256i w2 = all(static_cast<uint32_t>(purpose)), w3;
  std::memcpy(&w3, tokens.part, 32);
  uint32_t k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    __m256i low0, high0, low1, high1;
    multiply(w0, 0xD2511F53u, low0, high0);
    multiply(w2, 0xCD9E8D57u, low1, high1);
    w0 = _mm256_xor_si256(_mm256_xor_si256(high1, w1), all(k0));
    w2 = _mm256_xor_si256(_mm256_xor_si256(high0, w3), all(k1));
    w1 = low1;
    w3 = low0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  const __m256 tail = _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_srli_epi32(_mm256_xor_si256(w0, all(~0u)), 1)), _mm256_set1_ps(0x1p-31f));
  std::memcpy(r.part, &tail, 32);
#else
  for (int i = 0; i < 8; ++i) {
    const uint32_t bits = random::bits(seed, position, purpose, static_cast<uint32_t>(tokens.part[0][i]));
    r.part[0][i] = static_cast<float>(static_cast<int32_t>(~bits >> 1)) * 0x1p-31f;
  }
#endif
  return r;
}

// --- memory ------------------------------------------------------------------------------------------------------------------------
MT_FN float8 load8(const float* p) {
  float8 v;
  std::memcpy(&v, p, 32);
  return v;
}
MT_FN float8 load8(const bfloat16_t* p) {
#if defined(__AVX2__)
  const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  return reinterpret_cast<float8>(_mm256_slli_epi32(wide, 16));
#else
  ushort8 u;
  std::memcpy(&u, p, 16);
  const int8x32 w = __builtin_convertvector(u, int8x32) << 16;
  float8 v;
  std::memcpy(&v, &w, 32);
  return v;
#endif
}
MT_FN float8 load8(const half_t* p) {
#if defined(__F16C__)
  return reinterpret_cast<float8>(_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
#else
  ushort8 u;
  std::memcpy(&u, p, 16);
  const int8x32 bits = __builtin_convertvector(u, int8x32), magnitude = bits & 0x7fff;
  const float8 small = __builtin_convertvector(magnitude, float8) * 0x1p-24f;  // subnormals: exact
  int8x32 small_bits;
  std::memcpy(&small_bits, &small, 32);
  int8x32 w = (magnitude << 13) + (112 << 23);
  w = magnitude >= 0x7c00 ? w + (112 << 23) : w;  // infinities and NaN
  w = (magnitude < 0x400 ? small_bits : w) | (bits & 0x8000) << 16;
  float8 v;
  std::memcpy(&v, &w, 32);
  return v;
#endif
}
/// Bits of 8-bit floats to fp32 and back: `Fraction` stored fraction bits, exponent bias `Bias`, NaN from code `kNan` on.
template <int Fraction, int Bias>
MT_FN float8 widen_small(const uint8_t* p, int first_special) {
  uchar8 u;
  std::memcpy(&u, p, 8);
  const int8x32 bits = __builtin_convertvector(u, int8x32), magnitude = bits & 0x7f;
  const float8 small = __builtin_convertvector(magnitude, float8) * (1.0f / static_cast<float>(1 << (Bias + Fraction - 1)));
  int8x32 small_bits;
  std::memcpy(&small_bits, &small, 32);
  int8x32 w = (magnitude << (23 - Fraction)) + ((127 - Bias) << 23);
  w = magnitude >= first_special ? (magnitude == 0x7c ? int8x32{} + 0x7f800000 : int8x32{} + 0x7fc00000) : w;
  w = (magnitude < (1 << Fraction) ? small_bits : w) | (bits & 0x80) << 24;
  float8 v;
  std::memcpy(&v, &w, 32);
  return v;
}
template <int Fraction, int Bias>
MT_FN void narrow_small(uint8_t* p, float8 v, int largest) {
  constexpr int kShift = 23 - Fraction, kAnchor = (128 - Bias - Fraction + 23) << 23;
  int8x32 u;
  std::memcpy(&u, &v, 32);
  const int8x32 sign = (u >> 24) & 0x80, a = u & 0x7fffffff;
  float8 size, anchor;
  const int8x32 anchor_bits = int8x32{} + kAnchor;
  std::memcpy(&size, &a, 32);
  std::memcpy(&anchor, &anchor_bits, 32);
  const float8 shifted = size + anchor;
  int8x32 small;
  std::memcpy(&small, &shifted, 32);
  const uint8x32 w = reinterpret_cast<uint8x32>(a);  // unsigned: a NaN's bits may wrap, before they are thrown away
  int8x32 r = reinterpret_cast<int8x32>(w - ((127u - Bias) << 23) + ((1u << (kShift - 1)) - 1) + ((w >> kShift) & 1)) >> kShift;
  r = r < largest ? r : int8x32{} + largest;
  r = a < ((128 - Bias) << 23) ? small - kAnchor : r;
  r = (a > 0x7f800000) ? int8x32{} + 0x7f : r | sign;
  const uchar8 s = __builtin_convertvector(r, uchar8);
  std::memcpy(p, &s, 8);
}
#if defined(__AVX2__)
// By way of fp16, whose conversion knows subnormal numbers: e5m2 is its upper half, e4m3 has the exponent eight lower.
MT_FN float8 load8(const e4m3_t* p) {
  const __m128i code = _mm_cvtepi8_epi16(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
  const __m128i bits = _mm_and_si128(_mm_slli_epi16(code, 7), _mm_set1_epi16(static_cast<short>(0xbf80)));
  const __m128i nan = _mm_cmpgt_epi16(_mm_and_si128(bits, _mm_set1_epi16(0x3f80)), _mm_set1_epi16(0x3f00));
  const __m256 small = _mm256_cvtph_ps(_mm_or_si128(bits, _mm_and_si128(nan, _mm_set1_epi16(0x7e00))));
  return reinterpret_cast<float8>(_mm256_mul_ps(small, _mm256_set1_ps(256.0f)));
}
MT_FN float8 load8(const e5m2_t* p) {
  const __m128i code = _mm_cvtepu8_epi16(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
  return reinterpret_cast<float8>(_mm256_cvtph_ps(_mm_slli_epi16(code, 8)));
}
#else
MT_FN float8 load8(const e4m3_t* p) { return widen_small<3, 7>(&p->bits, 0x7f); }
MT_FN float8 load8(const e5m2_t* p) { return widen_small<2, 15>(&p->bits, 0x7c); }
#endif
MT_FN void store8(e4m3_t* p, float8 v) { narrow_small<3, 7>(&p->bits, v, 0x7e); }
MT_FN void store8(e5m2_t* p, float8 v) { narrow_small<2, 15>(&p->bits, v, 0x7b); }
MT_FN float8 load8(const int8_t* p) {
#if defined(__AVX2__)
  return reinterpret_cast<float8>(
      _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)))));
#else
  typedef int8_t schar8 __attribute__((vector_size(8)));
  schar8 u;
  std::memcpy(&u, p, 8);
  return __builtin_convertvector(u, float8);
#endif
}
MT_FN float8 load8(const uint8_t* p) {
#if defined(__AVX2__)
  return reinterpret_cast<float8>(
      _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)))));
#else
  uchar8 u;
  std::memcpy(&u, p, 8);
  return __builtin_convertvector(u, float8);
#endif
}
MT_FN void store8(int8_t* p, float8 v) {
  float8 t = v < -128.0f ? float8{} - 128.0f : v;
  t = t > 127.0f ? float8{} + 127.0f : t;
  t = v != v ? float8{} : t;
  const float8 shifted = t + 12582912.0f;  // 1.5 * 2^23: the low byte is the nearest integer
  int8x32 bits;
  std::memcpy(&bits, &shifted, 32);
  const uchar8 s = __builtin_convertvector(bits & 0xff, uchar8);
  std::memcpy(p, &s, 8);
}
MT_FN void store8(float* p, float8 v) { std::memcpy(p, &v, 32); }
#if defined(__AVX2__)
/// The upper halves rounded to bf16, in the low 16 bits of each lane. A NaN is cut and made quiet, not rounded.
MT_FN __m256i rounded_upper(float8 v) {
  const __m256i u = reinterpret_cast<__m256i>(v);
  const __m256i nan =
      _mm256_castps_si256(_mm256_cmp_ps(reinterpret_cast<__m256>(v), reinterpret_cast<__m256>(v), _CMP_UNORD_Q));
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
  const __m256i up = _mm256_andnot_si256(nan, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
  const __m256i quiet = _mm256_and_si256(nan, _mm256_set1_epi32(0x400000));
  return _mm256_srli_epi32(_mm256_or_si256(_mm256_add_epi32(u, up), quiet), 16);
}
MT_FN void store8(bfloat16_t* p, float8 v) {
  // Spelled out: with the compiler's own narrowing rope on bf16 ran 9 % slower (2026-11-29).
  const __m256i r = rounded_upper(v), packed = _mm256_packus_epi32(r, r);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_castsi256_si128(_mm256_permute4x64_epi64(packed, 0xd8)));
}
MT_FN void store16(bfloat16_t* p, const float8* v) {
  const __m256i packed = _mm256_packus_epi32(rounded_upper(v[0]), rounded_upper(v[1]));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_permute4x64_epi64(packed, 0xd8));
}
/// The same of numbers alone, which take fewer operations: a NaN among 32 is rare.
MT_FN void store32(bfloat16_t* p, const float8* v) {
  const auto unordered = [&](int i) {
    return _mm256_cmp_ps(reinterpret_cast<__m256>(v[i]), reinterpret_cast<__m256>(v[i + 1]), _CMP_UNORD_Q);
  };
  const __m256 nan = _mm256_or_ps(unordered(0), unordered(2));
  if (__builtin_expect(_mm256_movemask_ps(nan) != 0, 0)) {
    store16(p, v);
    store16(p + 16, v + 2);
    return;
  }
  const auto upper = [&](int i) {
    const __m256i u = reinterpret_cast<__m256i>(v[i]);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
    return _mm256_srli_epi32(_mm256_add_epi32(_mm256_add_epi32(u, _mm256_set1_epi32(0x7fff)), odd), 16);
  };
  for (int i = 0; i < 4; i += 2) {
    const __m256i packed = _mm256_packus_epi32(upper(i), upper(i + 1));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 8 * i), _mm256_permute4x64_epi64(packed, 0xd8));
  }
}
/// Magnitudes as codes of `Fraction` stored bits plus a constant. Adding a number whose last place is that of the code rounds to it; below the smallest
/// normal number, 2^(1 - Bias), the last place stays. NaN as the largest.
template <int Fraction, int Bias>
MT_FN __m256i magnitude_codes(float8 v, float largest) {
  const __m256 smallest = _mm256_castsi256_ps(_mm256_set1_epi32((128 - Bias) << 23));
  const __m256 a = _mm256_and_ps(reinterpret_cast<__m256>(v), _mm256_castsi256_ps(_mm256_set1_epi32(0x7fffffff)));
  const __m256 inside = _mm256_min_ps(a, _mm256_set1_ps(largest));
  const __m256i exponent =
      _mm256_and_si256(_mm256_castps_si256(_mm256_max_ps(inside, smallest)), _mm256_set1_epi32(0x7f800000));
  const __m256i anchor = _mm256_add_epi32(exponent, _mm256_set1_epi32((23 - Fraction) << 23));
  const __m256i sum = _mm256_castps_si256(_mm256_add_ps(inside, _mm256_castsi256_ps(anchor)));
  return _mm256_add_epi32(_mm256_srli_epi32(exponent, 23 - Fraction), _mm256_sub_epi32(sum, anchor));
}
/// 32 lanes to the bytes that their upper ends saturate to, in the order that packing leaves: `in_order` mends it.
MT_FN __m256i pack_signed(__m256i a, __m256i b, __m256i c, __m256i d) {
  return _mm256_packs_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
}
MT_FN __m256i in_order(__m256i packed) {
  return _mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}
MT_FN __m256i nan_lanes(float8 v) {
  return _mm256_castps_si256(_mm256_cmp_ps(reinterpret_cast<__m256>(v), reinterpret_cast<__m256>(v), _CMP_UNORD_Q));
}
template <int Fraction, int Bias>
MT_FN void narrow32(uint8_t* p, const float8* v, float largest) {
  const __m256i constant = _mm256_set1_epi16((128 - Bias) << Fraction);
  const auto two = [&](int i) {
    return _mm256_sub_epi16(_mm256_packus_epi32(magnitude_codes<Fraction, Bias>(v[i], largest),
                                                magnitude_codes<Fraction, Bias>(v[i + 1], largest)),
                            constant);
  };
  const auto bits = [&](int i) { return reinterpret_cast<__m256i>(v[i]); };
  const __m256i codes = _mm256_packus_epi16(two(0), two(2));
  const __m256i sign = _mm256_and_si256(pack_signed(bits(0), bits(1), bits(2), bits(3)), _mm256_set1_epi8(-128));
  const __m256i nan = pack_signed(nan_lanes(v[0]), nan_lanes(v[1]), nan_lanes(v[2]), nan_lanes(v[3]));
  const __m256i all = _mm256_or_si256(_mm256_or_si256(codes, _mm256_andnot_si256(nan, sign)),
                                      _mm256_and_si256(nan, _mm256_set1_epi8(0x7f)));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), in_order(all));
}
/// Nearly all codes are normal numbers, saturated ones or zeros, which are the upper bits rounded; the others, and NaN, take the general way.
MT_FN void store32(e4m3_t* p, const float8* v) {
  constexpr int kCut = 20, kBias = (127 - 7) << 3, kTiny = (127 - 10) << 3, kSmallest = (127 - 6) << 3;  // upper bits of 2^-10 and 2^-6
  const auto unordered = [&](int i) {
    return _mm256_castps_si256(_mm256_cmp_ps(reinterpret_cast<__m256>(v[i]), reinterpret_cast<__m256>(v[i + 1]), _CMP_UNORD_Q));
  };
  const auto rounded = [&](int i) {
    const __m256i u = reinterpret_cast<__m256i>(v[i]);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(u, kCut), _mm256_set1_epi32(1));
    return _mm256_srli_epi32(_mm256_add_epi32(_mm256_add_epi32(u, _mm256_set1_epi32((1 << (kCut - 1)) - 1)), odd), kCut);
  };
  const __m256i upper[2] = {_mm256_packus_epi32(rounded(0), rounded(1)), _mm256_packus_epi32(rounded(2), rounded(3))};
  const auto magnitude = [&](int i) { return _mm256_and_si256(upper[i], _mm256_set1_epi16(0x7ff)); };
  const auto subnormal = [&](int i) {  // from 2^-10, below which all is zero, to 2^-6
    static_assert(kSmallest - kTiny == 32);
    return _mm256_cmpeq_epi16(_mm256_srli_epi16(_mm256_sub_epi16(magnitude(i), _mm256_set1_epi16(kTiny)), 5), _mm256_setzero_si256());
  };
  const __m256i others = _mm256_or_si256(_mm256_or_si256(unordered(0), unordered(2)), _mm256_or_si256(subnormal(0), subnormal(1)));
  if (__builtin_expect(_mm256_movemask_epi8(others) != 0, 0)) return narrow32<3, 7>(&p->bits, v, 448.0f);
  const auto code = [&](int i) {
    return _mm256_min_epi16(_mm256_subs_epu16(magnitude(i), _mm256_set1_epi16(kBias)), _mm256_set1_epi16(0x7e));
  };
  const __m256i sign = _mm256_and_si256(_mm256_packs_epi16(_mm256_slli_epi16(upper[0], 4), _mm256_slli_epi16(upper[1], 4)), _mm256_set1_epi8(-128));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), in_order(_mm256_or_si256(_mm256_packus_epi16(code(0), code(1)), sign)));
}
MT_FN void store32(e5m2_t* p, const float8* v) { narrow32<2, 15>(&p->bits, v, 57344.0f); }
MT_FN void store32(int8_t* p, const float8* v) {
  // Large negative numbers convert to the most negative one, so packing clamps them; a NaN would too.
  const auto whole = [&](int i) {
    const __m256 known = _mm256_andnot_ps(_mm256_castsi256_ps(nan_lanes(v[i])), reinterpret_cast<__m256>(v[i]));
    return _mm256_cvtps_epi32(_mm256_min_ps(known, _mm256_set1_ps(127.0f)));
  };
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), in_order(pack_signed(whole(0), whole(1), whole(2), whole(3))));
}
#else
MT_FN void store8(bfloat16_t* p, float8 v) {
  uint8x32 u;  // unsigned: the sum of a NaN's bits may wrap, before it is thrown away
  std::memcpy(&u, &v, 32);
  const uint8x32 odd = (u >> 16) & 1;
  uint8x32 r = (u + 0x7fff + odd) >> 16;
  const uint8x32 quiet = (u >> 16) | 0x40;
  r = v != v ? quiet : r;
  const ushort8 s = __builtin_convertvector(r, ushort8);
  std::memcpy(p, &s, 16);
}
#endif
MT_FN void store8(half_t* p, float8 v) {
#if defined(__F16C__)
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(reinterpret_cast<__m256>(v), _MM_FROUND_TO_NEAREST_INT));
#else
  for (int i = 0; i < 8; ++i) p[i] = from_float<half_t>(v[i]);
#endif
}
MT_FN void store8(uint8_t* p, float8 v) {  // whole numbers from 0 to 255
  const uchar8 s = __builtin_convertvector(__builtin_convertvector(v, int8x32), uchar8);
  std::memcpy(p, &s, 8);
}
#if defined(__AVX2__)
/// 32 codes in a third of the operations that eight at a time take: bytes of the upper halves of fp32, one by tables and one by a shift, then widened.
MT_FN void load32(const e4m3_t* p, float8* v) {
  const auto bytes = [](int b) { return _mm256_set1_epi8(static_cast<char>(b)); };
  const auto table = [](uint64_t low, uint64_t high) {
    return _mm256_broadcastsi128_si256(_mm_set_epi64x(static_cast<int64_t>(high), static_cast<int64_t>(low)));
  };
  // Groups of four codes in the order that makes the interleaving below leave them in theirs.
  const __m256i code = _mm256_permutevar8x32_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)), _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7));
  const __m256i magnitude = _mm256_and_si256(code, bytes(0x7f)), upper = _mm256_and_si256(_mm256_srli_epi16(code, 4), bytes(0x0f));
  // Sign and exponent are 0x3c plus the upper bits, the fraction is what is left. Magnitudes below 8 are subnormal: their bytes are mended by differences,
  // which tables give for indices 8 to 15 and which are 0 where the index has its top bit set.
  const __m256i subnormal = _mm256_add_epi8(magnitude, bytes(0x78));
  __m256i high = _mm256_shuffle_epi8(table(0x43424140'3f3e3d3c, 0xc3c2c1c0'bfbebdbc), upper);
  high = _mm256_add_epi8(high, _mm256_shuffle_epi8(table(0, 0x00000000'ffffffc4), subnormal));
  const __m256i low = _mm256_add_epi8(_mm256_and_si256(_mm256_slli_epi16(code, 4), bytes(0xf0)),
                                      _mm256_shuffle_epi8(table(0, 0xf0e0d0c0'9060f000), subnormal));
  high = _mm256_or_si256(high, _mm256_and_si256(_mm256_cmpeq_epi8(magnitude, bytes(0x7f)), bytes(0x7f)));  // NaN
  const __m256i first = _mm256_unpacklo_epi8(low, high), second = _mm256_unpackhi_epi8(low, high), none = _mm256_setzero_si256();
  v[0] = reinterpret_cast<float8>(_mm256_unpacklo_epi16(none, first));
  v[1] = reinterpret_cast<float8>(_mm256_unpackhi_epi16(none, first));
  v[2] = reinterpret_cast<float8>(_mm256_unpacklo_epi16(none, second));
  v[3] = reinterpret_cast<float8>(_mm256_unpackhi_epi16(none, second));
}
#endif
template <int N, class T>
MT_FN pack<N> load_pack(const T* p) {
  pack<N> r;
#if defined(__AVX2__)
  if constexpr (std::is_same_v<T, e4m3_t> && N % 32 == 0) {
    for (int i = 0; i < N / 32; ++i) load32(p + 32 * i, r.part + 4 * i);
    return r;
  }
#endif
  for (int i = 0; i < N / 8; ++i) r.part[i] = load8(p + 8 * i);
  return r;
}
/// The first `count` (< N) elements; the rest holds `fill`.
template <int N, class T>
MT_FN pack<N> load_pack_tail(const T* p, int count, float fill) {
  pack<N> r(fill);
  for (int i = 0; i < count; ++i) r.part[i / 8][i % 8] = promote(p[i]);
  return r;
}
template <int N, class T>
MT_FN void store_pack(T* p, const pack<N>& v) {
#if defined(__AVX2__)
  // Narrow elements by the register, which takes fewer operations an element than eight at a time.
  if constexpr (N == 16 && std::is_same_v<T, bfloat16_t>) {
    return store16(p, v.part);
  } else if constexpr (N % 32 == 0 && (std::is_same_v<T, bfloat16_t> || std::is_same_v<T, e4m3_t> ||
                                       std::is_same_v<T, e5m2_t> || std::is_same_v<T, int8_t>)) {
    for (int i = 0; i < N / 32; ++i) store32(p + 32 * i, v.part + 4 * i);
    return;
  }
#endif
  for (int i = 0; i < N / 8; ++i) store8(p + 8 * i, v.part[i]);
}
template <int N, class T>
MT_FN void store_pack_tail(T* p, const pack<N>& v, int count) {
  for (int i = 0; i < count; ++i) p[i] = from_float<T>(v.part[i / 8][i % 8]);
}
template <int N>
MT_FN int_pack<N> iota_pack(int32_t first) {
  int_pack<N> r;
  for (int i = 0; i < N / 8; ++i) r.part[i] = int8x32{0, 1, 2, 3, 4, 5, 6, 7} + (first + 8 * i);
  return r;
}

// --- reductions of packs: lanes pairwise, in a fixed order ---------------------------------------------------------------------------
template <class Op>
struct pack_op;
template <>
struct pack_op<Sum> {
  template <int N>
  static MT_FN pack<N> combine(const pack<N>& a, const pack<N>& b) { return a + b; }
  template <int N>
  static MT_FN sums_pack<N> combine(const sums_pack<N>& a, const sums_pack<N>& b) { return a + b; }
};
template <>
struct pack_op<SumSquares> : pack_op<Sum> {};
template <>
struct pack_op<Max> {
  template <int N>
  static MT_FN pack<N> combine(const pack<N>& a, const pack<N>& b) { return max_of(a, b); }
};
template <>
struct pack_op<Min> {
  template <int N>
  static MT_FN pack<N> combine(const pack<N>& a, const pack<N>& b) { return min_of(a, b); }
};
template <>
struct pack_op<ArgMax> {
  template <int N>
  static MT_FN indexed_pack<N> combine(const indexed_pack<N>& a, const indexed_pack<N>& b) {
    mask_pack<N> lower;
    for (int i = 0; i < N / 8; ++i) lower.part[i] = b.index.part[i] < a.index.part[i];
    const mask_pack<N> second = (b.value > a.value) | ((b.value == a.value) & lower);
    return {select(second, b.value, a.value), select(second, b.index, a.index)};
  }
};
/// The largest of finite numbers among packs of magnitudes: what is no number loses every comparison with one.
template <int N>
MT_FN pack<N> larger_number(const pack<N>& best, const pack<N>& v) {
#if defined(__AVX2__)
  return max_of(v, best);  // of two operands the second one stays where either is no number
#else
  return select(v > best, v, best);
#endif
}
/// How elements enter a reduction.
template <class Op, class V>
MT_FN V entered(const V& sum, const V& v) {
  if constexpr (requires { Op::squares; }) {
    return fma_of(v, v, sum);
  } else {
    return pack_op<Op>::combine(sum, v);
  }
}
/// Halves onto each other, down to one lane.
template <class Op, int N>
MT_FN float reduce_pack(const pack<N>& v) {
  if constexpr (N > 8) {
    pack<N / 2> low, high;
    for (int i = 0; i < N / 16; ++i) low.part[i] = v.part[i], high.part[i] = v.part[i + N / 16];
    return reduce_pack<Op>(pack_op<Op>::combine(low, high));
  } else {
    const auto fold = [](const pack<8>& a, float8 b) {
      pack<8> r;
      r.part[0] = b;
      return pack_op<Op>::combine(a, r);
    };
    pack<8> r = fold(v, __builtin_shufflevector(v.part[0], v.part[0], 4, 5, 6, 7, 4, 5, 6, 7));
    r = fold(r, __builtin_shufflevector(r.part[0], r.part[0], 2, 3, 2, 3, 2, 3, 2, 3));
    r = fold(r, __builtin_shufflevector(r.part[0], r.part[0], 1, 1, 1, 1, 1, 1, 1, 1));
    return r.part[0][0];
  }
}
template <class Op, int N>
MT_FN indexed reduce_pack(const indexed_pack<N>& v) {
  indexed best = Op::identity(indexed{});
  for (int i = 0; i < N; ++i) best = Op::combine(best, {v.value.part[i / 8][i % 8], v.index.part[i / 8][i % 8]});
  return best;
}
template <class Op, int N>
MT_FN sums reduce_pack(const sums_pack<N>& v) { return {reduce_pack<Op>(v.first), reduce_pack<Op>(v.second)}; }
template <class Op, int N>
MT_FN sums_pack<N> identity_pack(const sums_pack<N>&) { return {pack<N>(0.0f), pack<N>(0.0f)}; }
template <class Op, int N>
MT_FN pack<N> identity_pack(const pack<N>&) { return pack<N>(Op::identity(0.0f)); }
template <class Op, int N>
MT_FN indexed_pack<N> identity_pack(const indexed_pack<N>&) {
  const indexed none = Op::identity(indexed{});
  indexed_pack<N> r{pack<N>(none.value), {}};
  for (int i = 0; i < N / 8; ++i) r.index.part[i] = int8x32{} + none.index;
  return r;
}
/// (value, index) pairs from either kind.
template <int N>
MT_FN indexed_pack<N> make_indexed(const pack<N>& value, const int_pack<N>& index) { return {value, index}; }
MT_FN indexed make_indexed(float value, int32_t index) { return {value, index}; }
/// Two addends for one pass.
template <int N>
MT_FN sums_pack<N> make_sums(const pack<N>& first, const pack<N>& second) { return {first, second}; }

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME
