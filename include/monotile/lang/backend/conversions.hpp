#pragma once
// Conversions of single values in plain C++, by integer arithmetic: of the backends that have no instructions of their own to put here.

#include <cstdint>

#include "monotile/lang/reduction.hpp"
#include "monotile/numeric.hpp"

namespace monotile::lang::inline MONOTILE_TARGET_NAME {

MT_FN float promote(float v) { return v; }
MT_FN int32_t promote(int32_t v) { return v; }
MT_FN int64_t promote(int64_t v) { return v; }
MT_FN bool promote(bool v) { return v; }
MT_FN indexed promote(indexed v) { return v; }
MT_FN sums promote(sums v) { return v; }
MT_FN float promote(half_t v) { return to_float(v); }
MT_FN float promote(bfloat16_t v) { return to_float(v); }
MT_FN float promote(e4m3_t v) { return to_float(v); }
MT_FN float promote(e5m2_t v) { return to_float(v); }
MT_FN float promote(int8_t v) { return static_cast<float>(v); }
MT_FN float promote(uint8_t v) { return static_cast<float>(v); }

template <class T>
struct rounding {
  static MT_FN T apply(float v) { return from_float<T>(v); }
};
template <>
struct rounding<int32_t> {
  static MT_FN int32_t apply(int32_t v) { return v; }
};

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME
