#pragma once
// What the product kernels are given: filled by the host, passed by value.

#include "monotile/lang/view.hpp"

namespace monotile::kernels {

/// Extents of c = a b^T, and what one program takes of it (machines with lanes derive its rows of b from the lanes).
struct ProductShape {
  int64_t m, n, k;
  int64_t m_per_program;
  int64_t n_per_program;
  int64_t programs = 0;  ///< of the launch, where they share the rows of b among themselves
};

/// A: view of a plain type or int8_rows; W: view of a plain type or quant_view.
template <class A, class W>
struct RowDotsParams {
  ProductShape shape;
  A a;
  W b;
  lang::any_rows c, residual;  ///< residual.data may be null
  lang::any_vector bias;       ///< bias.data may be null
};

/// Rows of `from` rounded to int8 blocks, or converted to fp32.
template <class T>
struct CastRowsParams {
  lang::view<const T> from;
  lang::int8_rows to_int8;
  lang::view<float> to_float;
  int64_t rows, cols;
};

/// Rows to be copied bit for bit; `chunks` programs side by side take a row.
template <class T>
struct PackRowsParams {
  lang::view<const T> from;
  lang::view<T> to;
  int64_t rows, cols, chunks;
};

}  // namespace monotile::kernels
