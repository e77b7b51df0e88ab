#pragma once
// What the quantisation kernels are given: filled by the host, passed by value.

#include "monotile/kernels/activation/params.hpp"
#include "monotile/lang/view.hpp"

namespace monotile::kernels {

/// Rows are (row of x, group of columns): `groups` to a row of x.
template <class X>
struct QuantiseParams {
  lang::any_view codes;
  lang::view<float> scales;  ///< a row is (band of rows, group)
  lang::view<const X> x;
  lang::view<const X> up;  ///< gated form: x is the gate
  int64_t rows, cols;
  uint32_t groups, block_rows;  ///< rows of x that share a scale
  float largest_code;
  bool given;  ///< scales are read, not chosen
  GateFunction function;
  int64_t chunks;  ///< long rows: programs side by side along one
};

/// Blocks of `block_rows` x `block_cols`, each cut into `parts` of `part_rows` rows: one program each.
template <class X>
struct BlockScalesParams {
  lang::view<const X> x;
  lang::view<float> out;  ///< a row per program
  int64_t rows, cols, block_rows, block_cols;
  int64_t groups, parts, part_rows;
  int64_t step;        ///< columns taken at once
  float largest_code;  ///< 0: the largest magnitude is written, not a scale
};

struct DequantiseParams {
  lang::any_view y, codes;
  lang::view<const uint8_t> nibbles, zero_points;
  lang::view<const float> scales;
  int64_t rows, cols;  ///< rows (row of y, group), columns of a group
  int64_t chunks;      ///< programs side by side along a row
  uint32_t groups, block_rows;
};

template <class Blocks>
struct DequantiseBlocksParams {
  lang::any_view y;
  Blocks codes;
  int64_t rows, cols, chunks;
};

template <class X>
struct QuantiseInt4Params {
  lang::view<uint8_t> nibbles, zero_points;
  lang::view<float> scales;
  lang::view<const X> x;
  int64_t rows, cols;
  bool symmetric;  ///< no zero points are written: all are 8
};

}  // namespace monotile::kernels
