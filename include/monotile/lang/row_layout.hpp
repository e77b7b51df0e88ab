#pragma once
// Fragments of chained products (lang/chain.hpp): the layout of sums that is the layout of an operand, too.

#include "monotile/lang/fragment.hpp"

namespace monotile::lang {

/// How a wave keeps the rows of chained products: where the elements of a sum lie, which lanes share a row, and which
/// elements make up a word of the next product's operand, so that it never leaves the registers. `slots` rows per lane
/// and block; lanes whose numbers differ in the bits `first_bit` to `last_bit` share their rows.
struct mma_rows : mma_m16n8k16 {
  static constexpr bool transposed = false;
  static constexpr int rows = 16, cols = 8, elements = 4, neighbours = 2, slots = 2, first_bit = 1, last_bit = 2;
  static MT_FN constexpr coordinate at(int lane, int e) { return c(lane, e); }
  static MT_FN constexpr int slot(int e) { return e / 2; }
  static MT_FN constexpr int slot_row(int lane, int slot) { return lane / 4 + slot * 8; }
  static constexpr int step = 16, words = 4;  ///< columns of the sum in one step of the next product, words per lane
  static MT_FN constexpr int block_of(int i, int word) { return 2 * i + word / 2; }
  static MT_FN constexpr int element_of(int, int word) { return word % 2 * 2; }
  static MT_FN constexpr coordinate operand(int lane, int e) { return a(lane, e); }
};
/// The same sums as an operand of codes of 8 bits, a word of a lane four of them (wgmma.mma_async m64nNk32, operand a). The
/// columns of 16 lie in the order in which a lane has them, and so must those of the other operand.
struct mma_codes : mma_rows {
  static constexpr int step = 32, words = 4;
};
/// Both products transposed (rows of a along n): a lane then holds one row, and the layout of a sum is that of an
/// operand, which it is not the other way round.
struct mfma_rows : mfma_m32n32k8 {
  static constexpr bool transposed = true;
  static constexpr int rows = 32, cols = 32, elements = 16, neighbours = 4, slots = 1, first_bit = 32, last_bit = 32;
  static MT_FN constexpr coordinate at(int lane, int e) { return {c(lane, e).col, c(lane, e).row}; }
  static MT_FN constexpr int slot(int) { return 0; }
  static MT_FN constexpr int slot_row(int lane, int) { return lane % 32; }
  static constexpr int step = 8, words = 2;
  static MT_FN constexpr int block_of(int i, int) { return i / 4; }
  static MT_FN constexpr int element_of(int i, int word) { return i % 4 * 4 + word * 2; }
  static MT_FN constexpr coordinate operand(int lane, int e) { return b(lane, e); }
};

}  // namespace monotile::lang
