#pragma once
// NVIDIA: one lane per C++ thread of execution, 32 to a wave.

#include <cstdint>

#include "monotile/lang/reduction.hpp"
#include "monotile/lang/view.hpp"
#include "monotile/numeric.hpp"

namespace monotile::lang::inline MONOTILE_TARGET_NAME {

inline constexpr int kWave = 32;   // lanes that exchange registers
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
inline constexpr bool kHalfSectors = false;  // not known to gain there, and RMSNorm to codes would spill
#else
/// Stores of half a sector cost as much as of a whole one; H200, 2026-12-01: residual norm 16384 x 4096 fp32 287 us, with whole sectors 266.
inline constexpr bool kHalfSectors = true;
#endif
inline constexpr int kLanes = 1;   // lanes that this C++ thread of execution stands for

// --- conversions -------------------------------------------------------------------------------------------------------------------
MT_FN float promote(float v) { return v; }
MT_FN int32_t promote(int32_t v) { return v; }
MT_FN int64_t promote(int64_t v) { return v; }
MT_FN bool promote(bool v) { return v; }
MT_FN indexed promote(indexed v) { return v; }
MT_FN sums promote(sums v) { return v; }
MT_FN float promote(half_t v) {
#if defined(__CUDA_ARCH__)
  float r;
  asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(v.bits));
  return r;
#else
  return to_float(v);
#endif
}
MT_FN float promote(bfloat16_t v) { return __builtin_bit_cast(float, static_cast<uint32_t>(v.bits) << 16); }

MT_FN float promote(int8_t v) { return static_cast<float>(v); }
MT_FN float promote(uint8_t v) { return static_cast<float>(v); }
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
MT_FN float promote(e4m3_t v) {
  uint32_t pair;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(pair) : "h"(static_cast<uint16_t>(v.bits)));
  return promote(half_t{static_cast<uint16_t>(pair)});
}
MT_FN float promote(e5m2_t v) { return promote(half_t{static_cast<uint16_t>(v.bits << 8)}); }
#else
MT_FN float promote(e4m3_t v) { return to_float(v); }
MT_FN float promote(e5m2_t v) { return to_float(v); }
#endif

template <class T>
struct rounding;
template <>
struct rounding<float> {
  static MT_FN float apply(float v) { return v; }
};
template <>
struct rounding<int32_t> {
  static MT_FN int32_t apply(int32_t v) { return v; }
};
template <>
struct rounding<half_t> {
  static MT_FN half_t apply(float v) {
#if defined(__CUDA_ARCH__)
    half_t r;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r.bits) : "f"(v));
    return r;
#else
    return from_float<half_t>(v);
#endif
  }
};
template <>
struct rounding<bfloat16_t> {
  static MT_FN bfloat16_t apply(float v) {
#if defined(__CUDA_ARCH__)
    bfloat16_t r;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(r.bits) : "f"(v));
    return r;
#else
    return from_float<bfloat16_t>(v);
#endif
  }
};

/// Two values as 8-bit floats, the first in the low byte: saturating, ties to even, one NaN code.
template <class T>
MT_FN uint32_t pack_pair(float low, float high) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  uint16_t pair;
  if constexpr (sizeof(T) == sizeof(e4m3_t) && dtype_of<T> == DType::f8_e4m3) {
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
  } else {
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
  }
  return pair;
#else
  return from_float<T>(low).bits | static_cast<uint32_t>(from_float<T>(high).bits) << 8;
#endif
}
template <>
struct rounding<e4m3_t> {
  static MT_FN e4m3_t apply(float v) { return {static_cast<uint8_t>(pack_pair<e4m3_t>(v, 0.0f))}; }
};
template <>
struct rounding<e5m2_t> {
  static MT_FN e5m2_t apply(float v) { return {static_cast<uint8_t>(pack_pair<e5m2_t>(v, 0.0f))}; }
};
template <>
struct rounding<uint8_t> {
  static MT_FN uint8_t apply(float v) { return static_cast<uint8_t>(static_cast<int32_t>(v)); }
};
template <>
struct rounding<int8_t> {
  static MT_FN int8_t apply(float v) {
#if defined(__CUDA_ARCH__)
    const int32_t i = __float2int_rn(v);  // NaN gives 0, what is too large the ends
    return static_cast<int8_t>(i < -128 ? -128 : i > 127 ? 127 : i);
#else
    return from_float<int8_t>(v);
#endif
  }
};

// --- arithmetic --------------------------------------------------------------------------------------------------------------------
MT_FN float recip_sqrt(float v) { return rsqrtf(v); }
/// Underflows to 0 below -126, as it does on CPU: powers that are added up or rounded to 16 bits pay for no denormals.
MT_FN float fast_exp2(float v) {
#if defined(__CUDA_ARCH__)
  float r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(v));
  return r;
#else
  return exp2f(v);
#endif
}
MT_FN float fast_exp(float v) { return expf(v); }
MT_FN float fast_log(float v) { return logf(v); }
MT_FN float fast_tanh(float v) { return tanhf(v); }
MT_FN float erf_of(float v) { return erff(v); }
MT_FN float erfc_of(float v) { return erfcf(v); }
/// a / b to 2 units in the last place; 0 where b is above 2^126.
MT_FN float fast_divide(float a, float b) {
#if defined(__CUDA_ARCH__)
  return __fdividef(a, b);
#else
  return a / b;
#endif
}
/// tanh to 2^-21 of 1, in five instructions without a branch. The instruction for it has 11 bits: too few for an exponent.
MT_FN float near_tanh(float v) { return 1.0f - fast_divide(2.0f, 1.0f + fast_exp2(v * 2.88539008f)); }
MT_FN float fma_of(float a, float b, float c) { return fmaf(a, b, c); }
MT_FN float max_of(float a, float b) { return fmaxf(a, b); }
MT_FN float min_of(float a, float b) { return fminf(a, b); }
MT_FN float abs_of(float a) { return fabsf(a); }
MT_FN float round_even(float a) { return rintf(a); }
template <class T>
MT_FN T select(bool condition, T a, T b) { return condition ? a : b; }
MT_FN bool is_nan(float v) { return v != v; }
/// Index of the lowest bit that is set.
MT_FN int lowest_bit(uint32_t v) {
#if defined(__CUDA_ARCH__)
  return __ffs(static_cast<int>(v)) - 1;
#else
  return __builtin_ctz(v);
#endif
}

/// The compiler may no longer know where v came from.
MT_FN void hide(uint32_t& v) {
#if defined(__CUDA_ARCH__)
  asm volatile("" : "+r"(v));
#endif
}

// --- lanes -------------------------------------------------------------------------------------------------------------------------
template <class T>
__device__ __forceinline__ T shuffle_xor_one(T v, int mask) {
  return __shfl_xor_sync(0xffffffffu, v, mask);
}
__device__ __forceinline__ indexed shuffle_xor_one(indexed v, int mask) {
  return {__shfl_xor_sync(0xffffffffu, v.value, mask), __shfl_xor_sync(0xffffffffu, v.index, mask)};
}
__device__ __forceinline__ sums shuffle_xor_one(sums v, int mask) {
  return {__shfl_xor_sync(0xffffffffu, v.first, mask), __shfl_xor_sync(0xffffffffu, v.second, mask)};
}
template <class T>
MT_FN void shuffle_xor(T (&out)[1], const T (&in)[1], int mask) {
#if defined(__CUDA_ARCH__)
  out[0] = shuffle_xor_one(in[0], mask);
#endif
}
template <class T>
MT_FN void shuffle_up(T (&out)[1], const T (&in)[1], int distance) {
#if defined(__CUDA_ARCH__)
  out[0] = __shfl_up_sync(0xffffffffu, in[0], distance);
#endif
}

struct alignas(16) vector16 {
  uint32_t word[4];
};
/// 16 bytes at an aligned address, read once and not kept.
MT_FN vector16 load16(const void* p) {
#if defined(__CUDA_ARCH__)
#if __CUDA_ARCH__ >= 900
  const uint4 q = *static_cast<const uint4*>(p);  // not by the read-only path: that may be moved ahead of the wait for the kernel before
#else
  const uint4 q = __ldg(static_cast<const uint4*>(p));
#endif
  return {{q.x, q.y, q.z, q.w}};
#else
  return {};
#endif
}
MT_FN vector16 load16_mutable(const void* p) {
#if defined(__CUDA_ARCH__)
  const uint4 q = *static_cast<const uint4*>(p);
  return {{q.x, q.y, q.z, q.w}};
#else
  return {};
#endif
}
/// The `stream` hint is a plain access here. H200, 2026-11-29, residual norm 16384 x 4096 fp16: plain 135.6 us, .cs stores 138.0, .cs loads and
/// stores 143.9, L1::no_allocate loads and .cs stores 146.0 (docs/notes/add-rms-norm-h200.md).
MT_FN vector16 load16_stream(const void* p) { return load16_mutable(p); }
/// To global memory only. In assembly because nvcc splits a plain 16-byte store into four where a loop moves the pointer.
MT_FN void store16(void* p, const vector16& v) {
#if defined(__CUDA_ARCH__)
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(p), "r"(v.word[0]), "r"(v.word[1]), "r"(v.word[2]), "r"(v.word[3]) : "memory");
#endif
}
MT_FN void store16_stream(void* p, const vector16& v) { store16(p, v); }

struct alignas(8) vector8 {
  uint32_t word[2];
};
/// 8 bytes at an address aligned to them: vectors of one-byte codes.
MT_FN vector8 load8(const void* p) {
#if defined(__CUDA_ARCH__)
  const uint2 q = *static_cast<const uint2*>(p);
  return {{q.x, q.y}};
#else
  return {};
#endif
}
MT_FN void store8(void* p, const vector8& v) {
#if defined(__CUDA_ARCH__)
  asm volatile("st.global.v2.u32 [%0], {%1, %2};" ::"l"(p), "r"(v.word[0]), "r"(v.word[1]) : "memory");
#endif
}
/// Eight values as codes of one byte.
template <class T>
MT_FN vector8 pack_codes(const float* v) {
  vector8 out{};
#if defined(__CUDA_ARCH__)
  MT_UNROLL
  for (int w = 0; w < 2; ++w) {
    const float* const q = v + 4 * w;
    if constexpr (dtype_of<T> == DType::i8) {
      uint32_t upper;
      asm("cvt.pack.sat.s8.s32.b32 %0, %1, %2, %3;" : "=r"(upper) : "r"(__float2int_rn(q[3])), "r"(__float2int_rn(q[2])), "r"(0));
      asm("cvt.pack.sat.s8.s32.b32 %0, %1, %2, %3;" : "=r"(out.word[w]) : "r"(__float2int_rn(q[1])), "r"(__float2int_rn(q[0])), "r"(upper));
    } else {
      out.word[w] = pack_pair<T>(q[0], q[1]) | pack_pair<T>(q[2], q[3]) << 16;
    }
  }
#endif
  return out;
}
/// The values of eight codes.
template <class T>
MT_FN void unpack_codes(float* v, const vector8& codes) {
  MT_UNROLL
  for (int i = 0; i < 8; i += 2) {
    const uint32_t pair = codes.word[i / 4] >> (8 * (i % 4));
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
    if constexpr (dtype_of<T> != DType::i8) {
      uint32_t halves;
      if constexpr (dtype_of<T> == DType::f8_e4m3) {
        asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(static_cast<uint16_t>(pair)));
      } else {
        asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(halves) : "h"(static_cast<uint16_t>(pair)));
      }
      v[i] = promote(half_t{static_cast<uint16_t>(halves)});
      v[i + 1] = promote(half_t{static_cast<uint16_t>(halves >> 16)});
      continue;
    }
#endif
    v[i] = promote(__builtin_bit_cast(T, static_cast<uint8_t>(pair)));
    v[i + 1] = promote(__builtin_bit_cast(T, static_cast<uint8_t>(pair >> 8)));
  }
}

/// What a program knows of its place. Scratch lives in shared memory.
struct Context {
  int64_t program;
  int threads;
  unsigned char* slots;    // two slots for values that cross waves
  unsigned char* scratch;  // grid.scratch_bytes
  int turn = 0;

  MT_FN int thread(int) const {
#if defined(__CUDA_ARCH__)
    return static_cast<int>(threadIdx.x);
#else
    return 0;
#endif
  }
  MT_FN void barrier() const {
#if defined(__CUDA_ARCH__)
    __syncthreads();
#endif
  }
};

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME
