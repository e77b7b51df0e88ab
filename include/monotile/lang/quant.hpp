#pragma once
// The GGUF block types, eight consecutive elements at a time. Little-endian; blocks start on even addresses. Needs
// the target's `promote`.
//   q4_0  32: fp16 d; 16 bytes of nibbles, byte j = elements j (low) and j + 16 (high); value d (q - 8)
//   q5_0  32: fp16 d; 32 high bits; nibbles as q4_0; value d (q - 16)
//   q8_0  32: fp16 d; 32 signed bytes; value d q
//   q4_k 256: fp16 d, dmin; 8 six-bit scales and minima in 12 bytes; nibbles, 32 bytes per two sub-blocks of 32;
//     value d scale q - dmin minimum
//   q6_k 256: 128 bytes low nibbles, 64 bytes high bit pairs, 16 signed scales (one per 16), fp16 d; value d scale (q
//     - 32)

#include <cstdint>

#include "monotile/lang/view.hpp"

namespace monotile::lang::inline MONOTILE_TARGET_NAME {

/// 16 bits at an even address.
MT_FN uint32_t half_word(const uint8_t* p) { return reinterpret_cast<const half_t*>(p)->bits; }
MT_FN float half_at(const uint8_t* p) { return promote(*reinterpret_cast<const half_t*>(p)); }

/// Byte i of four half words.
MT_FN int byte_of(const uint32_t (&words)[4], int i) { return static_cast<int>(words[i / 2] >> (8 * (i % 2)) & 255u); }
MT_FN void load_bytes8(uint32_t (&words)[4], const uint8_t* p) {
  MT_UNROLL
  for (int i = 0; i < 4; ++i) words[i] = half_word(p + 2 * i);
}

/// Six-bit scale and minimum of sub-block `sub` of a q4_k block.
struct scale_minimum {
  int scale, minimum;
};
MT_FN scale_minimum q4_k_scale(const uint8_t* block, int sub) {
  const uint8_t* packed = block + 4;
  if (sub < 4) return {packed[sub] & 63, packed[sub + 4] & 63};
  return {(packed[sub + 4] & 15) | (packed[sub - 4] >> 6) << 4, packed[sub + 4] >> 4 | (packed[sub] >> 6) << 4};
}

/// Eight codes as whole numbers; their values are scale * code - minimum. Only q4_k has minima.
struct codes8 {
  float code[8];
  float scale, minimum;
};

/// Elements [first, first + 8) of the row of blocks at `row`, `first` a multiple of 8.
template <DType Q>
MT_FN void read_codes8(const uint8_t* row, int64_t first, codes8& out) {
  constexpr DTypeInfo info = dtype_info(Q);
  const uint8_t* block = row + first / info.block_elements * info.block_bytes;
  const int i = static_cast<int>(first % info.block_elements);
  uint32_t low[4], high[4];
  out.minimum = 0.0f;
  if constexpr (Q == DType::q4_0) {
    out.scale = half_at(block);
    load_bytes8(low, block + 2 + i % 16);
    MT_UNROLL
    for (int e = 0; e < 8; ++e) out.code[e] = static_cast<float>((byte_of(low, e) >> (i / 16 * 4) & 15) - 8);
  } else if constexpr (Q == DType::q5_0) {
    out.scale = half_at(block);
    load_bytes8(low, block + 6 + i % 16);
    const uint32_t bits = half_word(block + 2 + i / 16 * 2) >> (i % 16);
    MT_UNROLL
    for (int e = 0; e < 8; ++e) {
      const int code = (byte_of(low, e) >> (i / 16 * 4) & 15) | static_cast<int>(bits >> e & 1u) << 4;
      out.code[e] = static_cast<float>(code - 16);
    }
  } else if constexpr (Q == DType::q8_0) {
    out.scale = half_at(block);
    load_bytes8(low, block + 2 + i);
    MT_UNROLL
    for (int e = 0; e < 8; ++e) out.code[e] = static_cast<float>(static_cast<int8_t>(byte_of(low, e)));
  } else if constexpr (Q == DType::q4_k) {
    const int sub = i / 32;
    const scale_minimum sm = q4_k_scale(block, sub);
    out.scale = half_at(block) * static_cast<float>(sm.scale);
    out.minimum = half_at(block + 2) * static_cast<float>(sm.minimum);
    load_bytes8(low, block + 16 + i / 64 * 32 + i % 32);
    MT_UNROLL
    for (int e = 0; e < 8; ++e) out.code[e] = static_cast<float>(byte_of(low, e) >> (sub % 2 * 4) & 15);
  } else {
    static_assert(Q == DType::q6_k, "a GGUF block type");
    const int half = i / 128, quarter = i % 128 / 32, j = i % 32;
    out.scale = half_at(block + 208) * static_cast<float>(static_cast<int8_t>(block[192 + i / 16]));
    load_bytes8(low, block + 64 * half + 32 * (quarter % 2) + j);
    load_bytes8(high, block + 128 + 32 * half + j);
    MT_UNROLL
    for (int e = 0; e < 8; ++e) {
      const int code = (byte_of(low, e) >> (quarter / 2 * 4) & 15) | (byte_of(high, e) >> (2 * quarter) & 3) << 4;
      out.code[e] = static_cast<float>(code - 32);
    }
  }
}

/// The same as values.
template <DType Q>
MT_FN void unpack8(const uint8_t* row, int64_t first, float (&out)[8]) {
  codes8 codes;
  read_codes8<Q>(row, first, codes);
  MT_UNROLL
  for (int e = 0; e < 8; ++e) out[e] = Q == DType::q4_k ? codes.scale * codes.code[e] - codes.minimum : codes.scale * codes.code[e];
}

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME
