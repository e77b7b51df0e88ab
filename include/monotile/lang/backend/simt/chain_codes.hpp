#pragma once
// Operands of chained products that are stored as 8-bit floats: a block is copied as it is, and turned into elements of T
// by the very lanes that copied it. Nobody else waits for the codes, so the next block of them may be on its way while
// this one is multiplied. Scales of b multiply scores, where nothing is rounded; those of c its elements, since weights of
// fp16 times a small scale would lose their digits.

#include "monotile/lang/backend/simt/row_cells.hpp"

namespace monotile::lang::inline MONOTILE_TARGET_NAME {

/// A tile with room for the codes that it is made of.
template <class T, class Code, int R, int C, along A>
struct coded_tile : smem_tile<T, R, C, A> {
  using code = Code;
  static constexpr int rows = R, cols = C;
  alignas(16) unsigned char codes[R * C];
  float scales[R];
};
template <class Tile>
concept is_coded = requires {
  typename Tile::code;
};

template <class T, class Stored, int R, int C>
struct tile_of_codes {
  using type = coded_tile<T, Stored, R, C, along::n>;
};
template <class T, int R, int C>
struct tile_of_codes<T, T, R, C> {
  using type = smem_tile<T, R, C, along::n>;
};

/// A block of codes on its way. Few lanes to a row, which they look up once; rows of neighbouring lanes are such that eight
/// of them write 16 bytes to different banks.
template <class Tile, int Threads>
struct coded_block {
  static constexpr int vector = 16, beside = Threads / 2 > Tile::rows ? 4 : 2, at_once = Threads / beside;
  static constexpr int rounds = Tile::rows / at_once, steps = Tile::cols / (beside * vector);
  static_assert(Tile::rows % at_once == 0 && at_once % 8 == 0 && Tile::cols % (beside * vector) == 0);
  Tile& tile;
  float scale[rounds][kLanes];

  static MT_FN constexpr int row(int thread, int round) {
    const int i = thread / beside + round * at_once;
    return beside == 4 ? i : (i & ~6) | (i & 2) << 1 | (i & 4) >> 1;
  }
  static MT_FN constexpr int chunk(int thread, int step) { return thread % beside + beside * step; }
  MT_FN unsigned char* place(int thread, int round, int step) const {
    return tile.codes + ((round * steps + step) * Threads + thread) * vector;
  }
};
/// What is copied into for a tile: the tile itself, or its block of codes.
template <int Threads, class Tile>
MT_FN decltype(auto) incoming(Tile& tile) {
  if constexpr (is_coded<Tile>) {
    return coded_block<Tile, Threads>{tile, {}};
  } else {
    return (tile);
  }
}
/// Of values that were copied as they are: nothing is left to do.
template <bool Scaled, class Cx, class T, int R, int C, along A>
MT_FN void arrive(Cx&, const smem_tile<T, R, C, A>&) {}
template <class Cx, class Acc, class T, int R, int C, along A>
MT_FN void scale_columns(Cx&, Acc&, const smem_tile<T, R, C, A>&) {}
/// Sums over the rows of a tile, times the scales that it holds.
template <class Cx, class Acc, class T, class Code, int R, int C, along A>
MT_FN void scale_columns(Cx& cx, Acc& acc, const coded_tile<T, Code, R, C, A>& tile) {
  map_cells_at(
      cx, acc, [](int) { return 0; }, [&](float x, int, int col) { return x * tile.scales[col]; });
}

/// The rows of a tile, box by box, with a scale each. What does not exist becomes 0.
template <class Cx, class Tile, int Threads, class Place>
MT_FN void copy_boxes(Cx& cx, coded_block<Tile, Threads>& to, const coded_view& from, Place place) {
  using Block = coded_block<Tile, Threads>;
  using Code = typename Tile::code;
  const box_view& rows = from.rows;
  const Code* const data = static_cast<const Code*>(rows.data);
  MT_UNROLL
  for (int i = 0; i < Block::rounds; ++i) {
    const Code* start[kLanes];
    int cols[kLanes];
    for (int l = 0; l < kLanes; ++l) {
      const int r = Block::row(cx.program.thread(l), i), which = rows.box_x >= Tile::rows ? 0 : r / rows.box_x;
      const int within = r - which * rows.box_x;
      const box_at at = place(which);
      const bool exists = within < at.rows;
      start[l] = exists ? data + rows.offset(at.x + within, at.y, at.z) : data;
      cols[l] = exists ? rows.cols : 0;
      to.scale[i][l] = exists ? *from.scales.at(at.x + within, at.y, at.z) : 0.0f;
    }
    MT_NO_UNROLL
    for (int j = 0; j < Block::steps; ++j) {
      for (int l = 0; l < kLanes; ++l) {
        const int thread = cx.program.thread(l), col = Block::chunk(thread, j) * Block::vector, left = cols[l] - col;
        const int exist = left < 0 ? 0 : left < Block::vector ? left : Block::vector;
        unsigned char* const slot = to.place(thread, i, j);
        const Code* const first = exist > 0 ? start[l] + col : data;
        if (rows.vectors) {
          cx.copies.add(slot, first, exist, cx.lane(l), 0, 0);
        } else {
          packed<Code, Block::vector> v{};
          MT_UNROLL
          for (int e = 0; e < Block::vector; ++e) {
            if (e < exist) v.v[e] = first[e];
          }
          cx.copies.put(slot, __builtin_bit_cast(vector16, v), 0, 0);
        }
      }
    }
  }
}

/// This lane's codes become elements of the tile, times the scale of their row; not `Scaled`: scales beside the tile. A
/// barrier tells the others.
template <bool Scaled, class Cx, class Tile, int Threads>
MT_FN void arrive(Cx& cx, const coded_block<Tile, Threads>& from) {
  using Block = coded_block<Tile, Threads>;
  using T = typename Cx::storage;
  using Code = typename Tile::code;
  MT_UNROLL
  for (int i = 0; i < Block::rounds; ++i) {
    if constexpr (!Scaled) {
      for (int l = 0; l < kLanes; ++l) {
        const int thread = cx.program.thread(l);
        if (thread % Block::beside == 0) from.tile.scales[Block::row(thread, i)] = from.scale[i][l];
      }
    }
    MT_NO_UNROLL
    for (int j = 0; j < Block::steps; ++j) {
      for (int l = 0; l < kLanes; ++l) {
        const int thread = cx.program.thread(l), r = Block::row(thread, i), chunk = Block::chunk(thread, j);
        const float scale = Scaled ? from.scale[i][l] : 1.0f;
        const vector16 codes = load_shared16(from.place(thread, i, j));
        MT_UNROLL
        for (int half = 0; half < 2; ++half) {
          vector16 values;
          MT_UNROLL
          for (int w = 0; w < 4; ++w) {
            const uint32_t pair = halves_of_codes<Code>(codes.word[2 * half + w / 2], w % 2);
            if constexpr (!Scaled && dtype_of<T> == DType::f16) {
              values.word[w] = pair;
              continue;
            }
            const float low = promote(half_t{static_cast<uint16_t>(pair)}),
                        high = promote(half_t{static_cast<uint16_t>(pair >> 16)});
            values.word[w] = round_pair<T>(low * scale, high * scale);
          }
          cx.copies.put(from.tile.data + Tile::offset(r, 2 * chunk + half), values, 0, 0);
        }
      }
    }
  }
}

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME
