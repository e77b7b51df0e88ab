#pragma once
// The emulated sm_90a: what cuda/mma.hpp is to the chip. Lanes are fibres; what they do together, and what happens while they do something else, is
// the machine's (emulated/machine.hpp).

#include <cstring>

#include "monotile/lang/backend/emulated/machine.hpp"
#include "monotile/lang/backend/emulated/primitives.hpp"
#include "monotile/lang/backend/simt/codes.hpp"
#include "monotile/lang/backend/simt/lane_unit.hpp"
#include "monotile/lang/backend/simt/ldmatrix.hpp"

#define MT_DEVICE inline
#define MT_KEPT inline
#define MT_UNROLL_BY(n)
#define MT_HIDE(a, b) static_cast<void>(0)

namespace monotile::lang::inline MONOTILE_TARGET_NAME {

// CUDA's types of two and four registers.
struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

inline uint32_t shared_address(const void* p) { return emulated::shared_address(p); }

// --- the program, and what its waves do together
inline int thread_number() { return emulated::this_lane().thread; }
inline int program_number() { return static_cast<int>(emulated::this_lane().program); }
inline int program_count() { return static_cast<int>(emulated::this_lane().programs); }
inline void wave_sync() { emulated::wave_together("wait for each other", nullptr, nullptr); }
template <class T>
inline T from_lane(T v, int lane) {
  T out;
  emulated::shuffle(out, v, [lane](int) { return lane; });
  return out;
}
inline int same_for_all(int v) { return from_lane(v, 0); }
inline int from_below(int v, int distance) {
  int out;
  emulated::shuffle(out, v, [distance](int lane) { return lane >= distance ? lane - distance : lane; });
  return out;
}
inline uint32_t wave_ballot(bool here) {
  struct Vote {
    bool here;
    uint32_t all;
  } mine{here, 0};
  emulated::wave_together("vote", &mine, [](void* const(&all)[32]) {
    uint32_t votes = 0;
    for (int l = 0; l < 32; ++l) votes |= static_cast<uint32_t>(static_cast<Vote*>(all[l])->here) << l;
    for (void* const lane : all) static_cast<Vote*>(lane)->all = votes;
  });
  return mine.all;
}
inline bool wave_any(bool here) { return wave_ballot(here) != 0; }
inline int wave_sum(int v) {
  struct Addend {
    int v, sum;
  } mine{v, 0};
  emulated::wave_together("add up", &mine, [](void* const(&all)[32]) {
    int sum = 0;
    for (void* const lane : all) sum += static_cast<Addend*>(lane)->v;
    for (void* const lane : all) static_cast<Addend*>(lane)->sum = sum;
  });
  return mine.sum;
}
inline int bits_set(uint32_t v) { return __builtin_popcount(v); }
/// What waves tell each other in plain words is not watched: the unit of the watch is 16 bytes.
inline int load_word(const int& word) { return word; }
inline void clear_shared16(unsigned char* p) {
  emulated::note_shared_write(shared_address(p), 16);
  std::memset(p, 0, 16);
}
template <bool Across>
inline void read_matrices(uint32_t (&r)[4][1], uint32_t address) {
  uint32_t words[4];
  emulated::ldmatrix4(words, address, Across);
  for (int i = 0; i < 4; ++i) r[i][0] = words[i];
}

struct ldmatrix {
  static void read4(uint32_t (&r)[4][1], const unsigned char* const (&row)[1]) {
    read_matrices<false>(r, shared_address(row[0]));
  }
};
/// cp.async.
struct copy_queue {
  static constexpr int most = 0;
  void add(void* to, const void* from, int bytes, int, int, int) { emulated::copy_chunk(to, from, bytes); }
  void put(void* to, const vector16& v, int, int) {
    emulated::note_shared_write(shared_address(to), 16);
    std::memcpy(to, &v, 16);
  }
  void close_group() { emulated::close_chunks(); }
  template <int Open>
  void wait() {
    emulated::wait_chunks(Open);
  }
};
struct matrix_unit : ldmatrix_loads<ldmatrix> {
  template <class T>
  static void multiply(float (&d)[4][1], const uint32_t (&a)[4][1], const uint32_t (&b)[2][1]) {
    float* const sums[4] = {d[0], d[1], d[2], d[3]};
    emulated::multiply_m16n8k16(dtype_of<T>, sums, {a[0][0], a[1][0], a[2][0], a[3][0]}, {b[0][0], b[1][0]});
  }
};

/// The ring's units for int8 and fp32, which are emulated on 32 lanes; nothing here takes them.
using int8_unit = matrix_unit;
struct chunk_reader {
  static void read16(uint32_t (&w)[4][1], const unsigned char* const (&from)[1], const int (&)[1]) {
    for (int i = 0; i < 4; ++i) std::memcpy(&w[i][0], from[0] + 4 * i, 4);
  }
};
using float_unit = lane_unit<chunk_reader>;
using tf32_unit = float_unit;

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME
