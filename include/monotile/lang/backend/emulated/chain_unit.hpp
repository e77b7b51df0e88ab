#pragma once
// Chained products on the emulated GPUs: reads across, copies, rounding.

#include "monotile/lang/backend/emulated/launch_tiles.hpp"
#include "monotile/lang/backend/simt/mfma.hpp"

namespace monotile::lang::inline MONOTILE_TARGET_NAME {

inline constexpr bool kHasChains = true;

/// Where byte `byte` of a chunk of row `row` lies in it.
inline int element_byte(int row, int byte) { return kWave == 64 ? mfma_half(row, byte) : byte; }

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
  /// ds_read_u16 into one half of a word.
  static void read_half(uint32_t (&words)[kLanes], const unsigned char* const (&from)[kLanes], int half) {
    for (int l = 0; l < kLanes; ++l) {
      uint16_t element;
      std::memcpy(&element, from[l], 2);
      emulated::note_read(from[l], 2);
      words[l] = half == 0 ? element : (words[l] & 0xffffu) | static_cast<uint32_t>(element) << 16;
    }
    emulated::count_shared_access(from, kLanes, 4);
  }
};

/// Copies that are there at once, the halves of chunks where MFMA looks for them.
struct direct_queue {
  void add(unsigned char* to, const void* from, int bytes, int, int row, int) {
    if (bytes != 0 && reinterpret_cast<uintptr_t>(from) % 16 != 0) misaligned_access(from);
    vector16 v{};
    std::memcpy(&v, from, static_cast<size_t>(bytes));
    put(to, v, row, 0);
  }
  void put(unsigned char* to, const vector16& v, int row, int) {
    if (reinterpret_cast<uintptr_t>(to) % 16 != 0) misaligned_access(to);
    emulated::note_write(to, 16);
    const auto* bytes = reinterpret_cast<const unsigned char*>(&v);
    std::memcpy(to + element_byte(row, 0), bytes, 8);
    std::memcpy(to + element_byte(row, 8), bytes + 8, 8);
  }
  void close_group() {}
  template <int Open>
  void wait() {}
};
using chain_queue = std::conditional_t<kWave == 32, ring_queue, direct_queue>;

/// Two values as 16-bit floats, the first in the low half: ties to even.
template <class T>
inline uint32_t round_pair(float low, float high) {
  return static_cast<uint32_t>(from_float<T>(high).bits) << 16 | from_float<T>(low).bits;
}
inline vector16 load_shared16(const unsigned char* p) { return load16(p); }
/// The lanes of a wave run side by side.
inline void wave_sync() {}
/// Hides from the compilers of GPUs where a value comes from.
inline int unforeseen(int v) { return v; }
/// 2^x; what is below 2^-126 becomes 0. For weights that are added up and rounded to 16 bits.
inline float weight_exp2(float x) { return x < -126.0f ? 0.0f : std::exp2(x); }

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME

#include "monotile/lang/backend/simt/chain_unit.hpp"

namespace monotile::lang::inline MONOTILE_TARGET_NAME {

using chain_unit = std::conditional_t<kWave == 32, mma_chain_unit<matrix_unit, across_reads>,
                                      mfma_chain_unit<matrix_unit, across_reads>>;

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME
