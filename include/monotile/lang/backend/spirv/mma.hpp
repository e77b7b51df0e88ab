#pragma once
// The matrix instruction of SPIR-V devices: scalar arithmetic between the registers of a wave, and copies that are done when they are asked for.

#include "monotile/lang/backend/spirv/primitives.hpp"

#include "monotile/lang/backend/simt/codes.hpp"
#include "monotile/lang/backend/simt/lane_unit.hpp"
#include "monotile/lang/fragment.hpp"

namespace monotile::lang::inline MONOTILE_TARGET_NAME {

struct copy_queue {
  static constexpr int most = 0;  ///< held in registers
  MT_FN void add(unsigned char* to, const void* from, int bytes, int, int, int) {
    vector16 v{};
    if (bytes == 16) {
      v = load16(from);
    } else {
      const auto* const source = static_cast<const unsigned char*>(from);
      for (int i = 0; i < bytes; ++i) v.word[i / 4] |= static_cast<uint32_t>(source[i]) << (8 * (i % 4));
    }
    store16(to, v);
  }
  MT_FN void put(unsigned char* to, const vector16& v, int, int) { store16(to, v); }
};

/// A lane holds a row of a and of c; the rows of b are shared out and read from the registers of all lanes.
struct scalar_m32n8k8 : instruction<32, 32, 8, 8> {
  static constexpr int c_vector = 8;
  static MT_FN constexpr coordinate a(int lane, int e) { return {lane, e}; }
  static MT_FN constexpr coordinate b(int lane, int e) { return {lane / 4, lane % 4 * 2 + e}; }
  static MT_FN constexpr coordinate c(int lane, int e) { return {lane, e}; }
};
static_assert(covers_exactly_once<fragment_a<scalar_m32n8k8>>(32) &&
              covers_exactly_once<fragment_b<scalar_m32n8k8>>(32) &&
              covers_exactly_once<fragment_c<scalar_m32n8k8>>(32));

struct matrix_unit {
  using atom = scalar_m32n8k8;
  static constexpr int a_words = 4, b_words = 1, b_at_once = 1;

  template <class Ctx, class Tile>
  static MT_FN void load_a(Ctx&, uint32_t (&a)[4][kLanes], const Tile& tile, int row, int k) {
    for (int l = 0; l < kLanes; ++l) {
      const vector16 v = load16(tile.data + Tile::offset(row + l, k / 8));
      for (int w = 0; w < 4; ++w) a[w][l] = v.word[w];
    }
  }
  template <class Ctx, class Tile>
  static MT_FN void load_b(Ctx&, uint32_t (&b)[1][1][kLanes], const Tile& tile, int row, int k) {
    for (int l = 0; l < kLanes; ++l) {
      b[0][0][l] = *reinterpret_cast<const uint32_t*>(tile.data + Tile::offset(row + l / 4, k / 8) + l % 4 * 4);
    }
  }
  template <class T>
  static MT_FN void multiply(float (&d)[8][kLanes], const uint32_t (&a)[4][kLanes], const uint32_t (&b)[1][kLanes]) {
    float y[8][8];
    for (int l = 0; l < kLanes; ++l) {
      for (int e = 0; e < 2; ++e) y[l / 4][l % 4 * 2 + e] = promote(T{static_cast<uint16_t>(b[0][l] >> (16 * e))});
    }
    for (int l = 0; l < kLanes; ++l) {
      for (int k = 0; k < 8; ++k) {
        const float x = promote(T{static_cast<uint16_t>(a[k / 2][l] >> (16 * (k % 2)))});
        for (int n = 0; n < 8; ++n) d[n][l] = fma_of(x, y[n][k], d[n][l]);
      }
    }
  }
};

/// Of int8: sixteen to a lane's row of a, four of b.
struct scalar_m32n8k16 : instruction<32, 32, 8, 16> {
  static constexpr int c_vector = 8;
  static MT_FN constexpr coordinate a(int lane, int e) { return {lane, e}; }
  static MT_FN constexpr coordinate b(int lane, int e) { return {lane / 4, lane % 4 * 4 + e}; }
  static MT_FN constexpr coordinate c(int lane, int e) { return {lane, e}; }
};
static_assert(covers_exactly_once<fragment_a<scalar_m32n8k16>>(32) &&
              covers_exactly_once<fragment_b<scalar_m32n8k16>>(32) &&
              covers_exactly_once<fragment_c<scalar_m32n8k16>>(32));

/// The same bytes of a row, counted in 16 bits as matrix_unit does.
struct int8_unit : matrix_unit {
  using atom = scalar_m32n8k16;

  template <class T>
  static MT_FN void multiply(int32_t (&d)[8][kLanes], const uint32_t (&a)[4][kLanes], const uint32_t (&b)[1][kLanes]) {
    // Word by word: with the rows of b unpacked into an array first, PoCL's compiler took every second row for the next one.
    for (int n = 0; n < 8; ++n) {
      for (int k = 0; k < 16; ++k) {
        const int32_t y = static_cast<int8_t>(b[0][n * 4 + k / 4] >> (8 * (k % 4)));
        for (int l = 0; l < kLanes; ++l) d[n][l] += static_cast<int8_t>(a[k / 4][l] >> (8 * (k % 4))) * y;
      }
    }
  }
};

struct chunk_reader {
  static MT_FN void read16(uint32_t (&words)[4][kLanes], const unsigned char* const (&from)[kLanes], const int (&)[kLanes]) {
    for (int l = 0; l < kLanes; ++l) {
      const vector16 v = load16(from[l]);
      for (int w = 0; w < 4; ++w) words[w][l] = v.word[w];
    }
  }
};
using float_unit = lane_unit<chunk_reader>;
using tf32_unit = float_unit;  ///< none: fp32

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME
