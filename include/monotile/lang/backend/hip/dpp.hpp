#pragma once
// Data-parallel primitives: a vector instruction reads an operand of another lane of its row of 16. The control word says which; here are the
// ones in use, and what each means as a function, so that the sequences in primitives.hpp are proved on the host (tests/lang/dpp_test.cpp).
// Source: "CDNA3 Instruction Set Architecture", data parallel processing; "RDNA3 Instruction Set Architecture", DPP16.

namespace monotile::hip::dpp {

constexpr int quad(int a, int b, int c, int d) { return a | b << 2 | c << 4 | d << 6; }
constexpr int row_shl(int n) { return 0x100 + n; }          ///< lane l reads lane l + n
constexpr int row_shr(int n) { return 0x110 + n; }          ///< lane l reads lane l - n
constexpr int row_ror(int n) { return 0x120 + n; }          ///< lane l reads lane l - n of its row, round the end
constexpr int row_xmask(int mask) { return 0x160 + mask; }  ///< RDNA: lane l reads lane l ^ mask

/// Which lane of its row lane `l` (0 to 15) reads; -1: none, it keeps what it had.
constexpr int source(int control, int l) {
  const int n = control & 15;
  if (control < 0x100) return (l & ~3) | (control >> (2 * (l & 3)) & 3);
  switch (control & ~15) {
    case 0x100: return l + n < 16 ? l + n : -1;
    case 0x110: return l - n >= 0 ? l - n : -1;
    case 0x120: return (l - n) & 15;
    default: return l ^ n;
  }
}

/// A move under a mask of banks: bit b lets lanes 4b to 4b + 3 of each row take part.
struct move {
  int control, banks;
};
/// Exchange with lane l ^ mask in one or two moves, where rows have no exclusive or.
constexpr move first_move(int mask) {
  switch (mask) {
    case 1: return {quad(1, 0, 3, 2), 15};
    case 2: return {quad(2, 3, 0, 1), 15};
    case 4: return {row_shl(4), 0b0101};
    default: return {row_ror(8), 15};
  }
}
/// The second one of mask 4: what the first left to the other banks.
constexpr move second_move() { return {row_shr(4), 0b1010}; }

/// Lane l's source after both moves.
constexpr int exchanged(int mask, int l) {
  const move one = first_move(mask), two = second_move();
  if (mask == 4 && (two.banks >> (l / 4) & 1) != 0) return source(two.control, l);
  return (one.banks >> (l / 4) & 1) != 0 ? source(one.control, l) : -1;
}

/// ds_swizzle_b32 in its bit mode: groups of 32 lanes, lane l reads ((l & and_bits) | or_bits) ^ xor_bits.
constexpr int swizzle_xor(int mask) { return mask << 10 | 0x1f; }
constexpr int swizzle_source(int pattern, int l) {
  return (l & ~31) | ((((l & 31) & (pattern & 31)) | (pattern >> 5 & 31)) ^ (pattern >> 10 & 31));
}

}  // namespace monotile::hip::dpp
