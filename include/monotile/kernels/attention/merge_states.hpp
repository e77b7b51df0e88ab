#pragma once
// Two results of attention over different keys become the result over both.

#include "monotile/kernels/attention/merge_states_params.hpp"
#include "monotile/lang/lang.hpp"

namespace monotile::kernels {
using namespace lang;  // NOLINT: kernels are written in the language

/// One program per group of rows of L. A part without a key (log-sum-exp -inf) counts for nothing, whatever its row holds.
template <class L>
struct MergeStates {
  using Params = MergeStatesParams;

  template <class Ctx>
  static MT_FN void run(Ctx& ctx, const Params& p) {
    constexpr float kLog2e = 1.44269504f;
    const auto row = rows_of<L>(ctx, p.rows, p.cols);
    const auto a = load_row_value(ctx, p.a.log_sum_exp, row), b = load_row_value(ctx, p.b.log_sum_exp, row);
    const auto most = map([](auto x, auto y) { return x > y ? x : y; }, a, b);
    const auto share = [](auto x, auto m) { return x == -kInfinity ? 0.0f : fast_exp2((x - m) * kLog2e); };
    const auto of_a = map(share, a, most), of_b = map(share, b, most);
    const auto total = map([](auto x, auto y) { return x + y; }, of_a, of_b);
    const auto inverse = map([](auto t) { return t == 0.0f ? 0.0f : 1.0f / t; }, total);
    store_any(ctx, p.merged.out, row,
              map([](auto x, auto y, auto u, auto v,
                     auto i) { return (select(u == 0.0f, u, x * u) + select(v == 0.0f, v, y * v)) * i; },
                  load_any(ctx, p.a.out, row), load_any(ctx, p.b.out, row), of_a, of_b, inverse));
    if (p.merged.log_sum_exp.data == nullptr) return;
    store_row_value(ctx, p.merged.log_sum_exp, row,
                    map([](auto m, auto t) { return t == 0.0f ? -kInfinity : m + fast_log(t); }, most, total));
  }
};

}  // namespace monotile::kernels
