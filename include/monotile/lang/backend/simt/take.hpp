#pragma once
// Taking elements on machines with lanes: a maximum of values alone, then the lowest column that has it. Half the exchanges of a reduction of pairs.

#include "monotile/lang/backend/simt/tile.hpp"

/// A large part of a kernel that several instantiations share where calls are cheap.
#define MT_APART MT_FN

namespace monotile::lang::inline MONOTILE_TARGET_NAME {

/// A column as a number.
MT_FN float float_of(int32_t c) { return static_cast<float>(c); }

struct LargerFloat {
  template <class T>
  static MT_FN T combine(T a, T b) { return max_of(a, b); }
};

/// The largest value of each row's lanes, in all of them.
template <int Width>
MT_FN void max_of_lanes(float (&v)[kLanes]) {
#if defined(__CUDA_ARCH__)
  if constexpr (Width == 32) {  // one instruction for integers in the order of floats
    const int32_t bits = __float_as_int(v[0]), order = __reduce_max_sync(0xffffffffu, bits < 0 ? bits ^ 0x7fffffff : bits);
    v[0] = __int_as_float(order < 0 ? order ^ 0x7fffffff : order);
    return;
  }
#endif
  reduce_lanes<LargerFloat>(v, Width);
}

/// The lowest column of each row's lanes, in all of them; in one-vector layouts lower lanes have lower columns.
template <int Width, bool Ordered>
MT_FN void lowest_column(int32_t (&column)[kLanes]) {
#if defined(__CUDA_ARCH__)
  if constexpr (Width == 32) {
    column[0] = __reduce_min_sync(0xffffffffu, column[0]);
    return;
  } else if constexpr (Ordered && Width < 32) {
    const uint32_t first = threadIdx.x % 32 / Width * Width;
    const uint32_t having = __ballot_sync(0xffffffffu, column[0] != INT32_MAX) >> first & ((1u << Width) - 1);
    column[0] = __shfl_sync(0xffffffffu, column[0], static_cast<int>(first) + (having != 0 ? __ffs(static_cast<int>(having)) - 1 : 0));
    return;
  }
#endif
  reduce_lanes<Min>(column, Width);
}

/// The largest element of each row with its column (ties: the lowest); it becomes -infinity in the tile. Cells that do not exist must hold
/// -infinity. No NaN; a row of NaN alone gives column INT32_MAX.
template <class L>
MT_FN row_value<indexed, L> take_largest(Context& ctx, const place<L>& at, tile<float, L>& t) {
  row_value<indexed, L> r;
  if constexpr (L::lanes_per_row == 0) {
    r = row_reduce<ArgMax>(ctx, at, map_at(at, [](auto c, auto v) { return make_indexed(v, c); }, t));
  } else {
    float best[kLanes];
    int32_t column[kLanes];
    for (int l = 0; l < kLanes; ++l) {
      best[l] = t.v[l][0];
      MT_UNROLL
      for (int e = 1; e < L::elements; ++e) best[l] = max_of(best[l], t.v[l][e]);
    }
    max_of_lanes<L::lanes_per_row>(best);
    for (int l = 0; l < kLanes; ++l) {
      column[l] = INT32_MAX;
      MT_UNROLL
      for (int e = L::elements - 1; e >= 0; --e) column[l] = t.v[l][e] == best[l] ? at.local_col(l, e) : column[l];
    }
    lowest_column<L::lanes_per_row, L::vectors == 1>(column);
    for (int l = 0; l < kLanes; ++l) r.v[l] = {best[l], column[l]};
  }
  for (int l = 0; l < kLanes; ++l) {
    MT_UNROLL
    for (int e = 0; e < L::elements; ++e) t.v[l][e] = at.local_col(l, e) == r.v[l].index ? -kInfinity : t.v[l][e];
  }
  return r;
}

/// A layout of one value for each of `L`'s lanes of a row (of L itself where a row fills the program): small results beside a row.
template <class L>
struct ranks_beside {
  using type = blocked<1, 1, L::lanes_per_row>;
};
template <class L>
  requires(L::lanes_per_row == 0)
struct ranks_beside<L> {
  using type = L;
};

/// Whole numbers held as fp32 to packed rows of at.cols integers.
template <class L>
MT_FN void store_indices(Context&, int32_t* to, const place<L>& at, const tile<float, L>& t) {
  for (int l = 0; l < kLanes; ++l) {
    if (!at.live[l]) continue;
    MT_UNROLL
    for (int e = 0; e < L::elements; ++e) {
      if (at.local_col(l, e) < at.limit) to[at.row[l] * at.cols + at.local_col(l, e)] = static_cast<int32_t>(t.v[l][e]);
    }
  }
}
/// The same of fp32 to rows with a stride.
template <class L>
MT_FN void store_values(Context&, float* to, int64_t stride, const place<L>& at, const tile<float, L>& t) {
  for (int l = 0; l < kLanes; ++l) {
    if (!at.live[l]) continue;
    MT_UNROLL
    for (int e = 0; e < L::elements; ++e) {
      if (at.local_col(l, e) < at.limit) to[at.row[l] * stride + at.local_col(l, e)] = t.v[l][e];
    }
  }
}

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME
