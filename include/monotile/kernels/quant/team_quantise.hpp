#pragma once
// Long rows to one-byte codes with a scale each, in one launch that reads every element once: a team of programs holds the row and exchanges its largest
// magnitudes.

#include "monotile/kernels/quant/quantise.hpp"
#include "monotile/lang/items.hpp"
#include "monotile/lang/team.hpp"
#include "monotile/lang/vectors.hpp"

namespace monotile::kernels {
using namespace lang;  // NOLINT: kernels are written in the language

/// As Quantise: one program per chunk, a team per row.
template <class X, class L, bool Gated>
struct QuantiseTeam {
  using Params = QuantiseParams<X>;
  static MT_FN int team(const Params& p) { return static_cast<int>(p.chunks); }

  template <class Ctx>
  static MT_FN void run(Ctx& ctx, const Params& p) {
    const auto all = chunks_of<L>(ctx, p.rows, p.cols, p.chunks);
    auto x = [&] {
      if constexpr (Gated) {
        return with_product<X>(ctx, p, [&](auto product) { return in_parts<2, X>(ctx, all, product); });
      } else {
        return load<cache::stream>(ctx, p.x, all);
      }
    }();
    const auto scale_at = at_rows(all, map(scale_row{p.groups, p.block_rows}, row_index(all)));
    const float own = uniform(fold_vectors<Max>(ctx, all, finite_magnitude{}, x));
    float scale = scale_of_most{p.largest_code}(team_max<0>(ctx, team(p), own));
    if (p.given) scale = uniform(load_row_value(ctx, p.scales, scale_at));
    store_row_value(ctx, p.scales, only_if(scale_at, !p.given && chunk_number(all) == 0), row_fill(all, scale));
    settle(ctx, x);
    const float inverse = inverse_of{}(scale);
    each_part<1>(
        ctx, all,
        [&](const auto& at, const auto& t) {
          store_codes(ctx, p.codes, at, map([=](auto v) { return v * inverse; }, t));
        },
        x);
  }
};

}  // namespace monotile::kernels
