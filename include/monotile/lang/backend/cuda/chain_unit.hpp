#pragma once
// Chained products on NVIDIA: reads across, copies, rounding.

#include "monotile/lang/backend/cuda/launch_tiles.hpp"

namespace monotile::lang::inline MONOTILE_TARGET_NAME {

inline constexpr bool kHasChains = true;

struct across_reads {
  /// ldmatrix, each 8 x 8 matrix transposed.
  static MT_DEVICE void read4_across(uint32_t (&r)[4][1], const unsigned char* const (&row)[1]) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0][0]), "=r"(r[1][0]), "=r"(r[2][0]), "=r"(r[3][0])
                 : "r"(shared_address(row[0]))
                 : "memory");
  }
};
using chain_queue = copy_queue;

/// Two values as 16-bit floats, the first in the low half: ties to even.
template <class T>
MT_DEVICE uint32_t round_pair(float low, float high) {
  return hopper::pack<T>(low, high);
}
MT_DEVICE vector16 load_shared16(const unsigned char* p) {
  vector16 v;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.word[0]), "=r"(v.word[1]), "=r"(v.word[2]), "=r"(v.word[3])
               : "r"(shared_address(p))
               : "memory");
  return v;
}
/// v, but the compiler does not know: nothing that follows from it is computed earlier.
MT_FN int unforeseen(int v) {
#if defined(__CUDA_ARCH__)
  asm volatile("" : "+r"(v)::"memory");
#endif
  return v;
}
/// v; the compiler may put it where it is used, which it does well.
MT_FN float computed_here(float v) { return v; }
/// 2^x; what is below 2^-126 becomes 0. For weights that are added up and rounded to 16 bits.
MT_FN float weight_exp2(float x) {
#if defined(__CUDA_ARCH__)
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return exp2f(x);
#endif
}

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME

#include "monotile/lang/backend/simt/chain_unit.hpp"

namespace monotile::lang::inline MONOTILE_TARGET_NAME {

using chain_unit = mma_chain_unit<matrix_unit, across_reads>;

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME
