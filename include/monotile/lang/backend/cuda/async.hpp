#pragma once
// Hopper's copy engine (TMA), its barriers and warpgroup instructions, one line of PTX each. sm_90a only.

#include "monotile/lang/backend/cuda/mma.hpp"
#include "monotile/lang/backend/simt/operands.hpp"

namespace monotile::lang::inline MONOTILE_TARGET_NAME::hopper {

// --- barriers in shared memory that count arrivals and bytes
// ----------------------------------------------------------
MT_DEVICE void barrier_init(uint32_t barrier, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
MT_DEVICE void barrier_expect(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
/// Arrives, and expects `bytes` in the same phase.
MT_DEVICE void barrier_arrive_expect(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
MT_DEVICE void barrier_arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
MT_DEVICE void barrier_arrive(uint32_t barrier, uint32_t arrivals) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
/// When all that this lane has begun to copy by cp.async is there.
MT_DEVICE void barrier_arrive_after_copies(uint32_t barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}
/// Without `.release.cluster`: only the copy engine touches what this hands over, and the fence costs a third of the
/// speed (H200, 2026-11-29).
MT_DEVICE void barrier_arrive_remote(uint32_t barrier, uint32_t program) {
  asm volatile(
      "{\n.reg .b32 r;\nmapa.shared::cluster.u32 r, %0, %1;\nmbarrier.arrive.shared::cluster.b64 _, [r];\n}" ::"r"(
          barrier),
      "r"(program)
      : "memory");
}
MT_DEVICE void barrier_wait(uint32_t barrier, uint32_t parity) {
  asm volatile(
      "{\n.reg .pred p;\nL: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@!p bra L;\n}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}
MT_DEVICE bool barriers_ready(uint32_t one, uint32_t parity_of_one, uint32_t other, uint32_t parity_of_other) {
  uint32_t ready;
  asm volatile(
      "{\n.reg .pred p, q;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
      "mbarrier.try_wait.parity.shared::cta.b64 q, [%3], %4;\nand.pred p, p, q;\nselp.u32 %0, 1, 0, p;\n}"
      : "=r"(ready)
      : "r"(one), "r"(parity_of_one), "r"(other), "r"(parity_of_other)
      : "memory");
  return ready != 0;
}
MT_DEVICE void fence_barrier_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
/// What was written to shared memory becomes visible to the copy engine.
MT_DEVICE void fence_for_copies() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
/// The next kernel may take its place on the machine; it waits for this one where it says so.
MT_DEVICE void let_next_start() { asm volatile("griddepcontrol.launch_dependents;"); }
/// Until here nothing is touched that the kernel before reads or writes.
MT_DEVICE void wait_for_previous() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
/// Adds one to what programs count together, and gives what it was. What this lane stored, and what others stored before a
/// barrier that it has passed, can be read by who finds its arrival counted; and the other way round.
MT_DEVICE int arrive_at_count(int32_t* count) {
  int before;
  asm volatile("atom.acq_rel.gpu.global.add.s32 %0, [%1], 1;" : "=r"(before) : "l"(count) : "memory");
  return before;
}
/// What memory holds now, though the kernel before may still write it; nothing of it stays in the first-level cache.
MT_DEVICE int load_now(const int32_t* p) {
  int v;
  asm volatile("ld.relaxed.gpu.global.s32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
  return v;
}
/// The same as arriving, without any order.
MT_DEVICE int next_ticket(int32_t* count) { return atomicAdd(count, 1); }
MT_DEVICE void named_barrier_sync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
MT_DEVICE void named_barrier_arrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
/// Waits for all `threads`; true if some of them say so.
MT_DEVICE bool named_barrier_any(int id, int threads, bool here) {
  uint32_t any;
  asm volatile(
      "{\n.reg .pred p, q;\nsetp.ne.u32 p, %3, 0;\nbarrier.cta.red.or.pred q, %1, %2, p;\nselp.u32 %0, 1, 0, q;\n}"
      : "=r"(any)
      : "r"(id), "r"(threads), "r"(static_cast<uint32_t>(here))
      : "memory");
  return any != 0;
}
MT_DEVICE void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
}
MT_DEVICE uint32_t cluster_rank() {
  uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
MT_DEVICE uint32_t cluster_size() {
  uint32_t size;
  asm volatile("mov.u32 %0, %%cluster_nctaid.x;" : "=r"(size));
  return size;
}
/// A float from the same place in the shared memory of program `program` of the cluster.
MT_DEVICE float load_remote(uint32_t address, uint32_t program) {
  float v;
  asm volatile("{\n.reg .b32 r;\nmapa.shared::cluster.u32 r, %1, %2;\nld.shared::cluster.f32 %0, [r];\n}"
               : "=f"(v)
               : "r"(address), "r"(program)
               : "memory");
  return v;
}
template <int Registers>
MT_DEVICE void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Registers));
}
template <int Registers>
MT_DEVICE void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Registers));
}
MT_DEVICE bool elect_one() {
  uint32_t elected;
  asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xffffffff;\nselp.u32 %0, 1, 0, p;\n}" : "=r"(elected));
  return elected != 0;
}

// --- copies
// ------------------------------------------------------------------------------------------------------------
/// The line of p into the second-level cache.
MT_DEVICE void prefetch_line(const void* p) { asm volatile("prefetch.global.L2 [%0];" ::"l"(p)); }
MT_DEVICE void prefetch_map(const void* map) { asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory"); }
MT_DEVICE void copy_box(uint32_t to, const void* map, uint32_t barrier, int x, int y, int z) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], "
      "[%2];" ::"r"(to),
      "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z)
      : "memory");
}
/// Into the same place of all programs of the cluster named by the bits of `mask`, on the same barrier of each.
MT_DEVICE void copy_box_multicast(uint32_t to, const void* map, uint32_t barrier, int x, int y, int z, uint16_t mask) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%3, "
      "%4, %5}], [%2], %6;" ::"r"(to),
      "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z), "h"(mask)
      : "memory");
}
MT_DEVICE void store_box(const void* map, uint32_t from, int x, int y, int z) {
  asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(map), "r"(from),
               "r"(x), "r"(y), "r"(z)
               : "memory");
}
MT_DEVICE void copy_box(uint32_t to, const void* map, uint32_t barrier, int x, int y, int z, int w) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], "
      "[%2];" ::"r"(to),
      "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z), "r"(w)
      : "memory");
}
MT_DEVICE void store_box(const void* map, uint32_t from, int x, int y, int z, int w) {
  asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(map),
               "r"(from), "r"(x), "r"(y), "r"(z), "r"(w)
               : "memory");
}
MT_DEVICE void close_stores() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
/// Waits until at most `Open` groups of stores still read shared memory.
template <int Open>
MT_DEVICE void wait_stores_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(Open) : "memory");
}
MT_DEVICE void stmatrix4(uint32_t row, uint32_t r0, uint32_t r1, uint32_t r2, uint32_t r3) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row), "r"(r0), "r"(r1), "r"(r2),
               "r"(r3)
               : "memory");
}
/// `seen`, which starts as 0, is not 0 any more once a pair held an inf or a NaN: times 0 they are NaN, all else is 0.
template <class T>
MT_DEVICE void note_unbounded(uint32_t& seen, uint32_t pair) {
  if constexpr (__is_same(T, bfloat16_t)) {
    asm("fma.rn.bf16x2 %0, %1, %2, %0;" : "+r"(seen) : "r"(pair), "r"(0));
  } else {
    asm("fma.rn.f16x2 %0, %1, %2, %0;" : "+r"(seen) : "r"(pair), "r"(0));
  }
}
/// The bytes of a, then those of b, by the four digits of `digits`, the last one first.
MT_DEVICE uint32_t pick_bytes(uint32_t a, uint32_t b, uint32_t digits) { return __byte_perm(a, b, digits); }
/// Four values as codes, the first one lowest; too large ones become the largest.
template <class T>
MT_DEVICE uint32_t pack_codes(float a, float b, float c, float d) {
  return pack_pair<T>(a, b) | pack_pair<T>(c, d) << 16;
}
template <class T>
MT_DEVICE uint32_t pack(float low, float high) {
  uint32_t word;
  if constexpr (__is_same(T, bfloat16_t)) {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  } else {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  }
  return word;
}

// --- products of a warpgroup
// ------------------------------------------------------------------------------------------
MT_DEVICE void products_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
MT_DEVICE void products_close() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int Open>
MT_DEVICE void products_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Open) : "memory");
}
/// The compiler may not move uses of d above this point.
MT_DEVICE void pin(float& d) { asm volatile("" : "+f"(d)::"memory"); }
template <int N>
MT_DEVICE void pin(float (&d)[N]) {
  MT_UNROLL
  for (int i = 0; i < N; ++i) pin(d[i]);
}
template <int N>
MT_DEVICE void pin(int32_t (&d)[N]) {
  MT_UNROLL
  for (int i = 0; i < N; ++i) asm volatile("" : "+r"(d[i])::"memory");
}
/// All of `operand_word`'s operand, `bytes` further on: one addition of 32 bits.
MT_DEVICE uint64_t operand_from(uint32_t word, int bytes) {
  uint64_t operand;
  asm("mov.b64 %0, {%1, %2};" : "=l"(operand) : "r"(word + bytes / 16), "n"(1 << 30 | 1024 >> 4));
  return operand;
}

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME::hopper
