#pragma once
// Which experts a token goes to, and with what weights.

#include "monotile/kernels/moe/params.hpp"
#include "monotile/lang/take.hpp"
#include "monotile/row_status.hpp"

namespace monotile::kernels {
using namespace lang;  // NOLINT: kernels are written in the language

/// All but the loading. What is taken becomes -infinity and loses to everything afterwards, so candidates are kept finite.
template <class L>
struct RouterRows {
  static constexpr float kLowest = -3.40282347e38f;

  /// Only the experts of the best groups stay in `left`.
  template <class Ctx, class Place, class T>
  static MT_FN void limit_groups(Ctx& ctx, const RouterChoice& p, const Place& row, T& left) {
    const int32_t size = static_cast<int32_t>(p.num_experts) / p.groups;
    auto scores = zeros(ctx, row), kept = zeros(ctx, row),
         members = zeros(ctx, row);  // columns of `scores` count groups
    assign(ctx, row, scores, map([](auto v) { return v - kInfinity; }, scores));
    assign(ctx, row, kept, scores);
    for (int32_t g = 0; g < p.groups; ++g) {
      const int32_t first = g * size;
      assign(ctx, row, members,
             map_at(
                 row, [=](auto c, auto v) { return select((c >= first) & (c < first + size), v, -kInfinity); }, left));
      auto total = map([](auto b) { return b.value; }, take_largest(ctx, row, members));
      if (p.group_sum > 1) {
        const auto second = take_largest(ctx, row, members);
        total = map([](auto t, auto b) { return max_of(t + max_of(b.value, kLowest), kLowest); }, total, second);
      }
      assign(ctx, row, scores,
             map_at(
                 row, [=](auto c, auto s, auto t) { return select(c == g, t, s); }, scores, total));
    }
    for (int32_t i = 0; i < p.kept_groups; ++i) {
      const auto best = take_largest(ctx, row, scores);
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

  template <class Ctx, class Place, class T>
  static MT_APART void choose(Ctx& ctx, const RouterChoice& p, const Place& row, const T& logits) {
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

    const int32_t experts = static_cast<int32_t>(p.num_experts);
    const auto candidate = [=](auto c, auto v) { return select(c < experts, max_of(v, kLowest), -kInfinity); };
    auto left = zeros(ctx, row);
    if (!p.by_score) {
      assign(ctx, row, left, map_at(row, candidate, logits));
    } else if (p.bias.data == nullptr) {
      assign(ctx, row, left, map_at(row, candidate, scores));
    } else {
      assign(ctx, row, left,
             map_at(row, candidate, map([](auto s, auto b) { return s + b; }, scores, load_bcast(ctx, p.bias, row))));
    }
    if (p.groups > 1) limit_groups(ctx, p, row, left);

    // What is taken, by rank.
    const auto ranks = rows_of<typename ranks_beside<L>::type>(ctx, p.rows, p.top_k);
    auto chosen = zeros(ctx, ranks), weights = zeros(ctx, ranks);
    for (int32_t j = 0; j < p.top_k; ++j) {
      const auto best = take_largest(ctx, row, left);
      auto value = map([](auto b) { return b.value; }, best);
      if (p.bias.data != nullptr) {
        value = row_reduce<Sum>(
            ctx, row,
            map_at(
                row, [](auto c, auto s, auto b) { return select(c == b.index, s, 0.0f); }, scores, best));
      }
      const auto expert = map([](auto b) { return static_cast<float>(b.index); }, best);
      assign(ctx, ranks, chosen,
             map_at(
                 ranks, [=](auto c, auto old, auto e) { return select(c == j, e, old); }, chosen, expert));
      assign(ctx, ranks, weights,
             map_at(
                 ranks, [=](auto c, auto old, auto v) { return select(c == j, v, old); }, weights, value));
    }
    if (!p.by_score) {
      assign(ctx, ranks, weights, map([=](auto v, auto t, auto i) { return score(v, t) * i; }, weights, top, inverse));
    }

    // A row that cannot be judged takes the lowest experts, with equal weights.
    const float scale = p.scale, share = p.scale / static_cast<float>(p.top_k);
    const auto judged = map([](auto s) { return s == ops::row_ok ? INT32_MAX : 0; }, status);
    assign(ctx, ranks, chosen,
           map_at(
               ranks, [](auto c, auto e, auto n) { return select(c < n, e, float_of(c)); }, chosen, judged));
    auto factor = row_fill(ranks, scale), addend = row_fill(ranks, 0.0f);
    if (p.renormalise) {  // scores that are all 0 share alike
      const auto total = row_reduce<Sum>(ctx, ranks, weights);
      factor = map([=](auto t) { return t > 0.0f ? scale / t : 0.0f; }, total);
      addend = map([=](auto t) { return t > 0.0f ? 0.0f : share; }, total);
    }
    store_indices(ctx, p.experts, ranks, chosen);
    store_values(ctx, p.weights, p.weights_stride, ranks,
                 map_at(
                     ranks, [=](auto c, auto w, auto f, auto a, auto n) { return select(c < n, w * f + a, share); },
                     weights, factor, addend, judged));
  }
};

/// One program per group of rows.
template <class X, class L>
struct Router {
  using Params = RouterParams<X>;

  template <class Ctx>
  static MT_FN void run(Ctx& ctx, const Params& p) {
    const auto row = rows_of<L>(ctx, p.choice.rows, p.choice.num_experts);
    const auto logits = eval(ctx, row, map([](auto v) { return v * 1.0f; }, load(ctx, p.logits, row)));
    RouterRows<L>::choose(ctx, p.choice, row, logits);
  }
};

}  // namespace monotile::kernels
