#pragma once
// Norms of rows too long for one program, in one launch that reads every element once: a team of programs holds the row and exchanges its sums. How a row
// is cut depends on its length alone.

#include "monotile/kernels/norm/norm_parts.hpp"
#include "monotile/kernels/quant/scale.hpp"
#include "monotile/lang/items.hpp"
#include "monotile/lang/team.hpp"
#include "monotile/lang/vectors.hpp"

namespace monotile::kernels {
using namespace lang;  // NOLINT: kernels are written in the language

/// A chunk of h = x, or round(x + residual) which goes back to the residual; as R. See hold_sum. All of x is asked for at once, since it may be all there is,
/// and the residual in halves: both as a whole would fill the registers.
template <class X, class R, class Ctx, class At, class P>
MT_FN auto sum_of_chunk(Ctx& ctx, const At& all, const P& p) {
  const bool sums = p.residual.data != nullptr;
  const auto add = [&](const auto& at, const auto& x) {
    const auto residual_at = only_if(at, sums);
    const auto residual = load<cache::stream>(ctx, p.residual, residual_at, nothing_to_add<R>());
    const auto sum = round_to<R>(map([](auto v, auto r) { return v + r; }, x, residual));
    store<cache::stream>(ctx, p.residual, residual_at, sum);
    return sum;
  };
  auto h = in_parts<At::layout::vectors / 2, R>(ctx, all, add, load<cache::stream>(ctx, p.x, all));
  settle(ctx, h);
  return h;
}

/// How many vectors take gamma and beta at once: 64 bytes of either in a lane, half of it where the row fills more registers, a quarter of fp32 beside codes.
template <class R, class G, bool Codes = false>
inline constexpr int kScaledAtOnce = sizeof(R) == 2 && sizeof(G) == 2 ? 4 : Codes && sizeof(R) == 4 && sizeof(G) == 4 ? 1 : 2;

/// gamma and beta where they are wanted: a chunk leaves no registers for them to wait in.
template <class G, class Ctx, class P>
MT_FN auto scaling_on_demand(Ctx& ctx, const P& p) {
  const bool adds = p.beta.data != nullptr;
  const auto gamma = p.gamma.template as<const G>(), beta = p.beta.template as<const G>();
  return [=, &ctx](const auto& at, auto use) {
    return use(load<cache::read_only>(ctx, gamma, at),
               load<cache::read_only>(ctx, beta, only_if(at, adds), nothing_to_add<G>()));
  };
}

/// y = (h - mean(h)) / sqrt(var(h) + eps) * (gamma + offset) + beta, as LayerNorm does it.
template <class X, class R, class L, class G>
struct LayerNormTeam {
  using Params = NormParams<X, R>;
  static MT_FN int team(const Params& p) { return static_cast<int>(p.chunks); }

  template <class Ctx>
  static MT_FN void run(Ctx& ctx, const Params& p) {
    const float cols = static_cast<float>(p.cols);
    const auto all = chunks_of<L>(ctx, p.rows, p.cols, p.chunks);
    auto h = sum_of_chunk<X, R>(ctx, all, p);
    const float own = uniform(fold_vectors<Sum>(
        ctx, all, [](auto v) { return v; }, h));
    const float mean = team_sum<0>(ctx, team(p), make_sums(own, 0.0f)).first / cols;
    settle(ctx, h);
    const auto distances = [=](auto v) { return make_sums(v - mean, (v - mean) * (v - mean)); };
    const sums moments = team_sum<1>(ctx, team(p), uniform(fold_vectors<Sum>(ctx, all, distances, h)));
    const float rest = moments.first / cols, variance = moments.second / cols - rest * rest;
    const float inverse = recip_sqrt((variance > 0.0f ? variance : variance == variance ? 0.0f : variance) + p.eps);
    const float shift = -rest * inverse, offset = p.gamma_offset;
    settle(ctx, h);
    const auto scaling = scaling_on_demand<G>(ctx, p);
    each_part<kScaledAtOnce<R, G>>(
        ctx, all,
        [&](const auto& at, const auto& t) {
          const auto scaled = [&](const auto& gamma, const auto& beta) {
            return round_to<X>(
                map([=](auto v, auto g, auto b) { return fma_of(fma_of(v - mean, inverse, shift), g + offset, b); }, t,
                    gamma, beta));
          };
          store<cache::stream>(ctx, p.y, at, scaling(at, scaled));
        },
        h);
  }
};

/// RMSNorm as RmsNormQuantise does it: to codes, and to y if that is there; or to y alone.
template <class X, class R, class L, class G, bool Codes>
struct RmsNormTeam {
  using Params = NormParams<X, R>;
  static MT_FN int team(const Params& p) { return static_cast<int>(p.chunks); }

  template <class Ctx>
  static MT_FN void run(Ctx& ctx, const Params& p) {
    const auto all = chunks_of<L>(ctx, p.rows, p.cols, p.chunks);
    auto h = sum_of_chunk<X, R>(ctx, all, p);
    const float own = uniform(fold_vectors<SumSquares>(
        ctx, all, [](auto v) { return v; }, h));
    const float squares = team_sum<0>(ctx, team(p), make_sums(own, 0.0f)).first;
    const float inverse = recip_sqrt(squares / static_cast<float>(p.cols) + p.eps);
    settle(ctx, h);
    const auto scaling = scaling_on_demand<G>(ctx, p);
    const auto finish = [&](const auto& at, const auto& t) {
      return normalised<X>(ctx, at, scaling, p.gamma_offset, t, 0.0f, inverse);
    };
    if constexpr (Codes) {
      // y is computed twice, to the same bits: held beside h it would leave room for half as many programs.
      const auto magnitudes = [&](const auto& at, const auto& t) { return map(finite_magnitude{}, finish(at, t)); };
      const float most = uniform(fold_parts<kScaledAtOnce<R, G, true>, Max>(ctx, all, magnitudes, h));
      float scale = scale_of_most{p.largest_code}(team_max<1>(ctx, team(p), most));
      if (p.given) scale = uniform(load_row_value(ctx, p.scales, all));
      store_row_value(ctx, p.scales, only_if(all, !p.given && chunk_number(all) == 0), row_fill(all, scale));
      settle(ctx, h);
      const float to_code = inverse_of{}(scale);
      each_part<kScaledAtOnce<R, G, true>>(
          ctx, all,
          [&](const auto& at, const auto& t) {
            const auto y = finish(at, t);
            if (p.y.data != nullptr) store<cache::stream>(ctx, p.y, at, y);
            store_codes(ctx, p.codes, at, map([=](auto v) { return v * to_code; }, y));
          },
          h);
    } else {
      each_part<kScaledAtOnce<R, G>>(
          ctx, all, [&](const auto& at, const auto& t) { store<cache::stream>(ctx, p.y, at, finish(at, t)); }, h);
    }
  }
};

}  // namespace monotile::kernels
