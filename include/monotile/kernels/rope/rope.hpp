#pragma once
// Rotary embedding of q and k in one launch: (a, b) <- (a cos - b sin, b cos + a sin) for each pair of a head.

#include "monotile/kernels/rope/params.hpp"
#include "monotile/kernels/rope/rotate.hpp"

namespace monotile::kernels {
using namespace lang;  // NOLINT: kernels are written in the language

/// One program per group of (token, head) rows of L; first those of q, then those of k. A lane group takes `Heads` heads of a token, which read their
/// angles once: with one head a lane they are two thirds of what it reads.
template <class X, class L, int Heads = 1>
struct Rope {
  using Params = RopeParams<X>;

  template <class Ctx>
  static MT_FN void run(Ctx& ctx, const Params& p) {
    const bool first = ctx.program < p.first_programs;
    const RopePart<X>& part = p.part[first ? 0 : 1];
    const int64_t rotated = p.interleaved ? 2 * p.half : p.half, last = p.max_position - 1;
    const uint32_t heads = part.heads / Heads;

    const auto row = rows_of<L>(ctx, part.rows / Heads, rotated, first ? 0 : p.first_programs);
    const auto token =
        map([=](auto r) { return static_cast<int64_t>(static_cast<uint32_t>(r) / heads); }, row_index(row));
    const auto wanted = load_index(ctx, p.positions, at_rows(row, token));
    const auto position = map([=](auto i) { return i < 0 ? int64_t{0} : i > last ? last : i; }, wanted);
    if (p.status != nullptr) {
      const auto bad = map([=](auto i, auto t) { return i < 0 || i > last ? t : int64_t{-1}; }, wanted, token);
      store_row_value(ctx, p.status, at_rows(row, bad), map([](auto) { return int32_t{1}; }, token));
    }

    if constexpr (Heads > 1) {
      rotate_heads(ctx, p, part, row, at_rows(row, position));
      return;
    }
    auto x = hold(ctx, row, [&](const auto& at) { return eval(ctx, at, load<cache::stream>(ctx, part.x, at)); });
    if (p.interleaved) {
      each(ctx, x, [&](const auto& at, const auto& a) {
        const auto b = swap_pairs(ctx, a);
        const auto c = load_dup(ctx, p.cos, at_rows(at, position)), s = load_dup(ctx, p.sin, at_rows(at, position));
        store<cache::stream>(
            ctx, part.y, at,
            pick_pairs(ctx, map(rotated_first{}, a, b, c, s), map(rotated_neighbour{}, a, b, c, s)));
      });
    } else {
      each(ctx, x, [&](const auto& at, const auto& a) {
        const auto b = load<cache::stream>(ctx, from_column(part.x, p.half), at);
        const auto c = load(ctx, p.cos, at_rows(at, position)), s = load(ctx, p.sin, at_rows(at, position));
        store<cache::stream>(ctx, part.y, at,
                             map(rotated_first{}, a, b, c, s));
        store<cache::stream>(ctx, from_column(part.y, p.half), at,
                             map(rotated_second{}, a, b, c, s));
      });
    }
    if (part.copy_rest) {
      auto rest = hold(ctx, with_cols(row, p.rest),
                       [&](const auto& at) { return load<cache::stream>(ctx, from_column(part.x, 2 * p.half), at); });
      each(ctx, rest,
           [&](const auto& at, const auto& v) { store<cache::stream>(ctx, from_column(part.y, 2 * p.half), at, v); });
    }
  }

  /// Of heads that fit in L, rotated as a whole.
  template <class Ctx, class At>
  static MT_FN void rotate_heads(Ctx& ctx, const Params& p, const RopePart<X>& part, const At& row, const At& angles) {
    const auto head = [&](int j) { return at_rows(row, map([=](auto r) { return r * Heads + j; }, row_index(row))); };
    const auto a = repeat<Heads>([&](int j) { return load<cache::stream>(ctx, part.x, head(j)); });
    if (p.interleaved) {
      const auto c = load_dup(ctx, p.cos, angles), s = load_dup(ctx, p.sin, angles);
      MT_UNROLL
      for (int j = 0; j < Heads; ++j) {
        const auto b = swap_pairs(ctx, a[j]);
        store<cache::stream>(
            ctx, part.y, head(j),
            pick_pairs(ctx, map(rotated_first{}, a[j], b, c, s), map(rotated_neighbour{}, a[j], b, c, s)));
      }
      return;
    }
    const auto b = repeat<Heads>([&](int j) { return load<cache::stream>(ctx, from_column(part.x, p.half), head(j)); });
    const auto c = load(ctx, p.cos, angles), s = load(ctx, p.sin, angles);
    MT_UNROLL
    for (int j = 0; j < Heads; ++j) {
      store<cache::stream>(ctx, part.y, head(j), map(rotated_first{}, a[j], b[j], c, s));
      store<cache::stream>(ctx, from_column(part.y, p.half), head(j), map(rotated_second{}, a[j], b[j], c, s));
    }
  }
};

}  // namespace monotile::kernels
