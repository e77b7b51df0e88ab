#pragma once
// The reductions a tile knows: associative operations with an identity. Trees are fixed, so results never depend on timing or batch.

#include <cstdint>

#include "monotile/lang/backend/target.hpp"

namespace monotile::lang {

/// A value with where it came from; ties are won by the lower index, NaN never wins.
struct indexed {
  float value;
  int32_t index;
};

/// Two sums taken in one pass.
struct sums {
  float first;
  float second;
};
MT_FN sums operator+(sums a, sums b) { return {a.first + b.first, a.second + b.second}; }

inline constexpr float kInfinity = __builtin_huge_valf();

struct Sum {
  template <class T>
  static MT_FN T identity(T) { return T(0); }
  static MT_FN sums identity(sums) { return {0.0f, 0.0f}; }
  template <class T>
  static MT_FN T combine(T a, T b) { return a + b; }
};

/// The sum of the squares of what it is given. Each square enters its sum by one fused operation: left to compilers, a product and a sum become one
/// rounding in one kernel and two in another, and the last bit with them.
struct SumSquares : Sum {
  static constexpr bool squares = true;
};

struct Max {
  static MT_FN float identity(float) { return -kInfinity; }
  static MT_FN int32_t identity(int32_t) { return INT32_MIN; }
  template <class T>
  static MT_FN T combine(T a, T b) { return a > b ? a : b; }
};

struct Min {
  static MT_FN float identity(float) { return kInfinity; }
  static MT_FN int32_t identity(int32_t) { return INT32_MAX; }
  template <class T>
  static MT_FN T combine(T a, T b) { return a < b ? a : b; }
};

struct ArgMax {
  static MT_FN indexed identity(indexed) { return {-kInfinity, INT32_MAX}; }
  static MT_FN indexed combine(indexed a, indexed b) {
    const bool second = b.value > a.value || (b.value == a.value && b.index < a.index);
    return second ? b : a;
  }
};

}  // namespace monotile::lang
