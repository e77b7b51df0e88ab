#pragma once
// Matrix tiles on CPU: a program is one tile of the result. Copies pack and widen a panel, so that the product is
// plain loops over consecutive floats that compilers turn into vector code.

#include "monotile/lang/backend/cpu/launch.hpp"
#include "monotile/lang/tile_config.hpp"

namespace monotile::lang::inline MONOTILE_TARGET_NAME {

inline constexpr bool kHasWarpgroups = false;

template <class T>
struct rounding {
  static MT_FN T apply(float v) { return from_float<T>(v); }
};

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME

#include "monotile/lang/backend/cells.hpp"

namespace monotile::lang::inline MONOTILE_TARGET_NAME {

/// fp32, one column of the operand after the other.
template <class T, int Rows, int Cols, along Axis>
struct smem_tile {
  using element = T;
  alignas(64) float at[Cols][Rows];
};

template <class T>
struct tile_context {
  using storage = T;
  const tile_space& space;
};

template <class Cfg>
struct tile_acc {
  alignas(64) float d[Cfg::bm][Cfg::bn];
};

template <class Cfg, class T, class F>
MT_FN void each_vector(tile_context<T>&, tile_acc<Cfg>& acc, const tile_coord& t, F f) {
  for (int m = 0; m < Cfg::bm; ++m) {
    for (int n = 0; n < Cfg::bn; ++n) {
      float v[1] = {acc.d[m][n]};
      f(v, t.m + m, t.n + n);
      acc.d[m][n] = v[0];
    }
  }
}

template <class T, int R, int C, along A>
MT_FN void copy_async(tile_context<T>&, smem_tile<T, R, C, A>& to, const matrix_view& from, int batch, int row,
                      int col) {
  const T* matrix = static_cast<const T*>(from.data) + batch * from.batch_stride;
  const int rows = from.rows - row < R ? from.rows - row : R, cols = from.cols - col < C ? from.cols - col : C;
  for (int r = 0; r < R; ++r) {
    const T* source = matrix + (row + r) * from.stride + col;
    for (int c = 0; c < C; ++c) to.at[c][r] = r < rows && c < cols ? promote(source[c]) : 0.0f;
  }
}

template <class Cfg, class T, int M, int N, int K, along A1, along A2>
MT_FN void mma(tile_context<T>&, tile_acc<Cfg>& acc, const smem_tile<T, M, K, A1>& a, const smem_tile<T, N, K, A2>& b) {
  for (int m = 0; m < M; ++m) {
    for (int k = 0; k < K; ++k) {
      const float x = a.at[k][m];
      for (int n = 0; n < N; ++n) acc.d[m][n] += x * b.at[k][n];
    }
  }
}

template <class Cfg, class T>
MT_FN void store(tile_context<T>& cx, const matrix_view& c, const tile_coord& t, tile_acc<Cfg>& acc) {
  store_from_registers(cx, c, t, acc);
}

template <class Cfg, class Stage, class Load, class Compute, class Finish>
MT_FN void mainloop(Context& ctx, const tile_space& space, Load load, Compute compute, Finish finish) {
  tile_context<typename decltype(Stage::a)::element> cx{space};
  auto* stage = static_cast<Stage*>(ctx.allocate(sizeof(Stage)));
  auto* acc = static_cast<tile_acc<Cfg>*>(ctx.allocate(sizeof(tile_acc<Cfg>)));
  const tile_coord t = tile_at<Cfg>(space, static_cast<int>(ctx.program));
  for (auto& row : acc->d) {
    for (float& x : row) x = 0.0f;
  }
  for (int k = 0; k < space.k; ++k) {
    load(cx, *stage, t, k);
    compute(cx, *acc, *stage);
  }
  finish(cx, *acc, t);
}

template <class K, class Params>
void launch_tiles(Stream& stream, const Grid&, const Params& params) {
  launch<K>(stream, Grid{tile_count<typename K::Config>(params.tiles)}, params);
}

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME
