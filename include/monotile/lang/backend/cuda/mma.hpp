#pragma once
// mma.sync, ldmatrix and cp.async: the matrix instructions that every NVIDIA GPU since sm_80 has.

#include "monotile/lang/backend/cuda/primitives.hpp"
#include "monotile/lang/backend/simt/lane_unit.hpp"
#include "monotile/lang/backend/simt/ldmatrix.hpp"
#include "monotile/lang/converted.hpp"

#define MT_DEVICE __device__ __forceinline__
/// Memory of the device that lives as long as the library is loaded, zeros at first.
#define MT_KEPT static __device__
#define MT_PRAGMA_(text) _Pragma(#text)
#define MT_UNROLL_BY(n) MT_PRAGMA_(unroll n)
/// The compiler may no longer know where two values came from, nor keep in registers what is in memory. Not a function: with
/// references the order of registers changed all over a kernel.
#define MT_HIDE(a, b) asm volatile("" : "+r"(a), "+r"(b)::"memory")

namespace monotile::lang::inline MONOTILE_TARGET_NAME {

MT_DEVICE uint32_t shared_address(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }

// --- the program, and what its waves do together
/// Not ctx.thread(0), which made the compiler see kernels otherwise (prefill: another order of registers).
MT_DEVICE int thread_number() { return static_cast<int>(threadIdx.x); }
MT_DEVICE int program_number() { return static_cast<int>(blockIdx.x); }
MT_DEVICE int program_count() { return static_cast<int>(gridDim.x); }
/// What the lanes of a wave wrote to shared memory is there for all of them.
MT_FN void wave_sync() {
#if defined(__CUDA_ARCH__)
  __syncwarp();
#endif
}
/// v, the same for all lanes of a wave, and the compiler knows.
MT_DEVICE int same_for_all(int v) { return __shfl_sync(~0u, v, 0); }
template <class T>
MT_DEVICE T from_lane(T v, int lane) {
  return __shfl_sync(~0u, v, lane);
}
MT_DEVICE int from_below(int v, int distance) { return __shfl_up_sync(~0u, v, distance); }
/// A bit for each lane.
MT_DEVICE uint32_t wave_ballot(bool here) { return __ballot_sync(~0u, here); }
MT_DEVICE bool wave_any(bool here) { return __any_sync(~0u, here); }
MT_DEVICE int wave_sum(int v) { return __reduce_add_sync(~0u, v); }
MT_DEVICE int bits_set(uint32_t v) { return __popc(v); }
/// From shared memory, now.
MT_DEVICE int load_word(const int& word) {
  int v;
  asm volatile("ld.shared.s32 %0, [%1];" : "=r"(v) : "r"(shared_address(&word)) : "memory");
  return v;
}
/// 16 bytes of shared memory become 0.
MT_DEVICE void clear_shared16(unsigned char* p) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %1, %1, %1};" ::"r"(shared_address(p)), "r"(0) : "memory");
}
/// ldmatrix by the address of this lane's row; across: each 8 x 8 matrix transposed.
template <bool Across>
MT_DEVICE void read_matrices(uint32_t (&r)[4][1], uint32_t address) {
  if constexpr (Across) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0][0]), "=r"(r[1][0]), "=r"(r[2][0]), "=r"(r[3][0])
                 : "r"(address)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0][0]), "=r"(r[1][0]), "=r"(r[2][0]), "=r"(r[3][0])
                 : "r"(address)
                 : "memory");
  }
}

struct ldmatrix {
  static MT_DEVICE void read4(uint32_t (&r)[4][1], const unsigned char* const (&row)[1]) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0][0]), "=r"(r[1][0]), "=r"(r[2][0]), "=r"(r[3][0])
                 : "r"(shared_address(row[0]))
                 : "memory");
  }
  /// Half away from zero; infinity and NaN stay.
  static MT_DEVICE uint32_t round_to_tf32(uint32_t v) {
    uint32_t r;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "r"(v));
    return r;
  }
};
struct chunk_reader {
  static MT_DEVICE void read16(uint32_t (&w)[4][1], const unsigned char* const (&from)[1], const int (&)[1]) {
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(w[0][0]), "=r"(w[1][0]), "=r"(w[2][0]), "=r"(w[3][0])
                 : "r"(shared_address(from[0]))
                 : "memory");
  }
};
using float_unit = lane_unit<chunk_reader>;

/// Copies of 16 bytes under way, in groups.
struct copy_queue {
  static constexpr int most = 0;  ///< held in registers
  /// The first `bytes` bytes (0 to 16), zeros for the rest.
  MT_DEVICE void add(void* to, const void* from, int bytes, int, int, int) {
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from),
                 "r"(bytes)
                 : "memory");
  }
  /// 16 bytes from registers into shared memory, at once (store16 writes to global memory only).
  MT_DEVICE void put(void* to, const vector16& v, int, int) {
    asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(shared_address(to)), "r"(v.word[0]), "r"(v.word[1]),
                 "r"(v.word[2]), "r"(v.word[3])
                 : "memory");
  }
  MT_DEVICE void close_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }
  /// Waits until at most `Open` groups are under way.
  template <int Open>
  MT_DEVICE void wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(Open) : "memory");
  }
};

/// Which wave of its program this is; the compiler knows that it is the same for all lanes.
MT_FN int wave_number(const Context& ctx) {
#if defined(__CUDA_ARCH__)
  return __shfl_sync(~0u, ctx.thread(0) / kWave, 0);
#else
  return ctx.thread(0) / kWave;
#endif
}
/// Bytes of a and b, numbered 0 to 7, by the hexadecimal digits of the selector.
MT_FN uint32_t select_bytes(uint32_t a, uint32_t b, uint32_t selector) {
  uint32_t r = 0;
#if defined(__CUDA_ARCH__)
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(selector));
#endif
  return r;
}
/// (v & mask) | bits. In assembly, since the compiler makes two instructions of two constants.
MT_FN uint32_t mask_and_set(uint32_t v, uint32_t mask, uint32_t bits) {
  uint32_t r = 0;
#if defined(__CUDA_ARCH__)
  asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(r) : "r"(v), "r"(mask), "r"(bits));
#endif
  return r;
}
/// a - b, two values of T each: as b * -1 + a, since sm_80 subtracts bf16 in no other way.
template <class T>
MT_FN uint32_t subtract_pairs(uint32_t a, uint32_t b) {
  uint32_t r = 0;
#if defined(__CUDA_ARCH__)
  if constexpr (dtype_of<T> == DType::bf16) {
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(b), "r"(0xbf80bf80u), "r"(a));
  } else {
    asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
  }
#endif
  return r;
}

/// Codes 2 pair and 2 pair + 1 of a word as two values of fp16: exact, NaN stays NaN.
template <class T>
MT_DEVICE uint32_t halves_of_codes(uint32_t codes, int pair) {
  uint32_t r;
  if constexpr (dtype_of<T> == DType::f8_e5m2) {  // the upper half of fp16
    asm("prmt.b32 %0, %1, 0, %2;" : "=r"(r) : "r"(codes), "r"(pair == 0 ? 0x1404 : 0x3424));
  } else {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(r) : "h"(static_cast<uint16_t>(codes >> (16 * pair))));
#else
    // With the bits in place the exponent is eight too low. The NaN code, which would be 480, becomes infinity when multiplied by 256 * 146, where
    // 448 does not, and infinity times 0 is NaN.
    asm("prmt.b32 %0, %1, 0, %2;" : "=r"(r) : "r"(codes), "r"(pair == 0 ? 0x1404 : 0x3424));
    r = (r & 0x80008000u) | ((r & 0x7f007f00u) >> 1);
    uint32_t nan;
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(nan) : "r"(r), "r"(0x78907890u));    // 37376
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(nan) : "r"(nan), "r"(0u));
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(r), "r"(0x5c005c00u), "r"(nan));  // 256
#endif
  }
  return r;
}

#define MT_MMA_SYNC(types)                                         \
  asm("mma.sync.aligned.m16n8k16.row.col.f32." types               \
      ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "        \
      "{%0, %1, %2, %3};"                                          \
      : "+f"(d[0][0]), "+f"(d[1][0]), "+f"(d[2][0]), "+f"(d[3][0]) \
      : "r"(a[0][0]), "r"(a[1][0]), "r"(a[2][0]), "r"(a[3][0]), "r"(b[0][0]), "r"(b[1][0]))

struct matrix_unit : ldmatrix_loads<ldmatrix> {
  /// d += a b^T for one instruction.
  template <class T>
  static MT_DEVICE void multiply(float (&d)[4][1], const uint32_t (&a)[4][1], const uint32_t (&b)[2][1]);
};
template <>
MT_DEVICE void matrix_unit::multiply<bfloat16_t>(float (&d)[4][1], const uint32_t (&a)[4][1],
                                                 const uint32_t (&b)[2][1]) {
  MT_MMA_SYNC("bf16.bf16");
}
template <>
MT_DEVICE void matrix_unit::multiply<half_t>(float (&d)[4][1], const uint32_t (&a)[4][1], const uint32_t (&b)[2][1]) {
  MT_MMA_SYNC("f16.f16");
}
#undef MT_MMA_SYNC

/// int8, sums in int32: exact as long as they fit, and they wrap.
struct int8_unit : ldmatrix_loads<ldmatrix, mma_m16n8k32> {
  template <class T>
  static MT_DEVICE void multiply(int32_t (&d)[4][1], const uint32_t (&a)[4][1], const uint32_t (&b)[2][1]) {
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+r"(d[0][0]), "+r"(d[1][0]), "+r"(d[2][0]), "+r"(d[3][0])
        : "r"(a[0][0]), "r"(a[1][0]), "r"(a[2][0]), "r"(a[3][0]), "r"(b[0][0]), "r"(b[1][0]));
  }
};

/// fp32 rounded to tf32 as fragments are read.
struct tf32_unit : ldmatrix_tf32_loads<ldmatrix> {
  template <class T>
  static MT_DEVICE void multiply(float (&d)[4][1], const uint32_t (&a)[4][1], const uint32_t (&b)[2][1]) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0][0]), "+f"(d[1][0]), "+f"(d[2][0]), "+f"(d[3][0])
        : "r"(a[0][0]), "r"(a[1][0]), "r"(a[2][0]), "r"(a[3][0]), "r"(b[0][0]), "r"(b[1][0]));
  }
};

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME
