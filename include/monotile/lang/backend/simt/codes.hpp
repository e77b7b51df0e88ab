#pragma once
// 8-bit floats as operands of 16-bit instructions, for machines that convert by integers.

#include "monotile/lang/backend/target.hpp"
#include "monotile/numeric.hpp"

namespace monotile::lang::inline MONOTILE_TARGET_NAME {

/// Codes 2 pair and 2 pair + 1 of a word as two values of fp16: exact, NaN stays NaN.
template <class T>
MT_FN uint32_t halves_of_codes(uint32_t codes, int pair) {
  const auto half = [&](int i) -> uint32_t {
    return from_float<half_t>(to_float(T{static_cast<uint8_t>(codes >> (16 * pair + 8 * i))})).bits;
  };
  return half(0) | half(1) << 16;
}

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME
