#pragma once
// What chained products want of a matrix unit beyond what products want: operands from tiles whose rows run along k.
// `Read` is the backend's.

#include "monotile/lang/backend/simt/ring.hpp"
#include "monotile/lang/row_layout.hpp"

namespace monotile::lang::inline MONOTILE_TARGET_NAME {

/// mma.sync: ldmatrix with each 8 x 8 matrix transposed.
template <class Unit, class Read>
struct mma_chain_unit : Unit {
  using row_layout = mma_rows;
  /// Operand b of two neighbours along n, from column `col` of rows k to k + 15.
  template <class Ctx, class Tile>
  static MT_FN void load_b_across(Ctx& cx, uint32_t (&b)[2][2][kLanes], const Tile& tile, int k, int col) {
    const unsigned char* rows[kLanes];
    for (int l = 0; l < kLanes; ++l) {
      const int lane = cx.lane(l);
      rows[l] = tile.data + Tile::offset(k + lane % 16, col / 8 + lane / 16);
    }
    uint32_t words[4][kLanes];
    Read::read4_across(words, rows);
    for (int l = 0; l < kLanes; ++l) {
      MT_UNROLL
      for (int i = 0; i < 4; ++i) b[i / 2][i % 2][l] = words[i][l];
    }
  }
};
/// MFMA: four elements of a column are neighbours in a tile that was turned when it was copied.
template <class Unit>
struct mfma_chain_unit : Unit {
  using row_layout = mfma_rows;
  template <class Ctx, class Tile>
  static MT_FN void load_a_across(Ctx& cx, uint32_t (&a)[2][kLanes], const Tile& tile, int k, int col) {
    const unsigned char* from[kLanes];
    for (int l = 0; l < kLanes; ++l) {
      const coordinate at = Unit::atom::a(cx.lane(l), 0);  // row: along the tile's columns
      from[l] = tile.data + Tile::offset(k + at.col, col + at.row);
    }
    Unit::reader::read8(a, from);
  }
};

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME
