#pragma once
// GGUF blocks on CPU, 32 elements (a block, or a sub-block of a 256-element block) at a time.
//
// unpacker<Q>::values(block, sub, out) gives fp32 on every CPU target. With AVX2 there are also, for integer products:
//   codes(block, sub)         32 bytes, in order; unsigned (offset to be subtracted) unless kSigned
//   signed_codes(block, sub)  the same with the offset subtracted
//   scales(block, sub)        {first 16 elements, last 16 elements}: value = scale * signed code - minimum

#include <cstdint>
#include <cstring>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "monotile/lang/backend/cpu/simd.hpp"
#include "monotile/lang/quant.hpp"

namespace monotile::lang::inline MONOTILE_TARGET_NAME {

template <DType Q>
inline constexpr int kSubBlocks = dtype_info(Q).block_elements / 32;

#if defined(__AVX2__)

MT_FN float fast_half(const uint8_t* p) {
  uint16_t bits;
  std::memcpy(&bits, p, 2);
  return _cvtsh_ss(bits);
}
/// An fp16 at p in all eight lanes.
MT_FN __m256 half_in_all(const uint8_t* p) {
  uint16_t bits;
  std::memcpy(&bits, p, 2);
  return _mm256_cvtph_ps(_mm_set1_epi16(static_cast<short>(bits)));
}
MT_FN uint32_t word_at(const uint8_t* p) {
  uint32_t word;
  std::memcpy(&word, p, 4);
  return word;
}
MT_FN __m256i load32(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
MT_FN __m256i low_nibbles(__m256i v) { return _mm256_and_si256(v, _mm256_set1_epi8(15)); }
MT_FN __m256i high_nibbles(__m256i v) { return low_nibbles(_mm256_srli_epi16(v, 4)); }
/// 16 bytes: low nibbles, then high nibbles.
MT_FN __m256i nibbles_of(const uint8_t* p) {
  const __m256i bytes = _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  return low_nibbles(_mm256_srlv_epi32(bytes, _mm256_set_epi32(4, 4, 4, 4, 0, 0, 0, 0)));
}
/// Byte i is 16 if bit i of the word at p is set, else 0.
MT_FN __m256i bit_bytes(const uint8_t* p) {
  const __m256i spread =
      _mm256_shuffle_epi8(_mm256_set1_epi32(static_cast<int>(word_at(p))),
                          _mm256_set_epi64x(0x0303030303030303, 0x0202020202020202, 0x0101010101010101, 0));
  const __m256i bit = _mm256_set1_epi64x(static_cast<long long>(0x8040201008040201u));
  return _mm256_and_si256(_mm256_cmpeq_epi8(_mm256_and_si256(spread, bit), bit), _mm256_set1_epi8(16));
}
/// The eight scales (low) and minima (high) of a q4_k block, one byte each.
MT_FN __m128i q4_k_scales(const uint8_t* block) {
  const uint32_t a = word_at(block + 4), b = word_at(block + 8), c = word_at(block + 12);
  return _mm_set_epi32(static_cast<int>((c >> 4 & 0x0f0f0f0fu) | (b >> 2 & 0x30303030u)),
                       static_cast<int>(b & 0x3f3f3f3fu), static_cast<int>((c & 0x0f0f0f0fu) | (a >> 2 & 0x30303030u)),
                       static_cast<int>(a & 0x3f3f3f3fu));
}

struct sub_scales {
  float low, high, minimum;
};

template <DType Q>
struct codes_of;
template <>
struct codes_of<DType::q4_0> {
  static constexpr bool kSigned = false;
  static constexpr int kOffset = 8;
  static MT_FN __m256i codes(const uint8_t* block, int) { return nibbles_of(block + 2); }
  static MT_FN sub_scales scales(const uint8_t* block, int) { return {fast_half(block), fast_half(block), 0.0f}; }
};
template <>
struct codes_of<DType::q5_0> {
  static constexpr bool kSigned = false;
  static constexpr int kOffset = 16;
  static MT_FN __m256i codes(const uint8_t* block, int) {
    return _mm256_or_si256(nibbles_of(block + 6), bit_bytes(block + 2));
  }
  static MT_FN sub_scales scales(const uint8_t* block, int) { return {fast_half(block), fast_half(block), 0.0f}; }
};
template <>
struct codes_of<DType::q8_0> {
  static constexpr bool kSigned = true;
  static constexpr int kOffset = 0;
  static MT_FN __m256i codes(const uint8_t* block, int) { return load32(block + 2); }
  static MT_FN sub_scales scales(const uint8_t* block, int) { return {fast_half(block), fast_half(block), 0.0f}; }
};
template <>
struct codes_of<DType::q4_k> {
  static constexpr bool kSigned = false;
  static constexpr int kOffset = 0;
  static MT_FN __m256i codes(const uint8_t* block, int sub) {
    const __m256i bytes = load32(block + 16 + sub / 2 * 32);
    return sub % 2 == 0 ? low_nibbles(bytes) : high_nibbles(bytes);
  }
  static MT_FN sub_scales scales(const uint8_t* block, int sub) {
    const scale_minimum sm = q4_k_scale(block, sub);
    const float d = fast_half(block) * static_cast<float>(sm.scale);
    return {d, d, fast_half(block + 2) * static_cast<float>(sm.minimum)};
  }
};
template <>
struct codes_of<DType::q6_k> {
  static constexpr bool kSigned = false;
  static constexpr int kOffset = 32;
  static MT_FN __m256i codes(const uint8_t* block, int sub) {
    const int half = sub / 4, quarter = sub % 4;
    const __m256i low = load32(block + 64 * half + 32 * (quarter % 2)), high = load32(block + 128 + 32 * half);
    const __m256i pairs = _mm256_and_si256(_mm256_srl_epi16(high, _mm_cvtsi32_si128(2 * quarter)), _mm256_set1_epi8(3));
    return _mm256_or_si256(quarter < 2 ? low_nibbles(low) : high_nibbles(low), _mm256_slli_epi16(pairs, 4));
  }
  static MT_FN sub_scales scales(const uint8_t* block, int sub) {
    const float d = fast_half(block + 208);
    return {d * static_cast<float>(static_cast<int8_t>(block[192 + 2 * sub])),
            d * static_cast<float>(static_cast<int8_t>(block[193 + 2 * sub])), 0.0f};
  }
};

template <DType Q>
struct unpacker : codes_of<Q> {
  using codes_of<Q>::kOffset;
  static MT_FN __m256i signed_codes(const uint8_t* block, int sub) {
    const __m256i codes = codes_of<Q>::codes(block, sub);
    return kOffset == 0 ? codes : _mm256_sub_epi8(codes, _mm256_set1_epi8(kOffset));
  }
  /// Signed codes as fp32.
  static MT_FN void float_codes(const uint8_t* block, int sub, float8 (&out)[4]) {
    const __m256i codes = signed_codes(block, sub);
    const __m128i low = _mm256_castsi256_si128(codes), high = _mm256_extracti128_si256(codes, 1);
    out[0] = reinterpret_cast<float8>(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(low)));
    out[1] = reinterpret_cast<float8>(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(low, 8))));
    out[2] = reinterpret_cast<float8>(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(high)));
    out[3] = reinterpret_cast<float8>(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(high, 8))));
  }
  static MT_FN void values(const uint8_t* block, int sub, float8 (&out)[4]) {
    float_codes(block, sub, out);
    const sub_scales s = codes_of<Q>::scales(block, sub);
    for (int i = 0; i < 4; ++i) out[i] = out[i] * (i < 2 ? s.low : s.high) - s.minimum;
  }
};

#else  // no AVX2

template <DType Q>
struct unpacker {
  static MT_FN void values(const uint8_t* block, int sub, float8 (&out)[4]) {
    for (int i = 0; i < 4; ++i) {
      float v[8];
      unpack8<Q>(block, 32 * sub + 8 * i, v);
      std::memcpy(&out[i], v, 32);
    }
  }
};

#endif

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME
