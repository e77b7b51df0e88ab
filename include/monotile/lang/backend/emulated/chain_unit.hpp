#pragma once
// Chained products on the emulated GPUs: reads across, copies, rounding.

#include "monotile/lang/backend/emulated/launch_tiles.hpp"

namespace monotile::lang::inline MONOTILE_TARGET_NAME {

inline constexpr bool kHasChains = true;

/// 64 lanes copy by way of registers (simt/chain_staged.hpp).
struct no_queue {};

struct across_reads {
  /// ldmatrix, each 8 x 8 matrix transposed.
  static void read4_across(uint32_t (&r)[4][kLanes], const unsigned char* const (&row)[kLanes]) {
    for (int i = 0; i < 4; ++i) {
      emulated::count_shared_access(row + 8 * i, 8, 16);
      for (int j = 0; j < 8; ++j) emulated::note_read(row[8 * i + j], 16);
      for (int l = 0; l < 32; ++l) {
        uint16_t low, high;
        std::memcpy(&low, row[8 * i + l % 4 * 2] + l / 4 * 2, 2);
        std::memcpy(&high, row[8 * i + l % 4 * 2 + 1] + l / 4 * 2, 2);
        r[i][l] = static_cast<uint32_t>(high) << 16 | low;
      }
    }
  }
};
using chain_queue = std::conditional_t<kWave == 32, ring_queue, no_queue>;

/// Words of a lane into shared memory: ds_write_b32, b64 and b128.
template <int Words>
inline void store_shared(unsigned char* const (&to)[kLanes], const uint32_t (&words)[Words][kLanes]) {
  for (int l = 0; l < kLanes; ++l) {
    if (reinterpret_cast<uintptr_t>(to[l]) % (4 * Words) != 0) misaligned_access(to[l]);
    emulated::note_write(to[l], 4 * Words);
    for (int w = 0; w < Words; ++w) std::memcpy(to[l] + 4 * w, &words[w][l], 4);
  }
  emulated::count_shared_access(to, kLanes, 4 * Words, emulated::Phases::consecutive);
}
/// Two values as 16-bit floats, the first in the low half: ties to even.
template <class T>
inline uint32_t round_pair(float low, float high) {
  return static_cast<uint32_t>(from_float<T>(high).bits) << 16 | from_float<T>(low).bits;
}
inline vector16 load_shared16(const unsigned char* p) {
  if (reinterpret_cast<uintptr_t>(p) % 16 != 0) misaligned_access(p);
  vector16 v;
  std::memcpy(&v, p, 16);
  return v;
}
/// From any lane of the wave.
template <class T>
inline void shuffle_from(T (&out)[kLanes], const T (&in)[kLanes], const int (&lane)[kLanes]) {
  for (int l = 0; l < kLanes; ++l) out[l] = in[lane[l]];
}
/// A value that all lanes share, told to the compiler.
inline bool same_for_all(bool v) { return v; }
/// Hides from the compilers of GPUs where a value comes from.
inline int unforeseen(int v) { return v; }
/// And that it could be computed later.
inline float computed_here(float v) { return v; }
/// 2^x; what is below 2^-126 becomes 0. For weights that are added up and rounded to 16 bits.
inline float weight_exp2(float x) { return x < -126.0f ? 0.0f : std::exp2(x); }

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME

#include "monotile/lang/backend/simt/chain_unit.hpp"

namespace monotile::lang::inline MONOTILE_TARGET_NAME {

using chain_unit =
    std::conditional_t<kWave == 32, mma_chain_unit<matrix_unit, across_reads>, mfma_chain_unit<matrix_unit>>;

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME
