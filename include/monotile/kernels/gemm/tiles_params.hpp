#pragma once
// What the kernel of matrix tiles is given: filled by the host, passed by value.

#include "monotile/lang/matrix_view.hpp"

namespace monotile::kernels {

/// What follows a product in the library's own instantiations: c = scale * a b^T + bias + residual.
struct AffineEpilogue {
  float scale = 1.0f;
  lang::any_vector bias;       ///< [n]; bias.data may be null
  lang::matrix_view residual;  ///< like c; residual.data may be null
};
/// The same after factors of rows and columns: for products of codes.
template <class Affine>
struct ScaledBefore {
  lang::cell_scales scales;
  Affine affine;
};
using ScaledEpilogue = ScaledBefore<AffineEpilogue>;

/// c = activation(gate) * (a b^T + bias) + residual, or without a gate activation(a b^T + bias) + residual. The kernel is in gemm_gated.hpp.
struct GatedEpilogue {
  bool tanh_form = false;      ///< GELU by its tanh form, else SiLU
  lang::any_vector bias;       ///< [n]; bias.data may be null
  lang::matrix_view gate;      ///< like c; gate.data may be null
  lang::matrix_view residual;  ///< like c; residual.data may be null
};

/// AffineEpilogue where a and b have changed places, because one has few rows: tiles hold the result turned on its side, and bias runs down them.
struct AcrossEpilogue : AffineEpilogue {};
using ScaledAcrossEpilogue = ScaledBefore<AcrossEpilogue>;

template <class Epilogue>
struct GemmTilesParams {
  lang::matrix_view a, b, c;  ///< [m, k], [n, k], [m, n]; with AcrossEpilogue c is [n, m]
  lang::tile_space tiles;
  Epilogue epilogue;
};

}  // namespace monotile::kernels
