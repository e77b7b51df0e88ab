#pragma once
// MFMA and copies through registers: the matrix instructions of CDNA.

#include "monotile/lang/backend/hip/primitives.hpp"
#include "monotile/lang/backend/simt/lane_unit.hpp"
#include "monotile/lang/backend/simt/mfma.hpp"

namespace monotile::lang::inline MONOTILE_TARGET_NAME {

typedef float floats4 __attribute__((ext_vector_type(4)));
typedef float floats16 __attribute__((ext_vector_type(16)));
typedef int ints4 __attribute__((ext_vector_type(4)));
typedef int ints16 __attribute__((ext_vector_type(16)));
typedef short shorts4 __attribute__((ext_vector_type(4)));
typedef _Float16 halves4 __attribute__((ext_vector_type(4)));

#if defined(__HIP_DEVICE_COMPILE__)
#define MT_SHARED __attribute__((address_space(3)))
#else
#define MT_SHARED
#endif

/// Chunks of 16 bytes on their way through registers, written to shared memory when they settle. No instruction of gfx90a copies past the
/// registers, and gfx942's moves four bytes a lane.
struct copy_queue {
  static constexpr int most = 8;  ///< chunks a lane of a step: half of them of each operand
  vector16 held[most];
  unsigned char* place[most];
  bool exchanged[most];
  int exist[most];  ///< bytes

  /// The first `bytes` bytes (0 to 16), zeros for the rest. All 16 are read where any exist: `from` is aligned to them, so that they lie in one page.
  MT_FN void add(unsigned char* to, const void* from, int bytes, int, int row, int slot) {
    vector16 v{};
    if (bytes > 0) v = load16(from);
    keep(to, v, row, slot, bytes);
  }
  MT_FN void put(unsigned char* to, vector16 v, int row, int slot) {
#if defined(__HIP_DEVICE_COMPILE__)
    // Words made of elements, hidden: else the compiler keeps all chunks in halves, and waits for loads before the products to split them.
    for (uint32_t& word : v.word) asm("" : "+v"(word));
#endif
    keep(to, v, row, slot, 16);
  }
  /// Slots are constants once loops are unrolled: nothing else would leave them in registers.
  MT_FN void keep(unsigned char* to, const vector16& v, int row, int slot, int bytes) {
    held[slot] = v;
    place[slot] = to;
    exchanged[slot] = mfma_halves_exchanged(row);
    exist[slot] = bytes;
  }
  /// What was put, `OfA` and `OfB` chunks of the operands.
  template <int OfA, int OfB>
  MT_FN void settle() {
    static_assert(OfA <= most / 2 && OfB <= most / 2, "a step fits into the lanes' registers");
    MT_UNROLL
    for (int i = 0; i < most; ++i) {
      if (i % (most / 2) >= (i < most / 2 ? OfA : OfB)) continue;
      vector16 v = held[i];
      MT_UNROLL
      for (int w = 0; w < 4; ++w) {  // only now: before the products it would wait for the load
        const int left = exist[i] - 4 * w, bytes = left < 0 ? 0 : left > 4 ? 4 : left;
        v.word[w] &= static_cast<uint32_t>((uint64_t{1} << (8 * bytes)) - 1);
      }
      const bool x = exchanged[i];
      *(MT_SHARED words4*)place[i] =
          words4{v.word[x ? 2 : 0], v.word[x ? 3 : 1], v.word[x ? 0 : 2], v.word[x ? 1 : 3]};  // NOLINT
    }
  }
};

/// Codes 2 pair and 2 pair + 1 of a word as two values of fp16: exact, NaN stays NaN.
template <class T>
MT_FN uint32_t halves_of_codes(uint32_t codes, int pair) {
  typedef _Float16 halves2 __attribute__((ext_vector_type(2)));
  const uint32_t two = pair == 0 ? codes : codes >> 16, r = (two & 0xffu) << 8 | (two & 0xff00u) << 16;
  if constexpr (dtype_of<T> == DType::f8_e5m2) return r;  // the upper half of fp16
  // With the bits in place the exponent is eight too low. The NaN code, which would be 480, becomes infinity when multiplied by 256 * 146, where 448
  // does not, and infinity times 0 is NaN.
  const halves2 low = __builtin_bit_cast(halves2, (r & 0x80008000u) | ((r & 0x7f007f00u) >> 1));
  const halves2 nan = low * static_cast<_Float16>(37376.0f) * static_cast<_Float16>(0.0f);
  return __builtin_bit_cast(uint32_t, low * static_cast<_Float16>(256.0f) + nan);
}

struct lds_reader {
  static MT_FN void read8(uint32_t (&words)[2][1], const unsigned char* const (&from)[1]) {
    const words2 q = *(const MT_SHARED words2*)from[0];  // NOLINT
    words[0][0] = q.x, words[1][0] = q.y;
  }
};

/// A chunk of 16 bytes of a row, by the halves that copies exchanged.
struct chunk_reader {
  static MT_FN void read16(uint32_t (&words)[4][1], const unsigned char* const (&from)[1], const int (&rows)[1]) {
    MT_UNROLL
    for (int half = 0; half < 2; ++half) {
      const unsigned char* const at[1] = {from[0] + mfma_half(rows[0], 8 * half)};
      uint32_t two[2][1];
      lds_reader::read8(two, at);
      words[2 * half][0] = two[0][0], words[2 * half + 1][0] = two[1][0];
    }
  }
};
using float_unit = lane_unit<chunk_reader>;
using tf32_unit = float_unit;  ///< none: fp32

/// One struct per instruction: d += a b^T. Which chip has which stands in `arch::matrices`.
#if defined(__HIP_DEVICE_COMPILE__)
#define MT_MFMA(d, vector, call)                                                        \
  do {                                                                                  \
    vector c;                                                                           \
    MT_UNROLL for (int i = 0; i < static_cast<int>(sizeof(c) / 4); ++i) c[i] = d[i][0]; \
    c = call;                                                                           \
    MT_UNROLL for (int i = 0; i < static_cast<int>(sizeof(c) / 4); ++i) d[i][0] = c[i]; \
  } while (false)
#else
#define MT_MFMA(d, vector, call) \
  do {                           \
  } while (false)
#endif
template <class T>
struct wide_of;
template <>
struct wide_of<bfloat16_t> {
  using type = shorts4;
};
template <>
struct wide_of<half_t> {
  using type = halves4;
};
template <class V>
MT_FN V operand(const uint32_t (&a)[2][1]) {
  return __builtin_bit_cast(V, words2{a[0][0], a[1][0]});
}

/// 32 x 32 x 8 of 16 bits in 16 passes: as fast as 16 x 16 x 16 in 8, and reads half as much shared memory for its size.
struct matrix_unit : mfma_loads<lds_reader, mfma_m32n32k8> {
  template <class T>
  static MT_FN void multiply(float (&d)[16][1], const uint32_t (&a)[2][1], const uint32_t (&b)[2][1]) {
    using V [[maybe_unused]] = typename wide_of<T>::type;  // on the host nothing takes it
    if constexpr (dtype_of<T> == DType::bf16) {
      MT_MFMA(d, floats16, __builtin_amdgcn_mfma_f32_32x32x8bf16_1k(operand<V>(a), operand<V>(b), c, 0, 0, 0));
    } else {
      MT_MFMA(d, floats16, __builtin_amdgcn_mfma_f32_32x32x8f16(operand<V>(a), operand<V>(b), c, 0, 0, 0));
    }
  }
};
/// The same for narrow tiles.
struct narrow_matrix_unit : mfma_loads<lds_reader, mfma_m16n16k16> {
  template <class T>
  static MT_FN void multiply(float (&d)[4][1], const uint32_t (&a)[2][1], const uint32_t (&b)[2][1]) {
    using V [[maybe_unused]] = typename wide_of<T>::type;  // on the host nothing takes it
    if constexpr (dtype_of<T> == DType::bf16) {
      MT_MFMA(d, floats4, __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(operand<V>(a), operand<V>(b), c, 0, 0, 0));
    } else {
      MT_MFMA(d, floats4, __builtin_amdgcn_mfma_f32_16x16x16f16(operand<V>(a), operand<V>(b), c, 0, 0, 0));
    }
  }
};

/// One-byte elements: fragments of eight a lane on gfx942 (mfma_m32n32k16). gfx90a takes four (mfma_m32n32k8), so it multiplies the same eight in two
/// steps: which k an element stands for then differs from the instruction's own order, alike for both operands.
template <class Arch>
MT_FN void multiply_int8(int32_t (&d)[16][1], const uint32_t (&a)[2][1], const uint32_t (&b)[2][1]) {
  if constexpr (Arch::matrices == hip::arch::matrix::mfma_cdna3) {
    MT_MFMA(d, ints16, __builtin_amdgcn_mfma_i32_32x32x16_i8(operand<long>(a), operand<long>(b), c, 0, 0, 0));
  } else {
    MT_UNROLL
    for (int w = 0; w < 2; ++w) {
      MT_MFMA(d, ints16,
              __builtin_amdgcn_mfma_i32_32x32x8i8(static_cast<int>(a[w][0]), static_cast<int>(b[w][0]), c, 0, 0, 0));
    }
  }
}
struct int8_unit : mfma_loads<lds_reader, mfma_m32n32k16, 1> {
  template <class T>
  static MT_FN void multiply(int32_t (&d)[16][1], const uint32_t (&a)[2][1], const uint32_t (&b)[2][1]) {
    multiply_int8<arch>(d, a, b);
  }
};
#if defined(__HIP_DEVICE_COMPILE__)
/// 8-bit floats of the FNUZ kind (lang/fnuz.hpp has the conversion and the factor), gfx942 alone.
template <class Arch>
MT_DEVICE void multiply_fp8_fnuz(float (&d)[16][1], const uint32_t (&a)[2][1], const uint32_t (&b)[2][1]) {
  static_assert(Arch::matrices == hip::arch::matrix::mfma_cdna3, "gfx90a has no 8-bit floats: convert to bf16");
  MT_MFMA(d, floats16, __builtin_amdgcn_mfma_f32_32x32x16_fp8_fp8(operand<long>(a), operand<long>(b), c, 0, 0, 0));
}
#endif
#undef MT_MFMA

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME
