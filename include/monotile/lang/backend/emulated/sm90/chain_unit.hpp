#pragma once
// The emulated sm_90a: what cuda/chain_unit.hpp is to the chip.

#include <cmath>

#include "monotile/lang/backend/emulated/sm90/launch_tiles.hpp"

namespace monotile::lang::inline MONOTILE_TARGET_NAME {

inline constexpr bool kHasChains = true;

struct across_reads {
  static void read4_across(uint32_t (&r)[4][1], const unsigned char* const (&row)[1]) {
    read_matrices<true>(r, shared_address(row[0]));
  }
};
using chain_queue = copy_queue;

template <class T>
inline uint32_t round_pair(float low, float high) {
  return hopper::pack<T>(low, high);
}
inline vector16 load_shared16(const unsigned char* p) {
  if (reinterpret_cast<uintptr_t>(p) % 16 != 0) misaligned_access(p);
  emulated::note_shared_read(shared_address(p), 16);
  vector16 v;
  std::memcpy(&v, p, 16);
  return v;
}
inline int unforeseen(int v) { return v; }
inline float computed_here(float v) { return v; }
inline float weight_exp2(float x) { return x < -126.0f ? 0.0f : std::exp2(x); }

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME

#include "monotile/lang/backend/simt/chain_unit.hpp"

namespace monotile::lang::inline MONOTILE_TARGET_NAME {

using chain_unit = mma_chain_unit<matrix_unit, across_reads>;

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME
