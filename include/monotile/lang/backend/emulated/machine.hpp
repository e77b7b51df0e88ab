#pragma once
// A model of what a multiprocessor with sm_90a does asynchronously (src/runtime/machine.cpp): the copy engine, barriers that count arrivals and bytes,
// and products of warpgroups, as the PTX ISA documents them. Every lane of a program is a fibre; the programs of a cluster run together. Addresses of
// shared memory are numbers as on the chip. Nothing here depends on a kernel.
//
// What is asynchronous happens as late as it may, or, while an Examination lives, at any time that its seed draws. Until then registers and memory
// that are being written hold NaN. Wrong use throws Error(internal): barriers that nobody made or that get too many arrivals, operands that are not
// what the instruction takes, waiting for ever, and, while examined, accesses to shared memory that nothing orders.

#include <cstddef>
#include <cstdint>
#include <functional>

#include "monotile/dtype.hpp"
#include "monotile/lang/backend/emulated/lanes.hpp"

namespace monotile::lang {
struct box_view;
struct matrix_view;
}  // namespace monotile::lang

namespace monotile::emulated {

/// A fibre's place.
struct LanePlace {
  int64_t program = 0, programs = 0;
  int thread = 0;
  unsigned char* scratch = nullptr;  ///< of its program
};
/// Runs body for each of `threads` lanes of each of `cluster` programs, which are numbers `first` and following of `programs`.
void run_cluster(int64_t first, int64_t programs, int cluster, int threads, size_t scratch_bytes,
                 const std::function<void(const LanePlace&)>& body);
const LanePlace& this_lane();

/// How the copy engine sees a matrix or rows: as in cuda::encode_map. Both throw Error(internal) for what the driver would refuse.
void encode_map(lang::matrix_view& v, int rows);
void encode_map(lang::box_view& v, int box_x, int box_y);

/// Shared memory of this program starts at 1024.
uint32_t shared_address(const void* p);

// --- mbarrier, "Parallel Synchronization and Communication Instructions"
void barrier_init(uint32_t barrier, uint32_t arrivals);
void barrier_expect(uint32_t barrier, uint32_t bytes);
/// At this program's barrier, or at the one in the same place of another program of the cluster.
void barrier_arrive(uint32_t barrier, uint32_t arrivals = 1, int rank = -1);
void barrier_wait(uint32_t barrier, uint32_t parity);
bool barrier_ready(uint32_t barrier, uint32_t parity);
// --- bar, barrier.cluster
void named_barrier_sync(int id, int threads);
void named_barrier_arrive(int id, int threads);
void cluster_sync();
int cluster_rank();
int cluster_size();
float load_remote(uint32_t address, int rank);

// --- cp.async.bulk.tensor, cp.async
/// Into the same place of the programs named by the bits of `ranks` (0: this one), on the same barrier of each.
void copy_box(uint32_t to, const void* map, uint32_t barrier, const int (&at)[4], uint32_t ranks = 0);
void store_box(const void* map, uint32_t from, const int (&at)[4]);
void close_stores();
void wait_stores_read(int open);
/// This lane's stores to shared memory so far may be read by the copy engine.
void fence_for_copies();
/// 16 bytes, the first `bytes` of them from memory and zeros for the rest.
void copy_chunk(void* to, const void* from, int bytes);
void close_chunks();
void wait_chunks(int open);
/// An arrival once all chunks of this lane so far are there.
void barrier_arrive_after_chunks(uint32_t barrier);

// --- wgmma, "Asynchronous Warpgroup Level Matrix Instructions"
/// d[64 x n] = a b^T + (keep ? d : 0), 32 bytes of k; d is this lane's fragment, n / 2 elements: int32 of int8, else fp32.
void issue_product(DType type, int n, void* d, uint64_t a, uint64_t b, bool keep);
/// a in four registers of each lane; b stored across k if elements have 16 bits, along k if they have 8.
void issue_product_of_registers(DType type, int n, float* d, const uint32_t* a, uint64_t b, bool keep = true);
void products_begin();
void products_close();
void products_wait(int open);

// --- what a warp does together
void stmatrix4(uint32_t row, const uint32_t (&words)[4]);
/// `across`: each matrix transposed.
void ldmatrix4(uint32_t (&words)[4], uint32_t row, bool across);
/// mma.sync m16n8k16.
void multiply_m16n8k16(DType type, float* const (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]);

/// Plain accesses to shared memory that the machine watches.
void note_shared_write(uint32_t address, int bytes);
void note_shared_read(uint32_t address, int bytes);

}  // namespace monotile::emulated
