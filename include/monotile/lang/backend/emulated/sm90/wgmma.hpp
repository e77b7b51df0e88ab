#pragma once
// The emulated sm_90a: what cuda/async.hpp and cuda/wgmma.hpp are to the chip.

#include <atomic>
#include <type_traits>

#include "monotile/lang/backend/emulated/sm90/mma.hpp"
#include "monotile/lang/backend/simt/operands.hpp"
#include "monotile/lang/fragment.hpp"

namespace monotile::lang::inline MONOTILE_TARGET_NAME::hopper {

using emulated::encode_map;

// --- barriers in shared memory that count arrivals and bytes
inline void barrier_init(uint32_t barrier, uint32_t arrivals) { emulated::barrier_init(barrier, arrivals); }
inline void barrier_expect(uint32_t barrier, uint32_t bytes) { emulated::barrier_expect(barrier, bytes); }
inline void barrier_arrive_expect(uint32_t barrier, uint32_t bytes) {
  emulated::barrier_expect(barrier, bytes);
  emulated::barrier_arrive(barrier);
}
inline void barrier_arrive(uint32_t barrier, uint32_t arrivals = 1) { emulated::barrier_arrive(barrier, arrivals); }
inline void barrier_arrive_after_copies(uint32_t barrier) { emulated::barrier_arrive_after_chunks(barrier); }
inline void barrier_arrive_remote(uint32_t barrier, uint32_t program) {
  emulated::barrier_arrive(barrier, 1, static_cast<int>(program));
}
inline void barrier_wait(uint32_t barrier, uint32_t parity) { emulated::barrier_wait(barrier, parity); }
inline bool barriers_ready(uint32_t one, uint32_t parity_of_one, uint32_t other, uint32_t parity_of_other) {
  return emulated::barrier_ready(one, parity_of_one) & emulated::barrier_ready(other, parity_of_other);
}
inline void fence_barrier_init() {}
inline void fence_for_copies() { emulated::fence_for_copies(); }
inline void let_next_start() {}
inline void wait_for_previous() {}
inline int arrive_at_count(int32_t* count) { return std::atomic_ref<int32_t>(*count).fetch_add(1); }
inline int load_now(const int32_t* p) { return *p; }
inline int next_ticket(int32_t* count) { return std::atomic_ref<int32_t>(*count).fetch_add(1); }
inline void named_barrier_sync(int id, int threads) { emulated::named_barrier_sync(id, threads); }
inline void named_barrier_arrive(int id, int threads) { emulated::named_barrier_arrive(id, threads); }
inline void cluster_sync() { emulated::cluster_sync(); }
inline uint32_t cluster_rank() { return static_cast<uint32_t>(emulated::cluster_rank()); }
inline uint32_t cluster_size() { return static_cast<uint32_t>(emulated::cluster_size()); }
inline float load_remote(uint32_t address, uint32_t program) {
  return emulated::load_remote(address, static_cast<int>(program));
}
template <int Registers>
inline void give_registers() {
  static_assert(Registers % 8 == 0 && Registers >= 24 && Registers <= 256, "setmaxnreg");
}
template <int Registers>
inline void take_registers() {
  give_registers<Registers>();
}
inline bool elect_one() { return emulated::lane_of_wave() == 0; }

// --- copies
/// Of memory that exists: the address sanitizer looks.
inline void prefetch_line(const void* p) { (void)*static_cast<const volatile unsigned char*>(p); }
inline void prefetch_map(const void*) {}
inline void copy_box(uint32_t to, const void* map, uint32_t barrier, int x, int y, int z, int w = 0) {
  emulated::copy_box(to, map, barrier, {x, y, z, w});
}
inline void copy_box_multicast(uint32_t to, const void* map, uint32_t barrier, int x, int y, int z, uint16_t mask) {
  emulated::copy_box(to, map, barrier, {x, y, z, 0}, mask);
}
inline void store_box(const void* map, uint32_t from, int x, int y, int z, int w = 0) {
  emulated::store_box(map, from, {x, y, z, w});
}
inline void close_stores() { emulated::close_stores(); }
template <int Open>
inline void wait_stores_read() {
  emulated::wait_stores_read(Open);
}
inline void stmatrix4(uint32_t row, uint32_t r0, uint32_t r1, uint32_t r2, uint32_t r3) {
  emulated::stmatrix4(row, {r0, r1, r2, r3});
}
template <class T>
inline void note_unbounded(uint32_t& seen, uint32_t pair) {
  constexpr uint32_t kExponent = dtype_of<T> == DType::f16 ? 0x7c00 : 0x7f80;
  for (const uint32_t bits : {pair & 0xffff, pair >> 16}) seen |= (bits & kExponent) == kExponent ? 0x7fff7fff : 0;
}
inline uint32_t pick_bytes(uint32_t a, uint32_t b, uint32_t digits) {
  const uint64_t bytes = static_cast<uint64_t>(b) << 32 | a;
  uint32_t out = 0;
  for (int i = 0; i < 4; ++i) out |= static_cast<uint32_t>(bytes >> 8 * (digits >> 4 * i & 7) & 255) << 8 * i;
  return out;
}
template <class T>
inline uint32_t pack_codes(float a, float b, float c, float d) {
  uint32_t out = 0;
  int at = 0;
  for (const float v : {a, b, c, d}) out |= static_cast<uint32_t>(from_float<T>(v).bits) << 8 * at++;
  return out;
}
template <class T>
inline uint32_t pack(float low, float high) {
  return static_cast<uint32_t>(from_float<T>(high).bits) << 16 | from_float<T>(low).bits;
}

// --- products of a warpgroup
inline void products_begin() { emulated::products_begin(); }
inline void products_close() { emulated::products_close(); }
template <int Open>
inline void products_wait() {
  emulated::products_wait(Open);
}
template <class S>
inline void pin(S&) {}
inline uint64_t operand_from(uint32_t word, int bytes) {
  return static_cast<uint64_t>(1u << 30 | 1024 >> 4) << 32 | (word + static_cast<uint32_t>(bytes / 16));
}
template <class T, int N>
struct warpgroup_product : wgmma_m64<N, 32 / static_cast<int>(sizeof(T))> {
  static_assert(N % 8 == 0 && N <= 256);
  static void issue(std::conditional_t<std::is_same_v<T, int8_t>, int32_t, float> (&d)[N / 2], uint64_t a, uint64_t b, int keep) {
    emulated::issue_product(dtype_of<T>, N, d, a, b, keep != 0);
  }
};
template <class T, int N>
struct warpgroup_product_of_registers {
  static void issue(float (&d)[N / 2], const uint32_t (&a)[4][1], uint64_t b) {
    emulated::issue_product_of_registers(dtype_of<T>, N, d, a[0], b);
  }
};
template <class T, int N>
struct warpgroup_product_of_codes {
  static void issue(float (&d)[N / 2], const uint32_t (&a)[4][1], uint64_t b, int keep) {
    emulated::issue_product_of_registers(dtype_of<T>, N, d, a[0], b, keep != 0);
  }
};

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME::hopper
