#pragma once
// Products of fp32 without matrix instructions: sums in the registers of lanes, operands read from shared tiles four elements at a time.
// `Reader::read16` is the backend's: a chunk of 16 bytes of a row.

#include "monotile/lang/fragment.hpp"
#include "monotile/lang/tile_config.hpp"

namespace monotile::lang::inline MONOTILE_TARGET_NAME {

static_assert(covers_exactly_once<fragment_c<lane_sums<32>>>(32) && covers_exactly_once<fragment_c<lane_sums<64>>>(64));

template <class Reader>
struct lane_unit {
  using atom = lane_sums<kWave>;

  /// Four elements of a lane's row of a (`along::m`) or of one of its rows of b, from rows `row` on.
  template <class Ctx, class Tile>
  static MT_FN void load(Ctx& cx, float (&x)[4][kLanes], const Tile& tile, int row, int chunk, int element = 0) {
    const unsigned char* from[kLanes];
    int rows[kLanes];
    for (int l = 0; l < kLanes; ++l) {
      const coordinate at = atom::c(cx.lane(l), element);
      rows[l] = row + (Tile::axis == along::n ? at.col : at.row);
      from[l] = tile.data + Tile::offset(rows[l], chunk);
    }
    uint32_t words[4][kLanes];
    Reader::read16(words, from, rows);
    MT_UNROLL
    for (int e = 0; e < 4; ++e) {
      for (int l = 0; l < kLanes; ++l) x[e][l] = __builtin_bit_cast(float, words[e][l]);
    }
  }
};

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME
