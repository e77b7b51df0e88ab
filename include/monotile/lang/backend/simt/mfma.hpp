#pragma once
// Fragments of MFMA read from shared tiles of elements of 16 or 8 bits. `Reader::read8` is the backend's: eight bytes a lane.

#include "monotile/lang/fragment.hpp"

namespace monotile::lang::inline MONOTILE_TARGET_NAME {

/// Lanes of MFMA read eight bytes each, sixteen lanes in a phase. With the swizzle of 16-byte chunks alone, rows eight apart would read the same
/// half of the same banks, so every second group of eight rows has the halves of its chunks exchanged.
MT_FN constexpr int mfma_half(int row, int byte) { return byte ^ row / 8 % 2 * 8; }
MT_FN constexpr bool mfma_halves_exchanged(int row) { return row / 8 % 2 != 0; }

/// `Bytes`: of an element. Places along k are counted in 16 bits, whatever it is.
template <class Reader, class Atom, int Bytes = 2>
struct mfma_loads {
  using atom = Atom;
  using reader = Reader;
  static constexpr int a_words = Atom::a_elements * Bytes / 4, b_words = Atom::b_elements * Bytes / 4, b_at_once = 1;
  static_assert(a_words == 2 && b_words == 2, "eight bytes a lane");

  /// Elements of a lane are neighbours, and start on a multiple of their number.
  template <class Ctx, class Tile>
  static MT_FN void load_a(Ctx& cx, uint32_t (&a)[2][kLanes], const Tile& tile, int row, int k) {
    const unsigned char* from[kLanes];
    for (int l = 0; l < kLanes; ++l) {
      const coordinate at = Atom::a(cx.lane(l), 0);
      const int r = row + at.row, byte = k * 2 + at.col * Bytes;
      from[l] = tile.data + Tile::offset(r, byte / 16) + mfma_half(r, byte % 16);
    }
    Reader::read8(a, from);
  }
  template <class Ctx, class Tile>
  static MT_FN void load_b(Ctx& cx, uint32_t (&b)[1][2][kLanes], const Tile& tile, int row, int k) {
    const unsigned char* from[kLanes];
    for (int l = 0; l < kLanes; ++l) {
      const coordinate at = Atom::b(cx.lane(l), 0);
      const int r = row + at.row, byte = k * 2 + at.col * Bytes;
      from[l] = tile.data + Tile::offset(r, byte / 16) + mfma_half(r, byte % 16);
    }
    Reader::read8(b[0], from);
  }
};

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME
