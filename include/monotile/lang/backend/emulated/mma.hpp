#pragma once
// Matrix instructions of the emulated GPUs: operands are gathered from the registers of all lanes through the
// fragment layouts, so that a lane which read the wrong element gives a wrong product. 32 lanes: mma.sync with
// ldmatrix; 64 lanes: MFMA. Copies are done when they are waited for, not before, and accesses to shared memory are
// checked for conflicts.

#include <vector>

#include "monotile/lang/backend/emulated/primitives.hpp"
#include "monotile/lang/backend/emulated/shared_memory.hpp"
#include "monotile/lang/backend/simt/ldmatrix.hpp"

namespace monotile::lang::inline MONOTILE_TARGET_NAME {

/// Lanes of MFMA read eight bytes each. With the swizzle of 16-byte chunks alone, rows eight apart would read the
/// same half of the same banks, so every second group of eight rows (address bit 10) has the halves of its chunks
/// exchanged.
inline constexpr bool kSwapHalves = kWave == 64;
template <class T>
inline T* swapped(T* p) {
  return kSwapHalves
             ? reinterpret_cast<T*>(reinterpret_cast<uintptr_t>(p) ^ (reinterpret_cast<uintptr_t>(p) >> 10 & 1) << 3)
             : p;
}
/// 16 bytes to shared memory.
inline void write_chunk(unsigned char* to, const unsigned char* bytes) {
  std::memcpy(swapped(to), bytes, 8);
  std::memcpy(swapped(to + 8), bytes + 8, 8);
}

struct copy_queue {
  struct copy {
    unsigned char* to;
    const void* from;
    int bytes;
  };
  std::vector<std::vector<copy>> closed;
  std::vector<copy> open;
  const unsigned char* rows[kLanes] = {};

  void add(unsigned char* to, const void* from, int bytes, int lane) {
    if (reinterpret_cast<uintptr_t>(to) % 16 != 0) misaligned_access(to);
    if (bytes != 0 && reinterpret_cast<uintptr_t>(from) % 16 != 0) misaligned_access(from);
    open.push_back({to, from, bytes});
    rows[lane] = to;
    if (lane == kLanes - 1) emulated::count_shared_access(rows, kLanes, 16);
  }
  void put(unsigned char* to, const vector16& v) { write_chunk(to, reinterpret_cast<const unsigned char*>(&v)); }
  void close_group() {
    closed.push_back(std::move(open));
    open.clear();
  }
  template <int Open>
  void wait() {
    while (closed.size() > static_cast<size_t>(Open)) {
      for (const copy& c : closed.front()) {
        unsigned char chunk[16] = {};
        std::memcpy(chunk, c.from, static_cast<size_t>(c.bytes));
        write_chunk(c.to, chunk);
      }
      closed.erase(closed.begin());
    }
  }
};

/// d += a b^T by the coordinates of the fragments.
template <class Atom, class T, int WordsA, int WordsB>
inline void multiply_by_coordinates(float (&d)[Atom::c_elements][kLanes], const uint32_t (&a)[WordsA][kLanes],
                                    const uint32_t (&b)[WordsB][kLanes]) {
  static_assert(Atom::lanes == kLanes && WordsA * 2 == Atom::a_elements && WordsB * 2 == Atom::b_elements);
  const auto element = [](uint32_t word, int e) { return promote(T{static_cast<uint16_t>(word >> (16 * (e % 2)))}); };
  float x[Atom::m][Atom::k], y[Atom::n][Atom::k];
  for (int l = 0; l < kLanes; ++l) {
    for (int e = 0; e < Atom::a_elements; ++e) {
      const coordinate at = Atom::a(l, e);
      x[at.row][at.col] = element(a[e / 2][l], e);
    }
    for (int e = 0; e < Atom::b_elements; ++e) {
      const coordinate at = Atom::b(l, e);
      y[at.row][at.col] = element(b[e / 2][l], e);
    }
  }
  for (int l = 0; l < kLanes; ++l) {
    for (int e = 0; e < Atom::c_elements; ++e) {
      const coordinate at = Atom::c(l, e);
      float sum = d[e][l];
      for (int k = 0; k < Atom::k; ++k) sum += x[at.row][k] * y[at.col][k];
      d[e][l] = sum;
    }
  }
}

/// Lanes 8i to 8i + 7 name the rows of matrix i; lane l gets two elements of row l / 4 of each.
struct ldmatrix {
  static void read4(uint32_t (&r)[4][kLanes], const unsigned char* const (&row)[kLanes]) {
    static_assert(kLanes >= 32);
    for (int i = 0; i < 4; ++i) {
      emulated::count_shared_access(row + 8 * i, 8, 16);
      for (int l = 0; l < 32; ++l) std::memcpy(&r[i][l], row[8 * i + l / 4] + l % 4 * 4, 4);
    }
  }
};

struct mma_sync_unit : ldmatrix_loads<ldmatrix> {
  template <class T>
  static void multiply(float (&d)[4][kLanes], const uint32_t (&a)[4][kLanes], const uint32_t (&b)[2][kLanes]) {
    multiply_by_coordinates<mma_m16n8k16, T>(d, a, b);
  }
};

/// Each lane reads four consecutive elements of its row.
struct mfma_unit {
  using atom = mfma_m32n32k8;
  static constexpr int a_words = 2, b_words = 2, b_at_once = 1;

  template <class Ctx, class Tile>
  static void load_a(Ctx&, uint32_t (&a)[2][kLanes], const Tile& tile, int row, int k) {
    const unsigned char* from[kLanes];
    for (int l = 0; l < kLanes; ++l) {
      const coordinate at = atom::a(l, 0);
      from[l] = swapped(tile.data + Tile::offset(row + at.row, k / 8) + at.col % 8 * 2);
      uint32_t words[2];
      std::memcpy(words, from[l], 8);
      a[0][l] = words[0], a[1][l] = words[1];
    }
    emulated::count_shared_access(from, kLanes, 8);
  }
  template <class Ctx, class Tile>
  static void load_b(Ctx& cx, uint32_t (&b)[1][2][kLanes], const Tile& tile, int row, int k) {
    load_a(cx, b[0], tile, row, k);
  }
  template <class T>
  static void multiply(float (&d)[16][kLanes], const uint32_t (&a)[2][kLanes], const uint32_t (&b)[2][kLanes]) {
    multiply_by_coordinates<mfma_m32n32k8, T>(d, a, b);
  }
};

template <int Wave>
struct unit_of_wave {
  using type = mma_sync_unit;
};
template <>
struct unit_of_wave<64> {
  using type = mfma_unit;
};
using matrix_unit = unit_of_wave<kWave>::type;

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME
