#pragma once
// Taking elements on machines with lanes: a maximum of values alone, then the lowest column that has it. Half the exchanges of a reduction of pairs.

#include "monotile/lang/backend/simt/tile.hpp"

/// A large part of a kernel that several instantiations share where calls are cheap.
#define MT_APART MT_FN

namespace monotile::lang::inline MONOTILE_TARGET_NAME {

/// A column as a number.
MT_FN float float_of(int32_t c) { return static_cast<float>(c); }

/// The largest value, or NaN where there is one.
struct MaxOrNan {
  static MT_FN float identity(float) { return -kInfinity; }
  static MT_FN float combine(float a, float b) {
#if defined(__CUDA_ARCH__)
    float r;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
    return r;
#else
    return ((a > b) | (a != a)) ? a : b;
#endif
  }
};

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

/// out = what lane `from` of the row has, for each lane.
template <int Width, class T>
MT_FN void from_lane_of_row(T (&out)[kLanes], const T (&in)[kLanes], const int32_t (&from)[kLanes]) {
#if defined(__CUDA_ARCH__)
  out[0] = __shfl_sync(0xffffffffu, in[0], from[0], Width);
#elif defined(MONOTILE_TARGET_HIP)
#if defined(__HIP_DEVICE_COMPILE__)
  out[0] = __builtin_bit_cast(T, word_of_lane(lane_of_wave() / Width * Width + from[0], __builtin_bit_cast(int, in[0])));
#endif
#else
  for (int l = 0; l < kLanes; ++l) out[l] = in[l / Width * Width + from[l]];
#endif
}
/// The lowest lane of each row that `has`, in all of them; one does.
template <int Width>
MT_FN void lowest_lane_of_row(int32_t (&lane)[kLanes], const bool (&has)[kLanes], const int32_t (&own)[kLanes]) {
#if defined(__CUDA_ARCH__)
  const uint32_t having = __ballot_sync(0xffffffffu, has[0]);
  if constexpr (Width == 32) {
    lane[0] = __ffs(static_cast<int>(having)) - 1;
  } else {
    lane[0] = __ffs(static_cast<int>(having >> (threadIdx.x & (32 - Width)) & ((1u << Width) - 1))) - 1;
  }
#else
  for (int l = 0; l < kLanes; ++l) lane[l] = has[l] ? own[l] : INT32_MAX;
  reduce_lanes<Min>(lane, Width);
#endif
}

/// Sorts eight values downwards: Batcher's odd-even merges, written out, since compilers leave loops of them rolled and then look for registers by number.
MT_FN void sort_down(float (&v)[8]) {
  const auto larger_first = [&v](int i, int j) {
    const float a = v[i], b = v[j];
    v[i] = max_of(a, b);
    v[j] = min_of(a, b);
  };
  larger_first(0, 1), larger_first(2, 3), larger_first(4, 5), larger_first(6, 7);
  larger_first(0, 2), larger_first(1, 3), larger_first(4, 6), larger_first(5, 7);
  larger_first(1, 2), larger_first(5, 6);
  larger_first(0, 4), larger_first(1, 5), larger_first(2, 6), larger_first(3, 7);
  larger_first(2, 4), larger_first(3, 5);
  larger_first(1, 2), larger_first(3, 4), larger_first(5, 6);
}

/// The k largest elements of each row in order (ties: lower columns first): values and columns, rank j at column j of `ranks` (ranks_beside). Cells
/// that do not exist must hold -infinity, all others be finite; at least k exist, and `ranks` has room for k. Uses the tile up.
///
/// Where a lane has neighbouring columns, each lane sorts its values once; then only the lanes' largest are compared, and the lane that wins moves its
/// list up. Which column a value came from is asked for all ranks at once, in the end.
template <class L, class R>
MT_FN void take_ranks(Context& ctx, const place<L>& at, tile<float, L>& t, const place<R>& ranks, int32_t k, tile<float, R>& values,
                      tile<float, R>& columns) {
  if constexpr (L::elements == 8 && L::vectors == 1 && L::lanes_per_row != 0 && L::lanes_per_row <= 32) {
    static_assert(R::lanes_per_row == L::lanes_per_row && R::elements == 1);
    constexpr int E = L::elements, W = L::lanes_per_row;
    float sorted[kLanes][E], before[kLanes];
    int32_t from[kLanes], nth[kLanes], lane_before[kLanes], times[kLanes];
    for (int l = 0; l < kLanes; ++l) {
      MT_UNROLL
      for (int e = 0; e < E; ++e) sorted[l][e] = t.v[l][e];
      sort_down(sorted[l]);
      before[l] = 0.0f;
      from[l] = nth[l] = times[l] = 0;
      lane_before[l] = -1;
    }
    MT_NO_UNROLL
    for (int32_t j = 0; j < k; ++j) {
      float best[kLanes];
      bool has[kLanes];
      int32_t lane[kLanes];
      for (int l = 0; l < kLanes; ++l) best[l] = sorted[l][0];
      max_of_lanes<W>(best);
      for (int l = 0; l < kLanes; ++l) has[l] = sorted[l][0] == best[l];
      lowest_lane_of_row<W>(lane, has, at.lane);
      for (int l = 0; l < kLanes; ++l) {
        times[l] = lane[l] == lane_before[l] && best[l] == before[l] ? times[l] + 1 : 0;  // equal ones of a lane follow each other
        before[l] = best[l];
        lane_before[l] = lane[l];
        if (at.lane[l] == j) {
          values.v[l][0] = best[l];
          from[l] = lane[l];
          nth[l] = times[l];
        }
        if (at.lane[l] == lane[l]) {
          MT_UNROLL
          for (int e = 0; e + 1 < E; ++e) sorted[l][e] = sorted[l][e + 1];
          sorted[l][E - 1] = -kInfinity;
        }
      }
    }
    int32_t element[kLanes];
    for (int l = 0; l < kLanes; ++l) element[l] = 0;
    MT_UNROLL
    for (int e = 0; e < E; ++e) {
      float mine[kLanes], there[kLanes];
      for (int l = 0; l < kLanes; ++l) mine[l] = t.v[l][e];
      from_lane_of_row<W>(there, mine, from);
      for (int l = 0; l < kLanes; ++l) {
        const bool equal = there[l] == values.v[l][0];
        element[l] = equal && nth[l] == 0 ? e : element[l];
        nth[l] -= equal ? 1 : 0;
      }
    }
    for (int l = 0; l < kLanes; ++l) columns.v[l][0] = float_of(from[l] * E + element[l]);
  } else {
    MT_NO_UNROLL
    for (int32_t j = 0; j < k; ++j) {
      const auto best = take_largest(ctx, at, t);
      for (int l = 0; l < kLanes; ++l) {
        MT_UNROLL
        for (int e = 0; e < R::elements; ++e) {
          const bool here = ranks.local_col(l, e) == j;
          values.v[l][e] = here ? best.v[l].value : values.v[l][e];
          columns.v[l][e] = here ? float_of(best.v[l].index) : columns.v[l][e];
        }
      }
    }
  }
}

/// The elements of each row at the columns of its first k ranks, instead of what `to` holds.
template <class L, class R>
MT_FN void pick_columns(Context& ctx, const place<L>& at, const tile<float, L>& t, const place<R>& ranks, int32_t k, const tile<float, R>& columns,
                        tile<float, R>& to) {
  if constexpr (L::lanes_per_row != 0 && L::lanes_per_row <= 32) {
    constexpr int E = L::vector_elements, W = L::lanes_per_row;
    int32_t from[kLanes], element[kLanes];
    for (int l = 0; l < kLanes; ++l) {
      const int32_t c = static_cast<int32_t>(columns.v[l][0]);
      from[l] = c / E % W;
      element[l] = c / E / W * E + c % E;
    }
    MT_UNROLL
    for (int e = 0; e < L::elements; ++e) {
      float mine[kLanes], there[kLanes];
      for (int l = 0; l < kLanes; ++l) mine[l] = t.v[l][e];
      from_lane_of_row<W>(there, mine, from);
      for (int l = 0; l < kLanes; ++l) to.v[l][0] = element[l] == e ? there[l] : to.v[l][0];
    }
  } else {
    MT_NO_UNROLL
    for (int32_t j = 0; j < k; ++j) {
      row_value<float, L> column = row_fill(at, 0.0f);
      for (int l = 0; l < kLanes; ++l) {
        MT_UNROLL
        for (int e = 0; e < R::elements; ++e) column.v[l] += ranks.local_col(l, e) == j ? columns.v[l][e] : 0.0f;
      }
      finish_rows<Sum>(ctx, column);
      const auto found = row_reduce<Sum>(ctx, at, map_at(at, [](auto c, auto v, auto b) { return float_of(c) == b ? v : 0.0f; }, t, column));
      for (int l = 0; l < kLanes; ++l) {
        MT_UNROLL
        for (int e = 0; e < R::elements; ++e) to.v[l][e] = ranks.local_col(l, e) == j ? found.v[l] : to.v[l][e];
      }
    }
  }
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
