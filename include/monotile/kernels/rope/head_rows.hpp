#pragma once
// What happens to q, k and v between their product and attention, in one launch: RMSNorm of each head, rotary embedding, and the rows of k and v to
// their slots in paged caches. Values are rounded to X between the steps, as if each had been an operator of its own.

#include <type_traits>

#include "monotile/kernels/quant/scale.hpp"
#include "monotile/kernels/rope/head_rows_params.hpp"
#include "monotile/kernels/rope/rotate.hpp"
#include "monotile/lang/prefetch.hpp"

namespace monotile::kernels {

/// Columns [first, first + cols) of each head, normalised.
template <class X, class Ctx, class At, class P, class Part, class I, class T>
MT_FN auto head_scaled(Ctx& ctx, const At& at, const P& p, const Part& part, const I& inverse, int64_t first,
                       const T& x) {
  const float offset = part.gamma.data != nullptr ? p.gamma_offset : 0.0f;
  return eval(ctx, at,
              round_to<X>(map([=](auto v, auto i, auto g) { return v * i * (g + offset); }, x, inverse,
                              load_any(ctx, from_column(part.gamma, first), at, 1.0f))));
}

template <class T>
struct three_of {
  T v[3];
};
template <class X, class T>
MT_FN three_of<T> head_halves(const T& a, const T& b) {
  return {{a, b, b}};  // there is no rest
}
/// f(0), f(1), f(2).
template <class F>
MT_FN auto three(F f) {
  return three_of<decltype(f(0))>{{f(0), f(1), f(2)}};
}

/// One program per group of (token, head) rows of L; first those of q, then of k, then of v. Heads fit in L; where `Halves`, half a head does, all of a
/// head is rotated, and pairs are half a head apart: a lane then holds both of a pair, and nothing is read twice.
template <class X, class L, bool Halves = false>
struct HeadRows {
  using Params = HeadRowsParams<X>;

  template <class Ctx>
  static MT_FN void run(Ctx& ctx, const Params& p) {
    const int which = ctx.program < p.first_programs[1] ? 0 : ctx.program < p.first_programs[2] ? 1 : 2;
    const HeadPart<X>& part = p.part[which];
    const uint32_t heads = part.heads;
    const int64_t half = Halves ? part.cols / 2 : part.half;
    const bool rotates = part.half > 0;
    const auto row = rows_of<L>(ctx, part.rows, Halves ? half : part.cols, p.first_programs[which]);
    const auto token =
        map([=](auto r) { return static_cast<int64_t>(static_cast<uint32_t>(r) / heads); }, row_index(row));
    const auto report = [&](const auto& wrong) {
      if (p.status == nullptr) return;
      const auto bad = map([](auto w, auto t) { return w ? t : int64_t{-1}; }, wrong, token);
      store_row_value(ctx, p.status, at_rows(row, bad), map([](auto) { return int32_t{1}; }, token));
    };

    prefetch_next(ctx, part.x, with_cols(row, part.cols), [](const auto& at) { return at; });
    // Three pieces of a head: the rotated ones (halves, or all pairs side by side), and the rest.
    const int64_t first_cols = p.interleaved ? 2 * half : half, second_cols = p.interleaved ? 0 : half;
    const std::remove_const_t<decltype(row)> places[3] = {Halves ? row : with_cols(row, first_cols), Halves ? row : with_cols(row, second_cols),
                                                          with_cols(row, part.cols - 2 * half)};
    const auto &at0 = places[0], &at1 = places[1];
    auto inverse = row_fill(row, 1.0f);
    const auto to_inverse = [&](auto s) { return recip_sqrt(s / static_cast<float>(part.cols) + p.eps); };
    auto pieces = [&] {
      if constexpr (Halves) {
        const auto raw = [&](int i) { return load(ctx, from_column(part.x, i * half), row); };
        const auto a = raw(0), b = raw(1);
        if (part.gamma.data == nullptr) return head_halves<X>(a, b);
        const auto whole = [](auto v) { return v; };
        inverse = map(to_inverse, row_reduce<SumSquares>(ctx, row, map(whole, a), map(whole, b)));
        return head_halves<X>(head_scaled<X>(ctx, row, p, part, inverse, 0, a),
                              head_scaled<X>(ctx, row, p, part, inverse, half, b));
      } else {
        if (part.gamma.data != nullptr) {
          const auto squares =
              row_reduce<SumSquares>(ctx, row, map([](auto v) { return v; }, load(ctx, part.x, row)));
          inverse = map(to_inverse, squares);
        }
        return three([&](int i) {
          return head_scaled<X>(ctx, places[i], p, part, inverse, i * half,
                                load(ctx, from_column(part.x, i * half), places[i]));
        });
      }
    }();
    auto &t0 = pieces.v[0], &t1 = pieces.v[1];
    if (rotates) {
      const int64_t last = p.max_position - 1;
      const auto wanted = load_index(ctx, p.positions, at_rows(row, token));
      const auto position = map([=](auto i) { return i < 0 ? int64_t{0} : i > last ? last : i; }, wanted);
      report(map([=](auto i) { return i < 0 || i > last; }, wanted));
      const auto table0 = at_rows(at0, position);
      if (!Halves && p.interleaved) {
        const auto b = swap_pairs(ctx, t0);
        const auto c = load_dup(ctx, p.cos, table0), s = load_dup(ctx, p.sin, table0);
        t0 = eval(ctx, at0,
                  round_to<X>(pick_pairs(ctx, map(rotated_first{}, t0, b, c, s), map(rotated_neighbour{}, t0, b, c, s))));
      } else {
        const auto c = load(ctx, p.cos, table0), s = load(ctx, p.sin, table0);
        const auto a = t0, b = t1;
        t0 = eval(ctx, at0, round_to<X>(map(rotated_first{}, a, b, c, s)));
        t1 = eval(ctx, at1, round_to<X>(map(rotated_second{}, a, b, c, s)));
      }
    }
    const auto each_piece = [&](auto visit) {
      MT_UNROLL
      for (int i = 0; i < (Halves ? 2 : 3); ++i) visit(places[i], i * half, pieces.v[i]);
    };
    if (part.y.data != nullptr)
      each_piece([&](const auto& at, int64_t first, const auto& t) { store(ctx, from_column(part.y, first), at, t); });
    if (part.cache.data == nullptr) return;

    const int64_t slot_count = p.slot_count, page_size = p.page_size, slot_tokens = p.slot_tokens;
    const auto slot =
        load_index(ctx, p.slots, at_rows(row, map([=](auto t) { return t < slot_tokens ? t : int64_t{-1}; }, token)));
    report(map([=](auto s) { return s >= slot_count; }, slot));
    // 64-bit division is a function call there.
    const bool short_slots = slot_count <= INT32_MAX;
    const auto offset_of = [&](int64_t page_stride, int64_t head_stride, int64_t token_stride) {
      return map(
          [=](auto s, auto r) {
            const int64_t page = short_slots ? static_cast<int64_t>(static_cast<uint32_t>(s) / static_cast<uint32_t>(page_size))
                                             : s / page_size,
                          head = static_cast<uint32_t>(r) % heads;
            return s < 0 || s >= slot_count
                       ? int64_t{-1}
                       : page * page_stride + head * head_stride + (s - page * page_size) * token_stride;
          },
          slot, row_index(row));
    };
    const auto offset = offset_of(part.page_stride, part.head_stride, part.token_stride);
    if (part.largest_code == 0.0f) {
      each_piece([&](const auto& at, int64_t first, const auto& t) {
        store_any(ctx, from_column(part.cache, first), at_rows(at, offset), t);
      });
      return;
    }
    auto scale = row_fill(row, 1.0f);
    if (part.chooses_scales) {
      auto most = row_fill(row, 0.0f);
      each_piece([&](const auto& at, int64_t, const auto& t) {
        most = map([](auto a, auto b) { return max_of(a, b); }, most,
                   row_reduce<Max>(ctx, at, map(finite_magnitude{}, t)));
      });
      scale = map(scale_of_most{part.largest_code}, most);
      store_row_value(ctx, part.scales,
                      at_rows(row, offset_of(part.scale_page_stride, part.scale_head_stride, part.scale_token_stride)),
                      scale);
    } else {
      const int64_t stride = part.scale_head_stride;
      scale = load_row_value(
          ctx, part.scales,
          at_rows(row, map([=](auto r) { return static_cast<int64_t>(static_cast<uint32_t>(r) % heads) * stride; },
                           row_index(row))));
    }
    const auto to_code = map(inverse_of{}, scale);
    each_piece([&](const auto& at, int64_t first, const auto& t) {
      store_codes(ctx, from_column(part.cache, first), at_rows(at, offset),
                  map([](auto v, auto i) { return v * i; }, t, to_code));
    });
  }
};

}  // namespace monotile::kernels
