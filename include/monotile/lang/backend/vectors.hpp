#pragma once
// Vector after vector, on machines with lanes; elsewhere tiles are expressions and nothing is saved.

#include "monotile/lang/backend/backend.hpp"

namespace monotile::lang::inline MONOTILE_TARGET_NAME {

#if defined(MONOTILE_TARGET_SIMT)
/// row_reduce<Op> of f(x).
template <class Op, class T, class L, class F>
MT_FN auto fold_vectors(Context& ctx, const place<L>& at, F f, const tile<T, L>& x) {
  using R = decltype(f(promote(x.v[0][0])));
  row_value<R, L> r;
  for (int l = 0; l < kLanes; ++l) {
    R sum = Op::identity(R{});
    MT_UNROLL
    for (int i = 0; i < L::elements; i += L::vector_elements) {
      if (!at.live[l] || at.local_col(l, i) >= at.limit) continue;
      MT_UNROLL
      for (int e = i; e < i + L::vector_elements; ++e) {
        if (L::exact || at.local_col(l, e) < at.limit) sum = entered<Op>(sum, f(promote(x.v[l][e])));
      }
    }
    r.v[l] = sum;
  }
  finish_rows<Op>(ctx, r);
  return r;
}
/// The largest f(x) of a row, and the sum of exp2((f(x) - largest) * scale2). A lane takes one vector after the other as they come, with the largest so far, so
/// that the powers are computed while others are waited for.
template <class T, class L, class F>
MT_FN sums fold_powers(Context& ctx, const place<L>& at, F f, float scale2, const tile<T, L>& x) {
  constexpr int E = L::vector_elements;
  row_value<float, L> largest, powers;
  for (int l = 0; l < kLanes; ++l) {
    float most = -kInfinity, sum = 0.0f;
    MT_UNROLL
    for (int i = 0; i < L::elements; i += E) {
      if (!at.live[l] || at.local_col(l, i) >= at.limit) continue;
      float here = -kInfinity;
      MT_UNROLL
      for (int e = i; e < i + E; ++e) {
        if (L::exact || at.local_col(l, e) < at.limit) here = max_of(here, f(promote(x.v[l][e])));
      }
      const float next = max_of(most, here), near = next == -kInfinity ? 0.0f : next;
      sum = most == -kInfinity ? sum : sum * fast_exp2((most - near) * scale2);
      MT_UNROLL
      for (int e = i; e < i + E; ++e) {
        if (L::exact || at.local_col(l, e) < at.limit) sum += fast_exp2((f(promote(x.v[l][e])) - near) * scale2);
      }
      most = next;
    }
    largest.v[l] = most;
    powers.v[l] = sum;
  }
  auto all = largest;
  finish_rows<Max>(ctx, all);
  for (int l = 0; l < kLanes; ++l) {
    if (largest.v[l] != -kInfinity) powers.v[l] *= fast_exp2((largest.v[l] - all.v[l]) * scale2);
  }
  finish_rows<Sum>(ctx, powers);
  return {uniform(all), uniform(powers)};
}
/// store of f(x), for rows of whole aligned vectors.
template <cache Hint = cache::normal, class Y, class T, class L, class F>
MT_FN void store_vectors(Context&, const view<Y>& to, const place<L>& at, F f, const tile<T, L>& x) {
  static_assert(L::exact, "whole aligned vectors");
  constexpr int E = L::vector_elements, kPer = 16 / static_cast<int>(sizeof(Y));
  if constexpr (kStoresSectors<Hint, Y, L>) {
    MT_UNROLL
    for (int i = 0; i < L::vectors; ++i) {
      Y out[kLanes][E];
      for (int l = 0; l < kLanes; ++l) {
        MT_UNROLL
        for (int e = 0; e < E; ++e) out[l][e] = convert<Y>::apply(f(promote(x.v[l][i * E + e])));
      }
      store_sectors(to, at, i, [&](int l, int e) { return out[l][e]; });
    }
    return;
  }
  for (int l = 0; l < kLanes; ++l) {
    Y* const p = row_for<L>(to, at.row[l]) + at.first_col;
    MT_UNROLL
    for (int i = 0; i < L::vectors; ++i) {
      const int c = at.local_col(l, i * E);
      if (!at.live[l] || c >= at.limit) continue;
      Y out[E];
      MT_UNROLL
      for (int e = 0; e < E; ++e) out[e] = convert<Y>::apply(f(promote(x.v[l][i * E + e])));
      MT_UNROLL
      for (int j = 0; j < E / kPer; ++j) {
        if constexpr (Hint == cache::stream) {
          store16_stream(p + c + j * kPer, pack16(out + j * kPer));
        } else {
          store16(p + c + j * kPer, pack16(out + j * kPer));
        }
      }
    }
  }
}
/// The tile of f(place, tile) of `Vectors` vectors after `Vectors` of x: what f loads on the way waits in as many registers, and memory is waited for once a part.
template <int Vectors, class T, class L, class F, class... X>
MT_FN tile<T, L> in_parts(Context&, const place<L>& at, F f, const tile<X, L>&... x) {
  static_assert(L::vectors % Vectors == 0, "whole parts");
  tile<T, L> t;
  MT_UNROLL
  for (int i = 0; i < L::vectors; i += Vectors) {
    put_part(t, i, f(part_at<Vectors>(at, i), get_part<Vectors>(x, i)...));
    asm volatile("" ::: "memory");  // or compilers ask for what all parts load at once, in registers that are not there
  }
  return t;
}
/// row_reduce<Op> of such tiles, none of which is kept.
template <int Vectors, class Op, class T, class L, class F>
MT_FN row_value<float, L> fold_parts(Context& ctx, const place<L>& at, F f, const tile<T, L>& x) {
  static_assert(L::vectors % Vectors == 0, "whole parts");
  row_value<float, part_of<L, Vectors>> r;
  for (int l = 0; l < kLanes; ++l) r.v[l] = Op::identity(0.0f);
  MT_UNROLL
  for (int i = 0; i < L::vectors; i += Vectors) {
    const auto here = part_at<Vectors>(at, i);
    accumulate<Op>(here, r, f(here, get_part<Vectors>(x, i)));
    asm volatile("" ::: "memory");
  }
  finish_rows<Op>(ctx, r);
  row_value<float, L> out;
  for (int l = 0; l < kLanes; ++l) out.v[l] = r.v[l];
  return out;
}
/// visit(place, tile) in the same way.
template <int Vectors, class T, class L, class Visit>
MT_FN void each_part(Context&, const place<L>& at, Visit visit, const tile<T, L>& x) {
  static_assert(L::vectors % Vectors == 0, "whole parts");
  MT_UNROLL
  for (int i = 0; i < L::vectors; i += Vectors) visit(part_at<Vectors>(at, i), get_part<Vectors>(x, i));
}
#else
template <int, class T, class L, class F, class... X>
MT_FN auto in_parts(Context&, const place<L>& at, F f, const X&... x) {
  return f(at, x...);
}
template <int, class Op, class L, class F, class X>
MT_FN auto fold_parts(Context& ctx, const place<L>& at, F f, const X& x) {
  return row_reduce<Op>(ctx, at, f(at, x));
}
template <int, class L, class Visit, class X>
MT_FN void each_part(Context&, const place<L>& at, Visit visit, const X& x) {
  visit(at, x);
}
template <class Op, class L, class F, class X>
MT_FN auto fold_vectors(Context& ctx, const place<L>& at, F f, const X& x) {
  return row_reduce<Op>(ctx, at, map(f, x));
}
template <class L, class F, class X>
MT_FN sums fold_powers(Context& ctx, const place<L>& at, F f, float scale2, const X& x) {
  const float largest = uniform(row_reduce<Max>(ctx, at, map(f, x))), near = largest == -kInfinity ? 0.0f : largest;
  return {largest, uniform(row_reduce<Sum>(ctx, at, map([=](auto v) { return fast_exp2((f(v) - near) * scale2); }, x)))};
}
template <cache Hint = cache::normal, class Y, class L, class F, class X>
MT_FN void store_vectors(Context& ctx, const view<Y>& to, const place<L>& at, F f, const X& x) {
  store<Hint>(ctx, to, at, map(f, x));
}
#endif

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME
