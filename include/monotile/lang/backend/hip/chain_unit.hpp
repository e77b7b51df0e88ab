#pragma once
// Chained products on AMD: words in shared memory, rounding.

#include "monotile/lang/backend/hip/launch_tiles.hpp"

namespace monotile::lang::inline MONOTILE_TARGET_NAME {

inline constexpr bool kHasChains = kHasMfma;

/// Words of a lane into shared memory.
template <int Words>
MT_FN void store_shared(unsigned char* const (&to)[1], const uint32_t (&words)[Words][1]) {
  static_assert(Words == 1 || Words == 2 || Words == 4);
  if constexpr (Words == 1) {
    *(MT_SHARED uint32_t*)to[0] = words[0][0];  // NOLINT: a change of address space
  } else if constexpr (Words == 2) {
    *(MT_SHARED words2*)to[0] = words2{words[0][0], words[1][0]};  // NOLINT
  } else {
    *(MT_SHARED words4*)to[0] = words4{words[0][0], words[1][0], words[2][0], words[3][0]};  // NOLINT
  }
}
MT_FN vector16 load_shared16(const unsigned char* p) {
  const words4 q = *(const MT_SHARED words4*)p;  // NOLINT
  return {{q.x, q.y, q.z, q.w}};
}

/// Two values as 16-bit floats, the first in the low half: ties to even. There is no instruction for bf16. A NaN may lose itself to the carry: weights
/// are also added up as they are, so that its row becomes NaN all the same.
template <class T>
MT_FN uint32_t round_pair(float low, float high) {
  if constexpr (dtype_of<T> == DType::bf16) {
    const auto rounded = [](float v) {
      const auto bits = __builtin_bit_cast(uint32_t, v);
      return bits + 0x7fffu + (bits >> 16 & 1u);
    };
    return rounded(low) >> 16 | (rounded(high) & 0xffff0000u);
  } else {
    return static_cast<uint32_t>(rounding<T>::apply(high).bits) << 16 | rounding<T>::apply(low).bits;
  }
}
/// What the lanes of a wave wrote to shared memory is there for all of them.
MT_FN void wave_sync() {
#if defined(__HIP_DEVICE_COMPILE__)
  wave_barrier();
#endif
}
/// From any lane of the wave.
template <class T>
MT_FN void shuffle_from(T (&out)[1], const T (&in)[1], const int (&lane)[1]) {
#if defined(__HIP_DEVICE_COMPILE__)
  out[0] = for_words(in[0], [=](int w) { return word_of_lane(lane[0], w); });
#endif
}
/// A value that all lanes share, told to the compiler: what follows is a branch, not a mask of lanes.
MT_FN bool same_for_all(bool v) {
#if defined(__HIP_DEVICE_COMPILE__)
  return __builtin_amdgcn_readfirstlane(static_cast<int>(v)) != 0;
#else
  return v;
#endif
}
/// v, but the compiler does not know: nothing that follows from it is computed earlier.
MT_FN int unforeseen(int v) {
#if defined(__HIP_DEVICE_COMPILE__)
  asm volatile("" : "+v"(v));
#endif
  return v;
}
/// v, now: a sum that is not needed before the next round would be put off, and keep all its addends in registers.
MT_FN float computed_here(float v) {
#if defined(__HIP_DEVICE_COMPILE__)
  asm volatile("" : "+v"(v));
#endif
  return v;
}
/// 2^x; what is below 2^-126 becomes 0, as the instruction has it. For weights that are added up and rounded to 16 bits.
MT_FN float weight_exp2(float x) { return math_unit::exp2(x); }

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME

#include "monotile/lang/backend/simt/chain_unit.hpp"

namespace monotile::lang::inline MONOTILE_TARGET_NAME {

using chain_unit = mfma_chain_unit<matrix_unit>;

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME
