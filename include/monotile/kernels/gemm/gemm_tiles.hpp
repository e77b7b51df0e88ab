#pragma once
// c = epilogue(a b^T) by tiles of the result: three callbacks say what is copied, multiplied and stored; the target
// decides who does it and how far ahead. One source for every machine.

#include <type_traits>

#include "monotile/kernels/gemm/tiles_params.hpp"
#include "monotile/lang/lang.hpp"
#include "monotile/lang/matrix.hpp"

namespace monotile::kernels {
using namespace lang;  // NOLINT: kernels are written in the language

/// What one step along k needs on chip. `along` says which coordinate of the tile an operand follows.
template <class Cfg, class T>
struct GemmStage {
  smem_tile<T, Cfg::bm, Cfg::bk, along::m> a;
  smem_tile<T, Cfg::bn, Cfg::bk, along::n> b;
};

/// An epilogue is a plain struct whose call operator may use every word on accumulators.
template <class Ctx, class Acc, class Epilogue>
MT_FN void finish_cells(Ctx& ctx, Acc& acc, const tile_coord& t, const matrix_view& c, const Epilogue& epilogue) {
  epilogue(ctx, acc, t);
  store(ctx, c, t, acc);
}
/// The ones that the library itself instantiates: what they do is known at run time.
template <class Ctx, class Acc>
MT_FN void finish_cells(Ctx& ctx, Acc& acc, const tile_coord& t, const matrix_view& c, const AffineEpilogue& e) {
  if (e.scale != 1.0f) map_cells(ctx, acc, t, [&](auto v) { return v * e.scale; });
  if (e.bias.data != nullptr) add_columns(ctx, acc, t, e.bias);
  if (e.residual.data != nullptr) add_cells(ctx, acc, t, e.residual);
  store(ctx, c, t, acc);
}
template <class Ctx, class Acc>
MT_FN void finish_cells(Ctx& ctx, Acc& acc, const tile_coord& t, const matrix_view& c, const AcrossEpilogue& e) {
  if (e.scale != 1.0f) map_cells(ctx, acc, t, [&](auto v) { return v * e.scale; });
  if (e.bias.data != nullptr) add_rows(ctx, acc, t, e.bias);
  if (e.residual.data != nullptr) add_cells_across(ctx, acc, t, e.residual);
  store_across(ctx, c, t, acc);
}
template <class Ctx, class Acc, class Affine>
MT_FN void finish_cells(Ctx& ctx, Acc& acc, const tile_coord& t, const matrix_view& c, const ScaledBefore<Affine>& e) {
  if (e.scales.any()) scale_cells(ctx, acc, t, e.scales);
  finish_cells(ctx, acc, t, c, e.affine);
}
/// Does the result lie across the tiles?
template <class Epilogue>
inline constexpr bool lies_across = std::is_same_v<Epilogue, AcrossEpilogue> || std::is_same_v<Epilogue, ScaledAcrossEpilogue>;

template <class Cfg, class T, class Epilogue = AffineEpilogue>
struct GemmTiles {
  using Config = Cfg;
  using Stage = GemmStage<Cfg, T>;
  using Params = GemmTilesParams<Epilogue>;

  template <class Ctx>
  static MT_FN void run(Ctx& ctx, const Params& p) {
    mainloop<Cfg, Stage>(
        ctx, p.tiles,
        [&](auto& cx, auto& stage, const tile_coord& t, int k) {
          copy_async(cx, stage.a, p.a, t.batch, t.m, k * Cfg::bk);
          copy_async(cx, stage.b, p.b, t.batch, t.n, k * Cfg::bk);
        },
        [&](auto& cx, auto& acc, auto& stage) { mma(cx, acc, stage.a, stage.b); },
        [&](auto& cx, auto& acc, const tile_coord& t) {
          finish_sums<lies_across<Epilogue>>(cx, acc, t, p.c,
                                             [&](auto& sums) { finish_cells(cx, sums, t, p.c, p.epilogue); });
        });
  }

  /// On the host, before a launch: which matrices are copied into which tiles.
  template <class Binder>
  static void bind(const Binder& binder, Params& p) {
    using A = decltype(Stage::a);
    using B = decltype(Stage::b);
    binder.operand(p.a, static_cast<const A*>(nullptr));
    binder.operand(p.b, static_cast<const B*>(nullptr));
    binder.result(p.c);
  }
};

}  // namespace monotile::kernels
