#pragma once
// AMD: one lane per C++ thread of execution, 64 (CDNA) or 32 (RDNA) to a wave. Compiled by clang in HIP mode without ROCm's headers and
// device libraries: everything stands on the compiler's own builtins.

#include <cstdint>

#include "monotile/lang/backend/hip/arch.hpp"
#include "monotile/lang/backend/hip/dpp.hpp"
#include "monotile/lang/backend/hip/math.hpp"
#include "monotile/lang/reduction.hpp"
#include "monotile/lang/view.hpp"
#include "monotile/numeric.hpp"

#define MT_DEVICE __attribute__((device, always_inline)) inline

namespace monotile::lang::inline MONOTILE_TARGET_NAME {

using arch = hip::arch::MONOTILE_TARGET_NAME;
inline constexpr int kWave = arch::wave;  // lanes that exchange registers
inline constexpr bool kHalfSectors = false;  ///< stores of half a sector cost as much as of a whole one; not known to gain
inline constexpr int kLanes = 1;          // lanes that this C++ thread of execution stands for

// --- conversions -------------------------------------------------------------------------------------------------------------------
MT_FN float promote(float v) { return v; }
MT_FN int32_t promote(int32_t v) { return v; }
MT_FN int64_t promote(int64_t v) { return v; }
MT_FN bool promote(bool v) { return v; }
MT_FN indexed promote(indexed v) { return v; }
MT_FN sums promote(sums v) { return v; }
MT_FN float promote(half_t v) { return static_cast<float>(__builtin_bit_cast(_Float16, v.bits)); }
MT_FN float promote(bfloat16_t v) { return __builtin_bit_cast(float, static_cast<uint32_t>(v.bits) << 16); }
MT_FN float promote(int8_t v) { return static_cast<float>(v); }
MT_FN float promote(uint8_t v) { return static_cast<float>(v); }
// gfx942 converts 8-bit floats of the FNUZ kind only (another bias, another NaN); ours are OCP's, so integer code converts them.
MT_FN float promote(e4m3_t v) { return to_float(v); }
MT_FN float promote(e5m2_t v) {
  return static_cast<float>(__builtin_bit_cast(_Float16, static_cast<uint16_t>(v.bits << 8)));
}

template <class T>
struct rounding {
  static MT_FN T apply(float v) { return from_float<T>(v); }
};
template <>
struct rounding<int32_t> {
  static MT_FN int32_t apply(int32_t v) { return v; }
};
template <>
struct rounding<half_t> {
  static MT_FN half_t apply(float v) { return {__builtin_bit_cast(uint16_t, static_cast<_Float16>(v))}; }
};

// --- arithmetic --------------------------------------------------------------------------------------------------------------------
/// The instructions that the formulas stand on.
struct math_unit {
  static MT_FN float exp2(float v) {
#if defined(__HIP_DEVICE_COMPILE__)
    return __builtin_amdgcn_exp2f(v);
#else
    return __builtin_exp2f(v);
#endif
  }
  static MT_FN float log2(float v) {
#if defined(__HIP_DEVICE_COMPILE__)
    return __builtin_amdgcn_logf(v);
#else
    return __builtin_log2f(v);
#endif
  }
  static MT_FN float reciprocal(float v) {
#if defined(__HIP_DEVICE_COMPILE__)
    return __builtin_amdgcn_rcpf(v);
#else
    return 1.0f / v;
#endif
  }
  static MT_FN float reciprocal_root(float v) {
#if defined(__HIP_DEVICE_COMPILE__)
    return __builtin_amdgcn_rsqf(v);
#else
    return 1.0f / __builtin_sqrtf(v);
#endif
  }
};
using maths = hip::mathematics<math_unit>;

MT_FN float recip_sqrt(float v) { return maths::recip_sqrt(v); }
MT_FN float fast_exp2(float v) { return maths::exp2(v); }
MT_FN float fast_exp(float v) { return maths::exp(v); }
MT_FN float fast_log(float v) { return maths::log(v); }
MT_FN float fast_tanh(float v) { return maths::tanh(v); }
MT_FN float near_tanh(float v) { return maths::tanh(v); }
MT_FN float erf_of(float v) { return maths::erf(v); }
MT_FN float erfc_of(float v) { return maths::erfc(v); }
MT_FN float fast_divide(float a, float b) { return maths::divide(a, b); }
MT_FN float fma_of(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
MT_FN float max_of(float a, float b) { return __builtin_fmaxf(a, b); }
MT_FN float min_of(float a, float b) { return __builtin_fminf(a, b); }
MT_FN float abs_of(float a) { return __builtin_fabsf(a); }
MT_FN float round_even(float a) { return __builtin_rintf(a); }
template <class T>
MT_FN T select(bool condition, T a, T b) {
  return condition ? a : b;
}
MT_FN bool is_nan(float v) { return v != v; }
/// Index of the lowest bit that is set.
MT_FN int lowest_bit(uint32_t v) { return __builtin_ctz(v); }

/// The compiler may no longer know where v came from.
MT_FN void hide(float& v) {
#if defined(__HIP_DEVICE_COMPILE__)
  asm("" : "+v"(v));
#endif
}
MT_FN void hide(uint32_t& v) {
#if defined(__HIP_DEVICE_COMPILE__)
  asm volatile("" : "+v"(v));
#endif
}

// --- lanes -------------------------------------------------------------------------------------------------------------------------
#if defined(__HIP_DEVICE_COMPILE__)
MT_DEVICE int lane_of_wave() {
  const uint32_t low = __builtin_amdgcn_mbcnt_lo(~0u, 0u);
  return static_cast<int>(kWave == 64 ? __builtin_amdgcn_mbcnt_hi(~0u, low) : low);
}
/// The word of any lane of the wave.
MT_DEVICE int word_of_lane(int lane, int word) { return __builtin_amdgcn_ds_bpermute(lane * 4, word); }

template <int Control, int Banks = 15>
MT_DEVICE int dpp_move(int kept, int word) {
  return __builtin_amdgcn_update_dpp(kept, word, Control, 15, Banks, Banks == 15);
}
template <int Mask>
MT_DEVICE int word_of_neighbour(int word) {
  if constexpr (Mask < 16 && arch::lanes == hip::arch::exchange::dpp_row_xmask) {
    return dpp_move<hip::dpp::row_xmask(Mask)>(word, word);
  } else if constexpr (Mask < 16) {
    constexpr hip::dpp::move one = hip::dpp::first_move(Mask), two = hip::dpp::second_move();
    const int moved = dpp_move<one.control, one.banks>(word, word);
    if constexpr (Mask != 4) return moved;
    return dpp_move<two.control, two.banks>(moved, word);
  } else {
    return __builtin_amdgcn_ds_swizzle(word, hip::dpp::swizzle_xor(Mask));
  }
}
/// The word of lane ^ mask. Masks are powers of two and constants once loops are unrolled: then one case is left.
MT_DEVICE int word_exchanged(int word, int mask) {
  switch (mask) {
    case 1: return word_of_neighbour<1>(word);
    case 2: return word_of_neighbour<2>(word);
    case 4: return word_of_neighbour<4>(word);
    case 8: return word_of_neighbour<8>(word);
    case 16: return word_of_neighbour<16>(word);
    default: return word_of_lane(lane_of_wave() ^ mask, word);
  }
}
/// The lanes whose key is this lane's, as bits: one turn for each key of the wave.
MT_DEVICE uint64_t lanes_with(int key) {
  uint64_t mine = 0;
  for (bool open = true; open;) {
    const int first = __builtin_amdgcn_readfirstlane(key);  // of the lanes that are still in the loop
    const bool same = key == first;
    uint64_t lanes;
    if constexpr (kWave == 64) {
      lanes = __builtin_amdgcn_ballot_w64(same);
    } else {
      lanes = __builtin_amdgcn_ballot_w32(same);
    }
    if (same) mine = lanes, open = false;
  }
  return mine;
}
/// Shared memory written by this wave's lanes is seen by all of them: they run in step, so only the compiler is held back.
MT_DEVICE void wave_barrier() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "wavefront");
  __builtin_amdgcn_wave_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "wavefront");
}
/// f of each 32-bit word of v.
template <class T, class F>
MT_DEVICE T for_words(T v, F f) {
  static_assert(sizeof(T) % 4 == 0);
  struct words {
    int w[sizeof(T) / 4];
  } bits = __builtin_bit_cast(words, v);
#pragma unroll
  for (int& w : bits.w) w = f(w);
  return __builtin_bit_cast(T, bits);
}
#endif
template <class T>
MT_FN void shuffle_xor(T (&out)[1], const T (&in)[1], int mask) {
#if defined(__HIP_DEVICE_COMPILE__)
  out[0] = for_words(in[0], [=](int w) { return word_exchanged(w, mask); });
#endif
}
template <class T>
MT_FN void shuffle_up(T (&out)[1], const T (&in)[1], int distance) {
#if defined(__HIP_DEVICE_COMPILE__)
  const int lane = lane_of_wave(), from = lane >= distance ? lane - distance : lane;
  out[0] = for_words(in[0], [=](int w) { return word_of_lane(from, w); });
#endif
}

// --- memory ------------------------------------------------------------------------------------------------------------------------
/// Vector types, since a struct of words is copied in pieces where a branch meets it; pointers are told to lie in global memory, since a
/// generic access cannot be counted apart from one of shared memory.
typedef uint32_t words4 __attribute__((ext_vector_type(4)));
typedef uint32_t words2 __attribute__((ext_vector_type(2)));
#if defined(__HIP_DEVICE_COMPILE__)
#define MT_GLOBAL __attribute__((address_space(1)))
#else
#define MT_GLOBAL
#endif

struct alignas(16) vector16 {
  uint32_t word[4];
};
MT_FN vector16 load16(const void* p) {
  const words4 q = *(const MT_GLOBAL words4*)p;  // NOLINT: a change of address space
  return {{q.x, q.y, q.z, q.w}};
}
MT_FN vector16 load16_mutable(const void* p) { return load16(p); }
MT_FN vector16 load16_stream(const void* p) { return load16(p); }
/// To global memory only.
MT_FN void store16(void* p, const vector16& v) {
  *(MT_GLOBAL words4*)p = words4{v.word[0], v.word[1], v.word[2], v.word[3]};  // NOLINT
}
MT_FN void store16_stream(void* p, const vector16& v) { store16(p, v); }

struct alignas(8) vector8 {
  uint32_t word[2];
};
/// 8 bytes at an address aligned to them: vectors of one-byte codes.
MT_FN vector8 load8(const void* p) {
  const words2 q = *(const MT_GLOBAL words2*)p;  // NOLINT
  return {{q.x, q.y}};
}
MT_FN void store8(void* p, const vector8& v) {
  *(MT_GLOBAL words2*)p = words2{v.word[0], v.word[1]};  // NOLINT
}
/// Eight values as codes of one byte.
template <class T>
MT_FN vector8 pack_codes(const float* v) {
  vector8 out{};
  MT_UNROLL
  for (int i = 0; i < 8; ++i) {
    out.word[i / 4] |= static_cast<uint32_t>(__builtin_bit_cast(uint8_t, rounding<T>::apply(v[i]))) << (8 * (i % 4));
  }
  return out;
}
/// The values of eight codes.
template <class T>
MT_FN void unpack_codes(float* v, const vector8& codes) {
  for (int i = 0; i < 8; ++i) {
    v[i] = promote(__builtin_bit_cast(T, static_cast<uint8_t>(codes.word[i / 4] >> (8 * (i % 4)))));
  }
}

/// What a program knows of its place. Scratch lives in shared memory (LDS).
struct Context {
  int64_t program;
  int threads;
  unsigned char* slots;    // two slots for values that cross waves
  unsigned char* scratch;  // grid.scratch_bytes
  int turn = 0;

  MT_FN int thread(int) const {
#if defined(__HIP_DEVICE_COMPILE__)
    return static_cast<int>(__builtin_amdgcn_workitem_id_x());
#else
    return 0;
#endif
  }
  MT_FN void barrier() const {
#if defined(__HIP_DEVICE_COMPILE__)
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
#endif
  }
};

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME
