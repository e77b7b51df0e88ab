#pragma once
// Matrix instructions of the emulated GPUs: operands are gathered from the registers of all lanes through the
// fragment layouts, so that a lane which read the wrong element gives a wrong product. 32 lanes: mma.sync with
// ldmatrix; 64 lanes: MFMA. Copies are done when they are waited for, not before, and accesses to shared memory are
// checked for conflicts and, where a program is examined, watched.

#include <vector>

#include "monotile/lang/backend/emulated/primitives.hpp"
#include "monotile/lang/backend/emulated/shared_memory.hpp"
#include "monotile/lang/backend/simt/codes.hpp"
#include "monotile/lang/backend/simt/lane_unit.hpp"
#include "monotile/lang/backend/simt/ldmatrix.hpp"
#include "monotile/lang/backend/simt/mfma.hpp"
#include "monotile/lang/converted.hpp"

namespace monotile::lang::inline MONOTILE_TARGET_NAME {

/// cp.async: copies under way in groups, done when they are waited for and not before.
struct ring_queue {
  static constexpr int most = 0;  ///< held in registers
  struct copy {
    unsigned char* to;
    const void* from;
    int bytes;
  };
  std::vector<std::vector<copy>> closed;
  std::vector<copy> open;
  const unsigned char* rows[kLanes] = {};

  void add(unsigned char* to, const void* from, int bytes, int lane, int, int) {
    if (reinterpret_cast<uintptr_t>(to) % 16 != 0) misaligned_access(to);
    if (bytes != 0 && reinterpret_cast<uintptr_t>(from) % 16 != 0) misaligned_access(from);
    emulated::note_lane(lane, kWave);
    if (bytes != 0) emulated::note_global_load(from, static_cast<size_t>(bytes));
    open.push_back({to, from, bytes});
    rows[lane] = to;
    if (lane == kLanes - 1) emulated::count_shared_access(rows, kLanes, 16);
  }
  void put(unsigned char* to, const vector16& v, int, int) {
    emulated::note_write(to, 16);
    std::memcpy(to, &v, 16);
  }
  void close_group() {
    closed.push_back(std::move(open));
    open.clear();
  }
  template <int Open>
  void wait() {
    const size_t left = emulated::planted(emulated::Fault::pipeline_phase) ? Open + 1 : Open;
    while (closed.size() > left) {
      for (const copy& c : closed.front()) {
        unsigned char chunk[16] = {};
        std::memcpy(chunk, c.from, static_cast<size_t>(c.bytes));
        emulated::note_write(c.to, 16);
        std::memcpy(c.to, chunk, 16);
      }
      closed.erase(closed.begin());
    }
  }
};

/// Copies through registers, as on CDNA: written to shared memory when they settle, the halves of chunks exchanged in every second group of rows.
struct register_queue {
  static constexpr int most = 8;
  struct chunk {
    unsigned char* to = nullptr;
    unsigned char bytes[16];
    bool exchanged = false;
  };
  chunk held[most][kLanes], late[most][kLanes];

  void add(unsigned char* to, const void* from, int bytes, int lane, int row, int slot) {
    if (bytes != 0 && reinterpret_cast<uintptr_t>(from) % 16 != 0) misaligned_access(from);
    emulated::note_lane(lane, kWave);
    if (bytes != 0) emulated::note_global_load(from, static_cast<size_t>(bytes));
    vector16 v{};
    std::memcpy(&v, from, static_cast<size_t>(bytes));
    keep(to, v, lane, row, slot);
  }
  void put(unsigned char* to, const vector16& v, int row, int slot) { keep(to, v, next_++ % kLanes, row, slot); }
  void keep(unsigned char* to, const vector16& v, int lane, int row, int slot) {
    if (reinterpret_cast<uintptr_t>(to) % 16 != 0) misaligned_access(to);
    chunk& c = held[slot][lane];
    c.to = to;
    c.exchanged = mfma_halves_exchanged(row);
    std::memcpy(c.bytes, &v, 16);
  }
  template <int OfA, int OfB>
  void settle() {
    for (int slot = 0; slot < most; ++slot) {
      if (slot % (most / 2) >= (slot < most / 2 ? OfA : OfB)) continue;
      const unsigned char* places[kLanes];
      for (int l = 0; l < kLanes; ++l) {
        const chunk c = emulated::planted(emulated::Fault::pipeline_phase) ? late[slot][l] : held[slot][l];
        places[l] = held[slot][l].to;
        late[slot][l] = held[slot][l];
        if (c.to == nullptr) continue;
        emulated::note_write(c.to, 16);
        std::memcpy(c.to + (c.exchanged ? 8 : 0), c.bytes, 8);
        std::memcpy(c.to + (c.exchanged ? 0 : 8), c.bytes + 8, 8);
      }
      emulated::count_shared_access(places, kLanes, 16, emulated::Phases::consecutive);
    }
  }

 private:
  int next_ = 0;  // `put` is called lane by lane
};

/// The lanes of a wave run side by side.
inline void wave_sync() {}
/// Which wave of its program this is.
inline int wave_number(const Context& ctx) { return ctx.thread(0) / kWave; }
/// Bytes of a and b, numbered 0 to 7, by the hexadecimal digits of the selector.
inline uint32_t select_bytes(uint32_t a, uint32_t b, uint32_t selector) {
  const uint64_t both = static_cast<uint64_t>(b) << 32 | a;
  uint32_t r = 0;
  for (int i = 0; i < 4; ++i) r |= static_cast<uint32_t>(both >> (8 * (selector >> (4 * i) & 7u)) & 255u) << (8 * i);
  return r;
}
/// (v & mask) | bits
inline uint32_t mask_and_set(uint32_t v, uint32_t mask, uint32_t bits) { return (v & mask) | bits; }
/// a - b, two values of T each.
template <class T>
inline uint32_t subtract_pairs(uint32_t a, uint32_t b) {
  uint32_t r = 0;
  for (int i = 0; i < 2; ++i) {
    const auto value = [&](uint32_t pair) { return promote(T{static_cast<uint16_t>(pair >> (16 * i))}); };
    r |= static_cast<uint32_t>(from_float<T>(value(a) - value(b)).bits) << (16 * i);
  }
  return r;
}

/// Element `e` of a fragment: four to a word, two, or one. Of tf32 the instruction does not look at the last 13 bits.
template <class T>
inline auto element_of_word(uint32_t word, int e) {
  if constexpr (sizeof(T) == 1) {
    return int32_t{static_cast<int8_t>(word >> (8 * (e % 4)))};
  } else if constexpr (sizeof(T) == 2) {
    return promote(T{static_cast<uint16_t>(word >> (16 * (e % 2)))});
  } else {
    return __builtin_bit_cast(float, word & ~uint32_t{0x1fff});
  }
}
/// d += a b^T by the coordinates of the fragments.
template <class Atom, class T, class S, int WordsA, int WordsB>
inline void multiply_by_coordinates(S (&d)[Atom::c_elements][kLanes], const uint32_t (&a)[WordsA][kLanes],
                                    const uint32_t (&b)[WordsB][kLanes]) {
  constexpr int kPer = 4 / static_cast<int>(sizeof(T));  // elements of a word
  static_assert(Atom::lanes == kLanes && WordsA * kPer == Atom::a_elements && WordsB * kPer == Atom::b_elements);
  S x[Atom::m][Atom::k], y[Atom::n][Atom::k];
  const int wrong = emulated::planted(emulated::Fault::fragment_map) ? 1 : 0;
  for (int l = 0; l < kLanes; ++l) {
    for (int e = 0; e < Atom::a_elements; ++e) {
      const coordinate at = Atom::a(l ^ wrong, e);
      x[at.row][at.col] = element_of_word<T>(a[e / kPer][l], e);
    }
    for (int e = 0; e < Atom::b_elements; ++e) {
      const coordinate at = Atom::b(l, e);
      y[at.row][at.col] = element_of_word<T>(b[e / kPer][l], e);
    }
  }
  for (int l = 0; l < kLanes; ++l) {
    for (int e = 0; e < Atom::c_elements; ++e) {
      const coordinate at = Atom::c(l, e);
      S sum = d[e][l];
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
      for (int r = 0; r < 8; ++r) emulated::note_read(row[8 * i + r], 16);
      for (int l = 0; l < 32; ++l) std::memcpy(&r[i][l], row[8 * i + l / 4] + l % 4 * 4, 4);
    }
  }
  /// Half away from zero; infinity and NaN stay.
  static uint32_t round_to_tf32(uint32_t v) {
    return (v & 0x7f800000u) == 0x7f800000u ? v | (v & 0x1fffu) << 10 : (v + 0x1000u) & ~0x1fffu;
  }
};

struct mma_sync_unit : ldmatrix_loads<ldmatrix> {
  template <class T>
  static void multiply(float (&d)[4][kLanes], const uint32_t (&a)[4][kLanes], const uint32_t (&b)[2][kLanes]) {
    multiply_by_coordinates<mma_m16n8k16, T>(d, a, b);
  }
};

struct mma_sync_int8_unit : ldmatrix_loads<ldmatrix, mma_m16n8k32> {
  template <class T>
  static void multiply(int32_t (&d)[4][kLanes], const uint32_t (&a)[4][kLanes], const uint32_t (&b)[2][kLanes]) {
    multiply_by_coordinates<mma_m16n8k32, T>(d, a, b);
  }
};

struct mma_sync_tf32_unit : ldmatrix_tf32_loads<ldmatrix> {
  template <class T>
  static void multiply(float (&d)[4][kLanes], const uint32_t (&a)[4][kLanes], const uint32_t (&b)[2][kLanes]) {
    multiply_by_coordinates<mma_m16n8k8, T>(d, a, b);
  }
};

/// ds_read_b64: eight bytes a lane.
struct lds_reader {
  static void read8(uint32_t (&words)[2][kLanes], const unsigned char* const (&from)[kLanes]) {
    for (int l = 0; l < kLanes; ++l) {
      if (reinterpret_cast<uintptr_t>(from[l]) % 8 != 0) misaligned_access(from[l]);
      emulated::note_read(from[l], 8);
      uint32_t both[2];
      std::memcpy(both, from[l], 8);
      words[0][l] = both[0], words[1][l] = both[1];
    }
    emulated::count_shared_access(from, kLanes, 8, emulated::Phases::consecutive);
  }
};
/// A chunk of 16 bytes of a row: at once where copies leave chunks as they are, else by halves.
struct chunk_reader {
  static void read16(uint32_t (&words)[4][kLanes], const unsigned char* const (&from)[kLanes], const int (&rows)[kLanes]) {
    if (kWave == 64) {
      for (int half = 0; half < 2; ++half) {
        const unsigned char* at[kLanes];
        uint32_t two[2][kLanes];
        for (int l = 0; l < kLanes; ++l) at[l] = from[l] + mfma_half(rows[l], 8 * half);
        lds_reader::read8(two, at);
        for (int l = 0; l < kLanes; ++l) words[2 * half][l] = two[0][l], words[2 * half + 1][l] = two[1][l];
      }
      return;
    }
    for (int l = 0; l < kLanes; ++l) {
      emulated::note_read(from[l], 16);
      const vector16 v = load16(from[l]);
      for (int w = 0; w < 4; ++w) words[w][l] = v.word[w];
    }
    emulated::count_shared_access(from, kLanes, 16);
  }
};
template <class Atom>
struct mfma_unit : mfma_loads<lds_reader, Atom> {
  template <class T>
  static void multiply(float (&d)[Atom::c_elements][kLanes], const uint32_t (&a)[2][kLanes],
                       const uint32_t (&b)[2][kLanes]) {
    multiply_by_coordinates<Atom, T>(d, a, b);
  }
};

/// int8 as gfx942 has it. gfx90a takes the same eight bytes of a lane in two steps of four, alike for both operands.
struct mfma_int8_unit : mfma_loads<lds_reader, mfma_m32n32k16, 1> {
  template <class T>
  static void multiply(int32_t (&d)[16][kLanes], const uint32_t (&a)[2][kLanes], const uint32_t (&b)[2][kLanes]) {
    multiply_by_coordinates<mfma_m32n32k16, T>(d, a, b);
  }
};

template <int Wave>
struct unit_of_wave {
  using type = mma_sync_unit;
  using int8 = mma_sync_int8_unit;
  using queue = ring_queue;
};
template <>
struct unit_of_wave<64> {
  using type = mfma_unit<mfma_m32n32k8>;
  using int8 = mfma_int8_unit;
  using queue = register_queue;
};
using matrix_unit = unit_of_wave<kWave>::type;
using int8_unit = unit_of_wave<kWave>::int8;
using float_unit = lane_unit<chunk_reader>;
/// For fp32 rounded to tf32.
using tf32_unit = mma_sync_tf32_unit;
using copy_queue = unit_of_wave<kWave>::queue;

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME
