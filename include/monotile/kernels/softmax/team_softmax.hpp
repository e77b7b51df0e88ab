#pragma once
// Softmax of rows too long for one program, in one launch: a team of programs holds the row and exchanges maxima and sums. How a row is cut depends on its
// length alone.

#include "monotile/kernels/softmax/params.hpp"
#include "monotile/kernels/softmax/softmax_parts.hpp"
#include "monotile/lang/team.hpp"
#include "monotile/lang/vectors.hpp"

namespace monotile::kernels {
using namespace lang;  // NOLINT: kernels are written in the language

/// One program per chunk, a team per row.
template <class Y, class X, class L>
struct SoftmaxTeam {
  using Params = SoftmaxParams<Y, X>;
  static MT_FN int team(const Params& p) { return static_cast<int>(p.chunks); }

  template <class Ctx>
  static MT_FN void run(Ctx& ctx, const Params& p) {
    const SoftmaxScale s = SoftmaxScale::of(p.scale);
    const float sign = s.sign, scale = s.scale, scale2 = s.scale2;
    const auto at = chunks_of<L>(ctx, p.rows, p.cols, p.chunks);
    auto x = load<cache::stream>(ctx, p.x, at);
    const sums own = fold_powers(
        ctx, at, [=](auto v) { return v * sign; }, scale2, x);
    settle(ctx, x);
    const team_pairs all = team_exchange(ctx, team(p), own);
    float largest = -kInfinity, sum = 0.0f;
    for (int i = 0; i < all.count; ++i) largest = max_of(largest, all(i).first);
    largest = finite_or_zero{}(largest);
    for (int i = 0; i < all.count; ++i) sum += share_of_chunk(all(i).first, all(i).second, largest, scale2);
    if (p.log) {
      const float offset = sum == 0.0f ? 0.0f : fast_log(sum);
      store_vectors<cache::stream>(
          ctx, p.y, at, [=](auto v) { return (v * sign - largest) * scale - offset; }, x);
    } else {
      const float inverse = sum == 0.0f ? 0.0f : 1.0f / sum;
      store_vectors<cache::stream>(
          ctx, p.y, at, [=](auto v) { return fast_exp2((v * sign - largest) * scale2) * inverse; }, x);
    }
  }
};

}  // namespace monotile::kernels
