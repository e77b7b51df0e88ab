#pragma once
// Taking elements on CPU: the row lies in scratch.

#include "monotile/lang/backend/cpu/tile.hpp"

/// A large part of a kernel that several instantiations share where calls are cheap.
#define MT_APART __attribute__((noinline))

namespace monotile::lang::inline MONOTILE_TARGET_NAME {

/// The largest value, or NaN where there is one.
struct MaxOrNan {
  static MT_FN float identity(float) { return -kInfinity; }
  static MT_FN float combine(float a, float b) { return (a > b) | (a != a) ? a : b; }
};
template <>
struct pack_op<MaxOrNan> {
  template <int N>
  static MT_FN pack<N> combine(const pack<N>& a, const pack<N>& b) { return select((a > b) | is_nan(a), a, b); }
};

template <int N>
MT_FN pack<N> float_of(const int_pack<N>& c) {
  pack<N> r;
  for (int i = 0; i < N / 8; ++i) r.part[i] = __builtin_convertvector(c.part[i], float8);
  return r;
}

/// Apart, since a kernel that takes in many places would be slow to compile.
__attribute__((noinline)) inline indexed take_from(float* values, int64_t count) {
  indexed best{values[0], 0};
  for (int64_t c = 1; c < count; ++c) {
    if (values[c] > best.value) best = {values[c], static_cast<int32_t>(c)};
  }
  values[best.index] = -kInfinity;
  return best;
}
template <class L>
MT_FN indexed take_largest(Context&, const place<L>& at, evaluated_tile<float>& t) {
  return take_from(const_cast<float*>(t.p), at.cols);
}

/// Apart for the same reason.
__attribute__((noinline)) inline void take_ranks_from(float* values, int64_t count, int32_t k, float* best, float* columns) {
  for (int32_t j = 0; j < k; ++j) {
    const indexed b = take_from(values, count);
    best[j] = b.value;
    columns[j] = static_cast<float>(b.index);
  }
}
template <class L, class R>
MT_FN void take_ranks(Context&, const place<L>& at, evaluated_tile<float>& t, const place<R>&, int32_t k, evaluated_tile<float>& values,
                      evaluated_tile<float>& columns) {
  take_ranks_from(const_cast<float*>(t.p), at.cols, k, const_cast<float*>(values.p), const_cast<float*>(columns.p));
}
template <class L, class R, class X>
MT_FN void pick_columns(Context& ctx, const place<L>& at, const X& x, const place<R>&, int32_t k, const evaluated_tile<float>& columns,
                        evaluated_tile<float>& to) {
  const evaluated_tile<float> t = eval(ctx, at, x);
  for (int32_t j = 0; j < k; ++j) const_cast<float*>(to.p)[j] = t.p[static_cast<int64_t>(columns.p[j])];
}

template <class L>
struct ranks_beside {
  using type = L;
};

template <class L>
MT_FN void store_indices(Context&, int32_t* to, const place<L>& at, const evaluated_tile<float>& t) {
  for (int64_t c = 0; c < at.cols; ++c) to[at.row * at.cols + c] = static_cast<int32_t>(t.p[c]);
}
template <class L, class X>
MT_FN void store_values(Context& ctx, float* to, int64_t stride, const place<L>& at, const X& x) {
  store(ctx, view<float>{to, stride, 0, at.cols, 1, false}, at, x);
}

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME
