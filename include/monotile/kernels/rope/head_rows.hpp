#pragma once
// What happens to q, k and v between their product and attention, in one launch: RMSNorm of each head, rotary embedding, and the rows of k and v to
// their slots in paged caches. Values are rounded to X between the steps, as if each had been an operator of its own.

#include <type_traits>

#include "monotile/kernels/kv_cache/slots.hpp"
#include "monotile/kernels/quant/scale.hpp"
#include "monotile/kernels/rope/head_rows_params.hpp"
#include "monotile/kernels/rope/rotate.hpp"
#include "monotile/lang/prefetch.hpp"

namespace monotile::kernels {

/// An element as fp32.
struct unchanged {
  template <class V>
  MT_FN V operator()(V v) const {
    return v;
  }
};

template <class T, int N>
struct pieces_of {
  T v[N];
};
/// f(0), f(1), f(2).
template <class F>
MT_FN auto three(F f) {
  return pieces_of<decltype(f(0)), 3>{{f(0), f(1), f(2)}};
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
    const int64_t half = Halves ? part.cols / 2 : part.half;
    const auto row = rows_of<L>(ctx, part.rows, Halves ? half : part.cols, p.first_programs[which]);
    const auto token = token_of_rows(row, part.heads);
    const int64_t slot_tokens = p.slot_tokens, last = p.max_position - 1;
    const auto with_slot = map([=](auto t) { return t < slot_tokens ? t : int64_t{-1}; }, token);
    const auto wanted_position = [&] { return load_index(ctx, p.positions, only_if(at_rows(row, token), part.half > 0)); };
    const auto wanted_slot = [&] {
      return load_index(ctx, p.slots.slots, only_if(at_rows(row, with_slot), part.cache.data != nullptr));
    };
    const auto clamped = [=](auto i) { return i < 0 ? int64_t{0} : i > last ? last : i; };
    const auto report_position = [&](const auto& wanted) {
      if (p.slots.status == nullptr) return;
      const auto bad = map([=](auto i, auto t) { return i < 0 || i > last ? t : int64_t{-1}; }, wanted, token);
      store_row_value(ctx, p.slots.status, at_rows(row, bad), map([](auto) { return int32_t{1}; }, token));
    };
    const auto to_inverse = [&](auto s) { return recip_sqrt(s / static_cast<float>(part.cols) + p.eps); };
    prefetch_next(ctx, part.x, with_cols(row, part.cols), [](const auto& at) { return at; });

    if constexpr (Halves) {
      // What a head needs is asked for before any of it is looked at: the time of few heads is that of the waits that follow each other.
      const auto x = repeat<2>([&](int i) { return load(ctx, from_column(part.x, i * half), row); });
      const auto gamma = repeat<2>([&](int i) {
        return load_ahead(ctx, from_column(part.gamma, i * half), only_if(row, part.gamma.data != nullptr));
      });
      const auto wanted = wanted_position();
      const auto slot = wanted_slot();
      const auto angles = only_if(at_rows(row, map(clamped, wanted)), part.half > 0);
      const auto c = load(ctx, p.cos, angles), s = load(ctx, p.sin, angles);
      const std::remove_const_t<decltype(row)> places[2] = {row, row};
      pieces_of<std::remove_const_t<std::remove_reference_t<decltype(x[0])>>, 2> t{{x[0], x[1]}};
      if (part.gamma.data != nullptr) {
        const auto inverse = map(to_inverse, row_reduce<SumSquares>(ctx, row, map(unchanged{}, x[0]), map(unchanged{}, x[1])));
        MT_UNROLL
        for (int i = 0; i < 2; ++i) t.v[i] = scaled(ctx, row, p.gamma_offset, inverse, x[i], arrived(ctx, gamma[i], row));
      }
      if (part.half > 0) {
        report_position(wanted);
        const auto a = t.v[0], b = t.v[1];
        t.v[0] = round_to<X>(map(rotated_first{}, a, b, c, s));
        t.v[1] = round_to<X>(map(rotated_second{}, a, b, c, s));
      }
      finish(ctx, p, part, row, token, slot, places, half, t);
    } else {
      // Three pieces of a head: the rotated ones (halves, or all pairs side by side), and the rest.
      const int64_t first_cols = p.interleaved ? 2 * half : half, second_cols = p.interleaved ? 0 : half;
      const auto at0 = with_cols(row, first_cols), at1 = with_cols(row, second_cols),
                 at2 = with_cols(row, part.cols - 2 * half);
      const std::remove_const_t<decltype(at0)> places[3] = {at0, at1, at2};
      auto inverse = row_fill(row, 1.0f);
      if (part.gamma.data != nullptr)
        inverse = map(to_inverse, row_reduce<SumSquares>(ctx, row, map(unchanged{}, load(ctx, part.x, row))));
      auto pieces = three([&](int i) {
        return scaled(ctx, places[i], part.gamma.data != nullptr ? p.gamma_offset : 0.0f, inverse, load(ctx, from_column(part.x, i * half), places[i]),
                      load_any(ctx, from_column(part.gamma_rows, i * half), places[i], 1.0f));
      });
      auto &t0 = pieces.v[0], &t1 = pieces.v[1];
      if (part.half > 0) {
        const auto wanted = wanted_position();
        report_position(wanted);
        const auto table0 = at_rows(at0, map(clamped, wanted));
        if (p.interleaved) {
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
      finish(ctx, p, part, row, token, wanted_slot(), places, half, pieces);
    }
  }

  /// Columns of each head, normalised.
  template <class Ctx, class At, class I, class T, class G>
  static MT_FN auto scaled(Ctx& ctx, const At& at, float offset, const I& inverse, const T& x, const G& gamma) {
    return eval(ctx, at, round_to<X>(map([=](auto v, auto i, auto g) { return v * i * (g + offset); }, x, inverse, gamma)));
  }

  /// The pieces to where they go, the first at column 0 and each `half` columns after the one before.
  template <class Ctx, class At, class Token, class Slot, class T, int N>
  static MT_FN void finish(Ctx& ctx, const Params& p, const HeadPart<X>& part, const At& row, const Token& token,
                           const Slot& slot, const At (&places)[N], int64_t half, const pieces_of<T, N>& pieces) {
    const auto each_piece = [&](auto visit) {
      MT_UNROLL
      for (int i = 0; i < N; ++i) visit(places[i], i * half, pieces.v[i]);
    };
    if (part.y.data != nullptr)
      each_piece([&](const auto& at, int64_t first, const auto& t) { store(ctx, from_column(part.y, first), at, t); });
    if (part.cache.data == nullptr) return;

    const auto head = head_of_rows(row, part.heads, token);
    const auto slots = find_slots(ctx, row, p.slots, token, slot);
    const auto offset = slots.offsets(part.page_stride, part.head_stride, part.token_stride, head);
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
                      at_rows(row, slots.offsets(part.scale_page_stride, part.scale_head_stride,
                                                 part.scale_token_stride, head)),
                      scale);
    } else {
      const int64_t stride = part.scale_head_stride;
      scale = load_row_value(ctx, part.scales, at_rows(row, map([=](auto h) { return h * stride; }, head)));
    }
    const auto to_code = map(inverse_of{}, scale);
    each_piece([&](const auto& at, int64_t first, const auto& t) {
      store_codes(ctx, from_column(part.cache, first), at_rows(at, offset),
                  map([](auto v, auto i) { return v * i; }, t, to_code));
    });
  }
};

}  // namespace monotile::kernels
