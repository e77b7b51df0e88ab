#pragma once
// SPIR-V devices through OpenCL. Subgroups, 16-bit arithmetic (hence conversions by integers) and shuffles are optional there, so that none is used: a work-item stands for a
// whole wave and keeps the registers of its 32 lanes side by side, as the emulator does; a shuffle is a move between them. What is left to
// the device is a barrier between the waves of a program, local memory and fp32 arithmetic.

#include <cstddef>
#include <cstdint>

#include "monotile/lang/backend/conversions.hpp"
#include "monotile/lang/reduction.hpp"
#include "monotile/lang/view.hpp"
#include "monotile/numeric.hpp"

#define MT_DEVICE_CALL __attribute__((device))

namespace monotile::lang::inline MONOTILE_TARGET_NAME {

inline constexpr int kWave = 32;
inline constexpr bool kHalfSectors = false;  ///< stores of half a sector cost as much as of a whole one
inline constexpr int kLanes = 32;

/// Functions of the device's own library, under the names that its compiler gives them.
namespace opencl {
MT_DEVICE_CALL size_t group_id(unsigned dimension) __asm__("_Z12get_group_idj");
MT_DEVICE_CALL size_t local_id(unsigned dimension) __asm__("_Z12get_local_idj");
MT_DEVICE_CALL size_t local_size(unsigned dimension) __asm__("_Z14get_local_sizej");
MT_DEVICE_CALL __attribute__((convergent)) void barrier(unsigned fences) __asm__("_Z7barrierj");
MT_DEVICE_CALL float exp(float) __asm__("_Z3expf");
MT_DEVICE_CALL float exp2(float) __asm__("_Z4exp2f");
MT_DEVICE_CALL float log(float) __asm__("_Z3logf");
MT_DEVICE_CALL float sqrt(float) __asm__("_Z4sqrtf");
MT_DEVICE_CALL float tanh(float) __asm__("_Z4tanhf");
MT_DEVICE_CALL float erf(float) __asm__("_Z3erff");
MT_DEVICE_CALL float erfc(float) __asm__("_Z4erfcf");
MT_DEVICE_CALL float fma(float, float, float) __asm__("_Z3fmafff");
MT_DEVICE_CALL float fmax(float, float) __asm__("_Z4fmaxff");
MT_DEVICE_CALL float fmin(float, float) __asm__("_Z4fminff");
MT_DEVICE_CALL float fabs(float) __asm__("_Z4fabsf");
MT_DEVICE_CALL float rint(float) __asm__("_Z4rintf");
/// Of local memory: the counters that waves share lie there.
typedef __attribute__((address_space(3))) int32_t local_int;
MT_DEVICE_CALL inline void atomic_increment(int32_t* counter) {
  __atomic_fetch_add((local_int*)counter, 1, __ATOMIC_RELAXED);
}
inline constexpr unsigned kLocalAndGlobal = 3;  // CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE
}  // namespace opencl

/// Words are host and device functions; only the device's half has anything to call.
#if defined(__HIP_DEVICE_COMPILE__)
#define MT_ON_DEVICE(...) __VA_ARGS__
#else
#define MT_ON_DEVICE(...) \
  do {                    \
  } while (false)
#endif

// --- arithmetic --------------------------------------------------------------------------------------------------------------------
#define MT_MATHS(name, call)   \
  MT_FN float name(float v) {  \
    MT_ON_DEVICE(return call); \
    return v;                  \
  }
MT_MATHS(recip_sqrt, 1.0f / opencl::sqrt(v))
MT_MATHS(fast_exp2, opencl::exp2(v))
MT_MATHS(fast_exp, opencl::exp(v))
MT_MATHS(fast_log, opencl::log(v))
MT_MATHS(fast_tanh, opencl::tanh(v))
MT_MATHS(near_tanh, opencl::tanh(v))
MT_MATHS(erf_of, opencl::erf(v))
MT_MATHS(erfc_of, opencl::erfc(v))
MT_MATHS(abs_of, opencl::fabs(v))
MT_MATHS(round_even, opencl::rint(v))
#undef MT_MATHS
MT_FN float fast_divide(float a, float b) { return a / b; }
MT_FN float fma_of(float a, float b, float c) {
  MT_ON_DEVICE(return opencl::fma(a, b, c));
  return c;
}
MT_FN float max_of(float a, float b) {
  MT_ON_DEVICE(return opencl::fmax(a, b));
  return a;
}
MT_FN float min_of(float a, float b) {
  MT_ON_DEVICE(return opencl::fmin(a, b));
  return a;
}
template <class T>
MT_FN T select(bool condition, T a, T b) {
  return condition ? a : b;
}
MT_FN bool is_nan(float v) { return v != v; }
MT_FN int lowest_bit(uint32_t v) { return __builtin_ctz(v); }
MT_FN void hide(uint32_t&) {}

// --- lanes -------------------------------------------------------------------------------------------------------------------------
template <class T>
MT_FN void shuffle_xor(T (&out)[kLanes], const T (&in)[kLanes], int mask) {
  T copy[kLanes];
  for (int l = 0; l < kLanes; ++l) copy[l] = in[l ^ mask];
  for (int l = 0; l < kLanes; ++l) out[l] = copy[l];
}
template <class T>
MT_FN void shuffle_up(T (&out)[kLanes], const T (&in)[kLanes], int distance) {
  T copy[kLanes];
  for (int l = 0; l < kLanes; ++l) copy[l] = in[l >= distance ? l - distance : l];
  for (int l = 0; l < kLanes; ++l) out[l] = copy[l];
}

// --- vectors -----------------------------------------------------------------------------------------------------------------------
// Moved as vector types: a copy of a struct may be split into bytes, or merged with the guarded element path into odd widths.
typedef uint32_t uint4_words __attribute__((ext_vector_type(4)));
typedef uint32_t uint2_words __attribute__((ext_vector_type(2)));

struct alignas(16) vector16 {
  uint32_t word[4];
};
MT_FN vector16 load16(const void* p) {
  const uint4_words v = *static_cast<const uint4_words*>(p);
  return {{v[0], v[1], v[2], v[3]}};
}
MT_FN vector16 load16_mutable(const void* p) { return load16(p); }
MT_FN vector16 load16_stream(const void* p) { return load16(p); }
MT_FN void store16(void* p, const vector16& v) {
  *static_cast<uint4_words*>(p) = uint4_words{v.word[0], v.word[1], v.word[2], v.word[3]};
}
MT_FN void store16_stream(void* p, const vector16& v) { store16(p, v); }

struct alignas(8) vector8 {
  uint32_t word[2];
};
MT_FN vector8 load8(const void* p) {
  const uint2_words v = *static_cast<const uint2_words*>(p);
  return {{v[0], v[1]}};
}
MT_FN void store8(void* p, const vector8& v) { *static_cast<uint2_words*>(p) = uint2_words{v.word[0], v.word[1]}; }
/// Eight values as codes of one byte.
template <class T>
MT_FN vector8 pack_codes(const float* v) {
  vector8 out{};
  for (int i = 0; i < 8; ++i) {
    out.word[i / 4] |= static_cast<uint32_t>(__builtin_bit_cast(uint8_t, from_float<T>(v[i]))) << (8 * (i % 4));
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

struct Context {
  int64_t program;
  int threads;
  unsigned char* slots;
  unsigned char* scratch;
  int turn = 0;
  int wave = 0;

  MT_FN int thread(int lane) const { return wave * kWave + lane; }
  MT_FN void barrier() const {
    MT_ON_DEVICE(opencl::barrier(opencl::kLocalAndGlobal));
  }
};

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME
