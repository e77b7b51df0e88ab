#pragma once
// Which experts a token goes to, and with what weights.

#include "monotile/kernels/moe/params.hpp"
#include "monotile/lang/lang.hpp"
#include "monotile/row_status.hpp"

namespace monotile::kernels {
using namespace lang;  // NOLINT: kernels are written in the language

/// One program per group of rows. What is chosen loses to everything afterwards: candidates are kept finite, and -infinity marks what is gone.
template <class X, class L>
struct Router {
  using Params = RouterParams<X>;
  static constexpr float kLowest = -3.40282347e38f;

  template <class Ctx, class Place, class T>
  static MT_FN auto largest_of(Ctx& ctx, const Place& row, const T& t) {
    return row_reduce<ArgMax>(ctx, row,
                              map_at(
                                  row, [](auto c, auto v) { return make_indexed(v, c); }, t));
  }

  /// Only the experts of the best groups stay in `left`.
  template <class Ctx, class Place, class T>
  static MT_FN void limit_groups(Ctx& ctx, const Params& p, const Place& row, T& left) {
    const int32_t size = static_cast<int32_t>(p.num_experts) / p.groups;
    auto scores = zeros(ctx, row), kept = zeros(ctx, row);  // columns of `scores` count groups
    assign(ctx, row, kept, map([](auto v) { return v - kInfinity; }, kept));
    for (int32_t g = 0; g < p.groups; ++g) {
      const int32_t first = g * size;
      const auto inside = [=](auto c, auto v) { return select((c >= first) & (c < first + size), v, -kInfinity); };
      const auto best = largest_of(ctx, row, map_at(row, inside, left));
      auto total = map([](auto b) { return b.value; }, best);
      if (p.group_sum > 1) {
        const auto second =
            largest_of(ctx, row,
                       map_at(
                           row, [=](auto c, auto v, auto b) { return select(c == b.index, -kInfinity, inside(c, v)); },
                           left, best));
        total = map([](auto t, auto b) { return max_of(t + max_of(b.value, kLowest), kLowest); }, total, second);
      }
      assign(ctx, row, scores,
             map_at(
                 row, [=](auto c, auto s, auto t) { return select(c == g, t, s); }, scores, total));
    }
    const int32_t groups = p.groups;
    for (int32_t i = 0; i < p.kept_groups; ++i) {
      const auto best = largest_of(ctx, row,
                                   map_at(
                                       row, [=](auto c, auto s) { return select(c < groups, s, -kInfinity); }, scores));
      assign(ctx, row, scores,
             map_at(
                 row, [](auto c, auto s, auto b) { return select(c == b.index, -kInfinity, s); }, scores, best));
      assign(ctx, row, kept,
             map_at(
                 row,
                 [=](auto c, auto k, auto v, auto b) {
                   const auto first = b.index * size;
                   return select((c >= first) & (c < first + size), v, k);
                 },
                 kept, left, best));
    }
    assign(ctx, row, left, kept);
  }

  template <class Ctx>
  static MT_FN void run(Ctx& ctx, const Params& p) {
    const auto row = rows_of<L>(ctx, p.rows, p.num_experts);
    const auto logits = eval(ctx, row, map([](auto v) { return v * 1.0f; }, load(ctx, p.logits, row)));
    // A NaN wins as the lowest of all infinities.
    const auto top = row_reduce<ArgMax>(ctx, row,
                                        map_at(
                                            row,
                                            [](auto c, auto v) {
                                              return make_indexed(select(is_nan(v), kInfinity, v),
                                                                  select(is_nan(v), int32_t{-1}, c));
                                            },
                                            logits));
    const auto status = map(
        [](auto t) {
          return static_cast<int32_t>(t.index < 0             ? ops::row_has_nan
                                      : t.value == -kInfinity ? ops::row_no_valid_token
                                                              : ops::row_ok);
        },
        top);
    if (p.status != nullptr) store_row_value(ctx, p.status, row, status);

    // Scores: e^(x - max), divided by their sum where it matters; or 1 / (1 + e^-x).
    const bool sigmoid = p.sigmoid;
    const auto score = [=](auto v, auto t) {
      return sigmoid ? 1.0f / (1.0f + fast_exp(-v)) : select(v == t.value, 1.0f, fast_exp(v - t.value));
    };
    const auto raw = eval(ctx, row, map(score, logits, top));
    auto inverse = row_fill(row, 1.0f);
    if (!sigmoid && !(p.renormalise && !p.by_score)) {
      inverse = map([](auto s) { return 1.0f / s; }, row_reduce<Sum>(ctx, row, raw));
    }
    const auto scores = map([](auto s, auto i) { return s * i; }, raw, inverse);

    auto left = zeros(ctx, row);
    if (!p.by_score) {
      assign(ctx, row, left, map([](auto v) { return max_of(v, kLowest); }, logits));
    } else if (p.bias.data == nullptr) {
      assign(ctx, row, left, scores);
    } else {
      assign(ctx, row, left,
             map([](auto s, auto b) { return max_of(s + b, kLowest); }, scores, load_bcast(ctx, p.bias, row)));
    }
    if (p.groups > 1) limit_groups(ctx, p, row, left);

    // A row that cannot be judged takes the lowest experts.
    const float equal = p.renormalise || p.top_k == 0 ? 1.0f : 1.0f / static_cast<float>(p.top_k);
    auto picked = zeros(ctx, row);  // weights by rank
    for (int32_t j = 0; j < p.top_k; ++j) {
      const auto best = largest_of(ctx, row, left);
      const auto chosen = map([=](auto b, auto s) { return s == ops::row_ok ? b.index : j; }, best, status);
      const int32_t k = p.top_k;
      store_row_value(ctx, p.experts + j, at_rows(row, map([=](auto r) { return r * k; }, row_index(row))), chosen);
      auto weight = row_fill(row, equal);
      if (p.by_score) {
        weight =
            row_reduce<Sum>(ctx, row,
                            map_at(
                                row, [](auto c, auto s, auto i) { return select(c == i, s, 0.0f); }, scores, chosen));
      } else {
        weight = map([=](auto b, auto t, auto i) { return score(b.value, t) * i; }, best, top, inverse);
      }
      weight = map([=](auto w, auto s) { return s == ops::row_ok ? w : equal; }, weight, status);
      assign(ctx, row, picked,
             map_at(
                 row, [=](auto c, auto w, auto v) { return select(c == j, v, w); }, picked, weight));
      assign(ctx, row, left,
             map_at(
                 row, [](auto c, auto v, auto i) { return select(c == i, -kInfinity, v); }, left, chosen));
    }

    const float scale = p.scale, share = p.top_k == 0 ? 0.0f : p.scale / static_cast<float>(p.top_k);
    auto factor = row_fill(row, scale), addend = row_fill(row, 0.0f);
    const auto out = with_cols(row, p.top_k);
    if (p.renormalise) {  // scores that are all 0 share alike
      const auto total = row_reduce<Sum>(ctx, out, picked);
      factor = map([=](auto t) { return t > 0.0f ? scale / t : 0.0f; }, total);
      addend = map([=](auto t) { return t > 0.0f ? 0.0f : share; }, total);
    }
    store(ctx, p.weights, out, map([](auto w, auto f, auto a) { return w * f + a; }, picked, factor, addend));
  }
};

}  // namespace monotile::kernels
