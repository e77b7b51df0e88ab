#pragma once
// Products with an activation: of a matrix beside the result (SwiGLU, GeGLU), or of the sums themselves.

#include "monotile/kernels/activation/functions.hpp"
#include "monotile/kernels/gemm/gemm_tiles.hpp"

namespace monotile::kernels {

template <class Ctx, class Acc, class Function>
MT_FN void apply(Ctx& ctx, Acc& acc, const tile_coord& t, const matrix_view& gate, const Function& function) {
  if (gate.data != nullptr) {
    map_cells_with(ctx, acc, t, gate, [&](auto v, auto g) { return function(g) * v; });
  } else {
    map_cells(ctx, acc, t, [&](auto v) { return function(v); });
  }
}

template <class Ctx, class Acc>
MT_FN void finish_cells(Ctx& ctx, Acc& acc, const tile_coord& t, const matrix_view& c, const GatedEpilogue& e) {
  if (e.bias.data != nullptr) add_columns(ctx, acc, t, e.bias);
  if (e.tanh_form) {
    apply(ctx, acc, t, e.gate, gelu_tanh_of{});
  } else {
    apply(ctx, acc, t, e.gate, silu_of{});
  }
  if (e.residual.data != nullptr) add_cells(ctx, acc, t, e.residual);
  store(ctx, c, t, acc);
}

}  // namespace monotile::kernels
