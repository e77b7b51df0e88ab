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
    const auto top = row_reduce<MaxOrNan>(ctx, row, logits);
    const auto status = map(
        [](auto t) {
          return static_cast<int32_t>(is_nan(t)         ? ops::row_has_nan
                                      : t == -kInfinity ? ops::row_no_valid_token
                                                        : ops::row_ok);
        },
        top);
    if (p.status != nullptr) store_row_value(ctx, p.status, row, status);

    // Scores: e^(x - max), divided by their sum where it matters; or 1 / (1 + e^-x). Branches are taken once, not for every element.
    const auto power = [](auto v, auto t) { return select(v == t, 1.0f, fast_exp2((v - t) * 1.44269504f)); };
    const auto logistic = [](auto v) { return 1.0f / (1.0f + fast_exp(-v)); };
    const bool divided = !p.sigmoid && !(p.renormalise && !p.by_score);
    auto scores = zeros(ctx, row);
    auto inverse = row_fill(row, 1.0f);
    if (p.sigmoid) {
      if (p.by_score) assign(ctx, row, scores, map(logistic, logits));
    } else if (divided) {
      assign(ctx, row, scores, map(power, logits, top));
      inverse = map([](auto s) { return 1.0f / s; }, row_reduce<Sum>(ctx, row, scores));
      if (p.by_score) assign(ctx, row, scores, map([](auto s, auto i) { return s * i; }, scores, inverse));
    }

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
    take_ranks(ctx, row, left, ranks, p.top_k, weights, chosen);
    if (p.bias.data != nullptr) pick_columns(ctx, row, scores, ranks, p.top_k, chosen, weights);
    if (!p.by_score) {
      if (p.sigmoid) {
        assign(ctx, ranks, weights, map(logistic, weights));
      } else {
        assign(ctx, ranks, weights,
               map([=](auto v, auto t, auto i) { return power(v, t) * i; }, weights, top, inverse));
      }
    }

    // A row that cannot be judged takes the lowest experts, with equal weights.
    const float scale = p.scale, share = p.share;
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
