#pragma once
// Fragments of mma_m16n8k16, and of mma_m16n8k32, which are the same bytes, read with ldmatrix: which lane names which row. `Instruction::read4` is the
// backend's.

#include "monotile/lang/fragment.hpp"

namespace monotile::lang::inline MONOTILE_TARGET_NAME {

template <class Instruction, class Atom = mma_m16n8k16>
struct ldmatrix_loads {
  using atom = Atom;
  static constexpr int a_words = 4, b_words = 2, b_at_once = 2;

  template <class Ctx, class Tile>
  static MT_FN void load_a(Ctx& cx, uint32_t (&a)[4][kLanes], const Tile& tile, int row, int k) {
    const unsigned char* rows[kLanes];
    for (int l = 0; l < kLanes; ++l) {
      const int lane = cx.lane(l);
      rows[l] = tile.data + Tile::offset(row + lane % 16, k / 8 + lane / 16);
    }
    Instruction::read4(a, rows);
  }
  /// Two neighbours along n.
  template <class Ctx, class Tile>
  static MT_FN void load_b(Ctx& cx, uint32_t (&b)[2][2][kLanes], const Tile& tile, int row, int k) {
    const unsigned char* rows[kLanes];
    for (int l = 0; l < kLanes; ++l) {
      const int lane = cx.lane(l);
      rows[l] = tile.data + Tile::offset(row + lane % 8 + lane / 16 * 8, k / 8 + lane / 8 % 2);
    }
    uint32_t words[4][kLanes];
    Instruction::read4(words, rows);
    for (int l = 0; l < kLanes; ++l) {
      MT_UNROLL
      for (int i = 0; i < 4; ++i) b[i / 2][i % 2][l] = words[i][l];
    }
  }
};

/// Words of tf32: a row of an 8 x 8 matrix of 16 bits is four of them, and lands where mma_m16n8k8 wants it.
template <class Instruction>
struct ldmatrix_tf32_loads {
  using atom = mma_m16n8k8;
  using loads = ldmatrix_loads<Instruction>;
  static constexpr int a_words = loads::a_words, b_words = loads::b_words, b_at_once = loads::b_at_once;

  template <class Ctx, class Tile>
  static MT_FN void load_a(Ctx& cx, uint32_t (&a)[4][kLanes], const Tile& tile, int row, int k) {
    loads::load_a(cx, a, tile, row, k);
    MT_UNROLL
    for (int i = 0; i < 4; ++i) {
      for (int l = 0; l < kLanes; ++l) a[i][l] = Instruction::round_to_tf32(a[i][l]);
    }
  }
  template <class Ctx, class Tile>
  static MT_FN void load_b(Ctx& cx, uint32_t (&b)[2][2][kLanes], const Tile& tile, int row, int k) {
    loads::load_b(cx, b, tile, row, k);
    MT_UNROLL
    for (int i = 0; i < 4; ++i) {
      for (int l = 0; l < kLanes; ++l) b[i / 2][i % 2][l] = Instruction::round_to_tf32(b[i / 2][i % 2][l]);
    }
  }
};

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME
