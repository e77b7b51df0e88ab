#pragma once
// A fixed number of values that kernels keep side by side (query rows that share a key, accumulators). The same on every target.

#include "monotile/lang/backend/target.hpp"

namespace monotile::lang {

/// N values made by f(0) ... f(N - 1).
template <class T, int N>
struct repeated {
  T v[N];
  MT_FN T& operator[](int i) { return v[i]; }
  MT_FN const T& operator[](int i) const { return v[i]; }
};
template <int N, class F>
MT_FN auto repeat(F f) {
  if constexpr (N == 1) {
    return repeated<decltype(f(0)), 1>{{f(0)}};
  } else if constexpr (N == 2) {
    return repeated<decltype(f(0)), 2>{{f(0), f(1)}};
  } else {
    static_assert(N == 4, "1, 2 or 4");
    return repeated<decltype(f(0)), 4>{{f(0), f(1), f(2), f(3)}};
  }
}

}  // namespace monotile::lang
