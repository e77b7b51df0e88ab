#pragma once
// Random draws that are the same bits on every backend: Philox4x32-10 and a Gumbel variate in integer arithmetic alone.
//
// No floating-point expression here can be contracted, reassociated or computed by a maths library, so host and device
// compilers cannot disagree. Everything is constexpr and usable in kernels. Source: Salmon et al., "Parallel Random
// Numbers: As Easy as 1, 2, 3", 2011 (Philox).

#include <cstdint>

namespace monotile::random {

/// What a draw is for: streams of different purposes never share counters.
enum class Purpose : uint32_t { sample = 0, accept = 1, residual = 2 };

struct Words {
  uint32_t w[4];
};

/// Ten rounds of Philox4x32 on `counter` under the 64-bit `key`.
constexpr Words philox4x32_10(Words counter, uint64_t key) {
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53u} * counter.w[0], p1 = uint64_t{0xCD9E8D57u} * counter.w[2];
    counter = {{static_cast<uint32_t>(p1 >> 32) ^ counter.w[1] ^ k0, static_cast<uint32_t>(p1),
                static_cast<uint32_t>(p0 >> 32) ^ counter.w[3] ^ k1, static_cast<uint32_t>(p0)}};
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return counter;
}

/// 32 random bits of (seed; position, purpose, token).
constexpr uint32_t bits(uint64_t seed, int64_t position, Purpose purpose, uint32_t token) {
  const uint64_t p = static_cast<uint64_t>(position);
  return philox4x32_10(
             {{static_cast<uint32_t>(p), static_cast<uint32_t>(p >> 32), static_cast<uint32_t>(purpose), token}}, seed)
      .w[0];
}

/// Uniform in the open interval (0, 1): the odd multiples of 2^-24.
constexpr float uniform(uint32_t bits) { return static_cast<float>((bits >> 9) * 2 + 1) * 0x1p-24f; }

namespace detail {

constexpr int leading_zeros(uint64_t v) {  // v != 0
  int count = 0;
  for (int shift = 32; shift > 0; shift /= 2) {
    if (v >> (64 - shift) == 0) {
      v <<= shift;
      count += shift;
    }
  }
  return count;
}

/// -ln(1 - w) / w in units of 2^-28, for w = w31 / 2^31 in [0, 1/2]; relative error below 2^-27.
/// Interpolation at the ten Chebyshev nodes of the interval.
constexpr int32_t log_ratio(int32_t w31) {
  int64_t r = 465362914;
  r = -660072553 + (r * w31 >> 31);
  r = 526098751 + (r * w31 >> 31);
  r = -158400730 + (r * w31 >> 31);
  r = 91468434 + (r * w31 >> 31);
  r = 47094524 + (r * w31 >> 31);
  r = 67634137 + (r * w31 >> 31);
  r = 89457502 + (r * w31 >> 31);
  r = 134218050 + (r * w31 >> 31);
  r = 268435455 + (r * w31 >> 31);
  return static_cast<int32_t>(r);
}

}  // namespace detail

/// -ln(u) for u = (2 bits + 1) / 2^33, in units of 2^-58; relative error below 2^-24.
constexpr uint64_t exponential_q58(uint32_t bits) {
  const uint64_t odd = uint64_t{bits} * 2 + 1;                // u = odd / 2^33
  const int zeros = detail::leading_zeros(odd) - 31;          // u = 2^-zeros (1 - w), w in (0, 1/2]
  const uint64_t w33 = (uint64_t{1} << 33) - (odd << zeros);  // exact, so nothing is lost where u is near 1
  const uint64_t ratio = static_cast<uint64_t>(detail::log_ratio(static_cast<int32_t>(w33 >> 2)));
  constexpr uint64_t kLn2 = 199786072581291495u;  // ln 2 in units of 2^-58
  return static_cast<uint64_t>(zeros) * kLn2 + (w33 * ratio >> 3);
}

/// A Gumbel variate -ln(-ln(u)) in units of 2^-24, from -3.14 to 22.88; absolute error below 2^-23.
constexpr int32_t gumbel_q24(uint32_t bits) {
  const uint64_t e = exponential_q58(bits);
  const int zeros = detail::leading_zeros(e);
  const uint64_t w32 = (uint64_t{1} << 32) - (e << zeros >> 32);  // e / 2^58 = 2^(6 - zeros) (1 - w)
  const int64_t ratio = detail::log_ratio(static_cast<int32_t>(w32 >> 1));
  constexpr int64_t kLn2 = 762123384786;  // ln 2 in units of 2^-40
  const int64_t g40 = (zeros - 6) * kLn2 + (static_cast<int64_t>(w32) * ratio >> 20);
  return static_cast<int32_t>((g40 + (1 << 15)) >> 16);
}

/// What Gumbel-max sampling compares, in units of 2^-24: (logit - row_max) / temperature + Gumbel variate. `row_max` is
/// the largest logit of the row, `inverse_temperature` the correctly rounded fp32 quotient 1 / temperature. The token
/// with the largest score is drawn, ties go to the lower id. Distances under -40 count as -40: the row's largest logit
/// always beats them.
constexpr float gumbel_score(float logit, float row_max, float inverse_temperature, uint32_t bits) {
  float distance = logit == row_max ? 0.0f : (logit - row_max) * inverse_temperature;
  if (!(distance > -40.0f)) distance = -40.0f;
  return static_cast<float>(static_cast<int32_t>(distance * 0x1p24f) + gumbel_q24(bits));
}

}  // namespace monotile::random
