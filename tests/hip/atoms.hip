// Matrix instructions that no operator uses yet, so that they are compiled: tools/check_hip.sh looks for them in the disassembly.

#include "monotile/lang/lang.hpp"
#include "monotile/lang/matrix.hpp"

#if defined(__HIP_DEVICE_COMPILE__)
namespace monotile::lang::inline MONOTILE_TARGET_NAME {

struct operands {
  uint32_t a[2][1], b[2][1];
};
MT_DEVICE operands operands_of(const uint32_t* from) {
  const int lane = lane_of_wave();
  return {{{from[lane]}, {from[lane + 64]}}, {{from[lane + 128]}, {from[lane + 192]}}};
}
template <class T, int N>
MT_DEVICE void put(T* to, const T (&d)[N][1]) {
#pragma unroll
  for (int e = 0; e < N; ++e) to[e * 64 + lane_of_wave()] = d[e][0];
}

extern "C" MT_KERNEL void narrow_products(float* c, const uint32_t* from) {
  const operands o = operands_of(from);
  float d[4][1] = {};
  narrow_matrix_unit::multiply<bfloat16_t>(d, o.a, o.b);
  narrow_matrix_unit::multiply<half_t>(d, o.a, o.b);
  put(c, d);
}
template <class Arch>
MT_DEVICE void fp8_products(float* c, const uint32_t* from) {
  if constexpr (Arch::matrices == hip::arch::matrix::mfma_cdna3) {
    const operands o = operands_of(from);
    float d[16][1] = {};
    multiply_fp8_fnuz<Arch>(d, o.a, o.b);
    put(c, d);
  }
}
// Empty on gfx90a.
extern "C" MT_KERNEL void fp8_products_of(float* c, const uint32_t* from) { fp8_products<arch>(c, from); }

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME
#endif
