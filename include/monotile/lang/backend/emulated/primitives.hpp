#pragma once
// A GPU on the CPU: every wave is a fibre with real barriers; a tile keeps the registers of all its lanes side by side. The layouts,
// shuffles and reduction trees are those of the GPU path (lang/backend/simt). With MONOTILE_LANE_FIBRES every lane is a fibre, as kernels are written
// that give the lanes of a program different things to do (emulated/machine.hpp).

#include <cmath>
#include <cstdint>
#include <cstring>

#include "monotile/lang/backend/emulated/fibre.hpp"
#include "monotile/lang/backend/emulated/global_memory.hpp"
#include "monotile/lang/backend/emulated/lanes.hpp"
#include "monotile/lang/backend/conversions.hpp"
#include "monotile/lang/reduction.hpp"
#include "monotile/lang/view.hpp"
#include "monotile/numeric.hpp"

namespace monotile::lang::inline MONOTILE_TARGET_NAME {

inline constexpr int kWave = MONOTILE_WAVE;
inline constexpr bool kHalfSectors = true;  ///< stores of half a sector cost as much as of a whole one; as on NVIDIA
#if defined(MONOTILE_LANE_FIBRES)
inline constexpr int kLanes = 1;
#else
inline constexpr int kLanes = MONOTILE_WAVE;
#endif

MT_FN float recip_sqrt(float v) { return 1.0f / std::sqrt(v); }
MT_FN float fast_exp2(float v) { return std::exp2(v); }
MT_FN float fast_exp(float v) { return std::exp(v); }
MT_FN float fast_log(float v) { return std::log(v); }
MT_FN float fast_tanh(float v) { return std::tanh(v); }
MT_FN float near_tanh(float v) { return 1.0f - 2.0f / (1.0f + std::exp2(v * 2.88539008f)); }
MT_FN float erf_of(float v) { return std::erf(v); }
MT_FN float erfc_of(float v) { return std::erfc(v); }
MT_FN float fast_divide(float a, float b) { return a / b; }
MT_FN float fma_of(float a, float b, float c) { return std::fma(a, b, c); }
MT_FN float max_of(float a, float b) { return std::fmax(a, b); }
MT_FN float min_of(float a, float b) { return std::fmin(a, b); }
MT_FN float abs_of(float a) { return std::fabs(a); }
MT_FN float round_even(float a) { return std::nearbyint(a); }
template <class T>
MT_FN T select(bool condition, T a, T b) {
  return condition ? a : b;
}
MT_FN bool is_nan(float v) { return v != v; }
MT_FN int lowest_bit(uint32_t v) { return __builtin_ctz(v); }
MT_FN void hide(uint32_t&) {}

template <class T>
MT_FN void shuffle_xor(T (&out)[kLanes], const T (&in)[kLanes], int mask) {
  if constexpr (kLanes == 1) {
    emulated::shuffle(out[0], in[0], [mask](int lane) { return lane ^ mask; });
    return;
  }
  T copy[kLanes];
  if (mask == kWave / 2 && emulated::planted(emulated::Fault::wave_width)) mask = 0;
  for (int l = 0; l < kLanes; ++l) copy[l] = in[l ^ mask];
  for (int l = 0; l < kLanes; ++l) out[l] = copy[l];
}
template <class T>
MT_FN void shuffle_up(T (&out)[kLanes], const T (&in)[kLanes], int distance) {
  if constexpr (kLanes == 1) {
    emulated::shuffle(out[0], in[0], [distance](int lane) { return lane >= distance ? lane - distance : lane; });
    return;
  }
  T copy[kLanes];
  for (int l = 0; l < kLanes; ++l) copy[l] = in[l >= distance ? l - distance : l];
  for (int l = 0; l < kLanes; ++l) out[l] = copy[l];
}

struct alignas(16) vector16 {
  uint32_t word[4];
};
[[noreturn]] void misaligned_access(const void* p);
/// Global memory; aborts on an address that the GPU would refuse.
inline vector16 load16(const void* p) {
  if (reinterpret_cast<uintptr_t>(p) % 16 != 0) misaligned_access(p);
  emulated::note_global_load(p, 16);
  vector16 v;
  std::memcpy(&v, p, 16);
  return v;
}
inline vector16 load16_mutable(const void* p) { return load16(p); }
inline vector16 load16_stream(const void* p) { return load16(p); }
inline void store16(void* p, const vector16& v) {
  if (reinterpret_cast<uintptr_t>(p) % 16 != 0) misaligned_access(p);
  emulated::note_global_store(p, 16);
  std::memcpy(p, &v, 16);
}
inline void store16_stream(void* p, const vector16& v) { store16(p, v); }

struct alignas(8) vector8 {
  uint32_t word[2];
};
inline vector8 load8(const void* p) {
  if (reinterpret_cast<uintptr_t>(p) % 8 != 0) misaligned_access(p);
  emulated::note_global_load(p, 8);
  vector8 v;
  std::memcpy(&v, p, 8);
  return v;
}
inline void store8(void* p, const vector8& v) {
  if (reinterpret_cast<uintptr_t>(p) % 8 != 0) misaligned_access(p);
  emulated::note_global_store(p, 8);
  std::memcpy(p, &v, 8);
}
/// Eight values as codes of one byte.
template <class T>
vector8 pack_codes(const float* v) {
  T codes[8];
  for (int i = 0; i < 8; ++i) codes[i] = from_float<T>(v[i]);
  vector8 out;
  std::memcpy(&out, codes, 8);
  return out;
}
/// The values of eight codes.
template <class T>
void unpack_codes(float* v, const vector8& codes) {
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
  int first_thread = 0;   // of this fibre
  void* fibre = nullptr;  // the scheduler's

  int thread(int lane) const { return first_thread + lane; }
  void barrier() const;
};

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME
