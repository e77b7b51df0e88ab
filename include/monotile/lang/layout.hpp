#pragma once
// Where the elements of a tile live: a closed set of layouts, each a constexpr function (lane, element) -> coordinate whose coverage is
// proved by enumeration at compile time. `blocked` serves memory-bound work; fragments of matrix instructions join it as another family.

#include <cstddef>
#include <cstdint>

#include "monotile/lang/backend/target.hpp"

namespace monotile::lang {

struct coordinate {
  int row;
  int col;
};

/// Each row is spread over `LanesPerRow` neighbouring lanes (0: over all lanes of the program) in vectors of `VectorElements`
/// consecutive elements; each lane holds `Vectors` of them, a whole row-width apart. Lane groups hold consecutive rows.
template <int VectorElements, int Vectors, int LanesPerRow, bool Streaming = false, bool Exact = false>
struct blocked {
  static constexpr int vector_elements = VectorElements;
  static constexpr int vectors = Vectors;
  static constexpr int lanes_per_row = LanesPerRow;
  static constexpr int elements = VectorElements * Vectors;
  /// Rows longer than the tile are walked in chunks and read again instead of being kept in registers.
  static constexpr bool streaming = Streaming;
  /// The host has checked that rows are whole aligned vectors (and, where a row has all lanes, one stride apart): no tails in the code, which
  /// halves a lane's registers.
  static constexpr bool exact = Exact;

  static MT_FN constexpr int row_lanes(int lanes) { return LanesPerRow != 0 ? LanesPerRow : lanes; }
  static MT_FN constexpr int rows(int lanes) { return lanes / row_lanes(lanes); }
  static MT_FN constexpr int cols(int lanes) { return row_lanes(lanes) * elements; }
  static MT_FN constexpr coordinate coord(int lane, int element, int lanes) {
    const int width = row_lanes(lanes);
    const int row = LanesPerRow == 0 ? 0 : lane / width, in_row = LanesPerRow == 0 ? lane : lane % width;  // no division by a run-time width
    return {row, ((element / VectorElements) * width + in_row) * VectorElements + element % VectorElements};
  }
};

/// Scratch for the shortlist of a row's elements in a program of `lanes` lanes: eight elements to a lane, 8 bytes each.
constexpr size_t shortlist_bytes(int lanes) { return static_cast<size_t>(lanes) * 8 * 8; }

/// The slice of L that a row reduction leaves: one value per row, the same in each of the row's lanes.
template <class L>
struct row_of {
  using parent = L;
  static constexpr int elements = 1;
  static MT_FN constexpr coordinate coord(int lane, int, int lanes) { return {lane / L::row_lanes(lanes), 0}; }
};

/// One value, the same in every lane.
struct replicated {
  static constexpr int elements = 1;
  static MT_FN constexpr coordinate coord(int, int, int) { return {0, 0}; }
};

/// True if every cell of rows x cols is held exactly once (checked by enumeration, for static_assert).
template <class L>
constexpr bool covers_exactly_once(int lanes) {
  const int rows = L::rows(lanes), cols = L::cols(lanes);
  if (rows * cols != lanes * L::elements) return false;
  constexpr int kMost = 1 << 14;
  if (rows * cols > kMost) return false;
  bool seen[kMost] = {};
  for (int lane = 0; lane < lanes; ++lane) {
    for (int element = 0; element < L::elements; ++element) {
      const coordinate c = L::coord(lane, element, lanes);
      if (c.row < 0 || c.row >= rows || c.col < 0 || c.col >= cols) return false;
      bool& cell = seen[c.row * cols + c.col];
      if (cell) return false;
      cell = true;
    }
  }
  return true;
}

/// Neighbouring lanes touch neighbouring 16-byte vectors: what coalescing needs.
template <class L>
constexpr bool vectors_are_consecutive(int lanes) {
  for (int lane = 0; lane < lanes; ++lane) {
    for (int element = 0; element < L::elements; ++element) {
      const coordinate c = L::coord(lane, element, lanes);
      const bool starts_vector = element % L::vector_elements == 0;
      if (!starts_vector && c.col != L::coord(lane, element - 1, lanes).col + 1) return false;
      if (starts_vector && c.col % L::vector_elements != 0) return false;
      if (starts_vector && lane % L::row_lanes(lanes) != 0 && c.col != L::coord(lane - 1, element, lanes).col + L::vector_elements) return false;
    }
  }
  return true;
}

}  // namespace monotile::lang
