#pragma once
// 8-bit floats of gfx942's matrix instructions: the FNUZ kind ("finite, no negative zero, unsigned NaN"). Same fields as the OCP kind that this
// library stores, but an exponent bias one larger, so that equal bits mean half the value; 0x80 is NaN instead of -0, and nothing is infinite. A tensor of
// OCP codes is therefore used as it is with its scale doubled, once three kinds of codes are changed. gfx90a has neither kind: codes become bf16 there.
// Source: "CDNA3 Instruction Set Architecture", 8-bit floating point formats.

#include <bit>
#include <cstdint>

#include "monotile/lang/backend/target.hpp"

namespace monotile::hip {

/// Value of an OCP code = kFnuzScale * value of its FNUZ code, exactly.
inline constexpr float kFnuzScale = 2.0f;
inline constexpr uint8_t kFnuzNan = 0x80;

/// The FNUZ code for an OCP e4m3 code: NaN stays NaN, -0 becomes 0.
MT_FN constexpr uint8_t fnuz_of_e4m3(uint8_t code) {
  return (code & 0x7f) == 0x7f ? kFnuzNan : code == 0x80 ? uint8_t{0} : code;
}
/// The same for e5m2. Infinities, which conversions of this library never make, become the largest number.
MT_FN constexpr uint8_t fnuz_of_e5m2(uint8_t code) {
  const uint8_t size = code & 0x7f;
  if (size > 0x7c) return kFnuzNan;
  return size == 0x7c ? static_cast<uint8_t>(code | 0x7f) : code == 0x80 ? uint8_t{0} : code;
}

/// What the matrix instruction reads: `Fraction` bits of fraction, exponent bias `Bias` (e4m3: 3, 8; e5m2: 2, 16).
template <int Fraction, int Bias>
constexpr float fnuz_to_float(uint8_t code) {
  if (code == kFnuzNan) return std::bit_cast<float>(0x7fc00000u);
  const int size = code & 0x7f, exponent = size >> Fraction, fraction = size & ((1 << Fraction) - 1);
  float v = static_cast<float>(exponent == 0 ? fraction : fraction | 1 << Fraction);
  for (int e = (exponent == 0 ? 1 : exponent) - Bias - Fraction; e != 0; e += e < 0 ? 1 : -1) v *= e < 0 ? 0.5f : 2.0f;
  return (code & 0x80) != 0 ? -v : v;
}

}  // namespace monotile::hip
