#pragma once
// wgmma.mma_async: a warpgroup adds 64 x N products of two operands in shared memory to its registers. The
// instruction wants each register by name, so the lists are macros. sm_90a only.

#include "monotile/lang/backend/cuda/async.hpp"
#include "monotile/lang/fragment.hpp"

// clang-format off
#define MT_REGISTERS_8 "%0, %1, %2, %3, %4, %5, %6, %7"
#define MT_REGISTERS_0 \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define MT_REGISTERS_1 \
  "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define MT_REGISTERS_1_HALF "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
#define MT_REGISTERS_2 \
  "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, " \
  "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define MT_REGISTERS_3 \
  "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, " \
  "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define MT_SUMS_8_OF(r, i) r(d[i]), r(d[i + 1]), r(d[i + 2]), r(d[i + 3]), r(d[i + 4]), r(d[i + 5]), r(d[i + 6]), r(d[i + 7])
#define MT_SUMS_32_OF(r, i) MT_SUMS_8_OF(r, i), MT_SUMS_8_OF(r, i + 8), MT_SUMS_8_OF(r, i + 16), MT_SUMS_8_OF(r, i + 24)
#define MT_SUMS_8(i) MT_SUMS_8_OF("+f", i)
#define MT_SUMS_32(i) MT_SUMS_32_OF("+f", i)
// clang-format on

namespace monotile::lang::inline MONOTILE_TARGET_NAME::hopper {

/// d = a b^T + (keep ? d : 0), operands described by `operand_at`, 32 bytes of k; only issued, see products_wait.
template <class T, int N>
struct warpgroup_product;

// Operands after the sums: descriptors of a and b, whether d is kept. `S`, `sum`: what sums are in C and in PTX. `ways`: the signs of floating-point
// operands, and of those of 16 bits whether they lie across k.
#define MT_WARPGROUP_PRODUCT(T, K, S, sum, types, ways, N, registers, a_at, b_at, keep_at, ...)                    \
  template <>                                                                                                      \
  struct warpgroup_product<T, N> : wgmma_m64<N, K> {                                                               \
    static MT_DEVICE void issue(S (&d)[N / 2], uint64_t a, uint64_t b, int keep) {                                 \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" keep_at                                                    \
                   ", 0;\n"                                                                                        \
                   "wgmma.mma_async.sync.aligned.m64n" #N "k" #K "." sum "." types " {" registers "}, %" a_at      \
                   ", %" b_at ", p" ways ";\n}\n"                                                                  \
                   : __VA_ARGS__                                                                                   \
                   : "l"(a), "l"(b), "r"(keep));                                                                   \
    }                                                                                                              \
  };
#define MT_WARPGROUP_PRODUCTS(T, K, S, sum, r, types, ways)                                                        \
  MT_WARPGROUP_PRODUCT(T, K, S, sum, types, ways, 16, MT_REGISTERS_8, "8", "9", "10", MT_SUMS_8_OF(r, 0))          \
  MT_WARPGROUP_PRODUCT(T, K, S, sum, types, ways, 64, MT_REGISTERS_0, "32", "33", "34", MT_SUMS_32_OF(r, 0))       \
  MT_WARPGROUP_PRODUCT(T, K, S, sum, types, ways, 96, MT_REGISTERS_0 ", " MT_REGISTERS_1_HALF, "48", "49", "50",   \
                       MT_SUMS_32_OF(r, 0), MT_SUMS_8_OF(r, 32), MT_SUMS_8_OF(r, 40))                              \
  MT_WARPGROUP_PRODUCT(T, K, S, sum, types, ways, 128, MT_REGISTERS_0 ", " MT_REGISTERS_1, "64", "65", "66",       \
                       MT_SUMS_32_OF(r, 0), MT_SUMS_32_OF(r, 32))                                                  \
  MT_WARPGROUP_PRODUCT(T, K, S, sum, types, ways, 192, MT_REGISTERS_0 ", " MT_REGISTERS_1 ", " MT_REGISTERS_2,     \
                       "96", "97", "98", MT_SUMS_32_OF(r, 0), MT_SUMS_32_OF(r, 32), MT_SUMS_32_OF(r, 64))          \
  MT_WARPGROUP_PRODUCT(T, K, S, sum, types, ways, 256,                                                             \
                       MT_REGISTERS_0 ", " MT_REGISTERS_1 ", " MT_REGISTERS_2 ", " MT_REGISTERS_3, "128", "129",   \
                       "130", MT_SUMS_32_OF(r, 0), MT_SUMS_32_OF(r, 32), MT_SUMS_32_OF(r, 64), MT_SUMS_32_OF(r, 96))
MT_WARPGROUP_PRODUCTS(bfloat16_t, 16, float, "f32", "+f", "bf16.bf16", ", 1, 1, 0, 0")
MT_WARPGROUP_PRODUCTS(half_t, 16, float, "f32", "+f", "f16.f16", ", 1, 1, 0, 0")
MT_WARPGROUP_PRODUCTS(e4m3_t, 32, float, "f32", "+f", "e4m3.e4m3", ", 1, 1")
MT_WARPGROUP_PRODUCTS(e5m2_t, 32, float, "f32", "+f", "e5m2.e5m2", ", 1, 1")
MT_WARPGROUP_PRODUCTS(int8_t, 32, int32_t, "s32", "+r", "s8.s8", "")
#undef MT_WARPGROUP_PRODUCTS

/// The same with a in registers (four words: `mma_rows::operand` of each warp) and d always kept; b is stored along k,
/// row after row, in panels of 64 columns.
template <class T, int N>
struct warpgroup_product_of_registers;
// Operands after the sums: the words of a, the descriptor of b.
#define MT_WARPGROUP_PRODUCT_OF_REGISTERS(T, types, N, registers, a0, a1, a2, a3, b_at, ...)                    \
  template <>                                                                                                    \
  struct warpgroup_product_of_registers<T, N> {                                                                  \
    static MT_DEVICE void issue(float (&d)[N / 2], const uint32_t (&a)[4][1], uint64_t b) {                      \
      asm volatile("wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." types " {" registers "}, {%" a0 ", %" a1    \
                   ", %" a2 ", %" a3 "}, %" b_at ", 1, 1, 1, 1;\n"                                               \
                   : __VA_ARGS__                                                                                 \
                   : "r"(a[0][0]), "r"(a[1][0]), "r"(a[2][0]), "r"(a[3][0]), "l"(b));                            \
    }                                                                                                            \
  };
#define MT_WARPGROUP_PRODUCTS_OF_REGISTERS(T, types)                                                              \
  MT_WARPGROUP_PRODUCT_OF_REGISTERS(T, types, 64, MT_REGISTERS_0, "32", "33", "34", "35", "36", MT_SUMS_32(0))    \
  MT_WARPGROUP_PRODUCT_OF_REGISTERS(T, types, 128, MT_REGISTERS_0 ", " MT_REGISTERS_1, "64", "65", "66", "67",    \
                                    "68", MT_SUMS_32(0), MT_SUMS_32(32))                                         \
  MT_WARPGROUP_PRODUCT_OF_REGISTERS(T, types, 192, MT_REGISTERS_0 ", " MT_REGISTERS_1 ", " MT_REGISTERS_2, "96",   \
                                    "97", "98", "99", "100", MT_SUMS_32(0), MT_SUMS_32(32), MT_SUMS_32(64))      \
  MT_WARPGROUP_PRODUCT_OF_REGISTERS(T, types, 256,                                                                \
                                    MT_REGISTERS_0 ", " MT_REGISTERS_1 ", " MT_REGISTERS_2 ", " MT_REGISTERS_3,   \
                                    "128", "129", "130", "131", "132", MT_SUMS_32(0), MT_SUMS_32(32),            \
                                    MT_SUMS_32(64), MT_SUMS_32(96))
MT_WARPGROUP_PRODUCTS_OF_REGISTERS(bfloat16_t, "bf16.bf16")
MT_WARPGROUP_PRODUCTS_OF_REGISTERS(half_t, "f16.f16")
/// The same with codes of 8 bits, 32 along k; (keep ? d : 0), b's rows along k.
template <class T, int N>
struct warpgroup_product_of_codes;
#define MT_WARPGROUP_PRODUCT_OF_CODES(T, types, N, registers, a0, a1, a2, a3, b_at, keep_at, ...)                 \
  template <>                                                                                                    \
  struct warpgroup_product_of_codes<T, N> {                                                                      \
    static MT_DEVICE void issue(float (&d)[N / 2], const uint32_t (&a)[4][1], uint64_t b, int keep) {            \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" keep_at                                                  \
                   ", 0;\n"                                                                                      \
                   "wgmma.mma_async.sync.aligned.m64n" #N "k32.f32." types " {" registers "}, {%" a0 ", %" a1    \
                   ", %" a2 ", %" a3 "}, %" b_at ", p, 1, 1;\n}\n"                                               \
                   : __VA_ARGS__                                                                                 \
                   : "r"(a[0][0]), "r"(a[1][0]), "r"(a[2][0]), "r"(a[3][0]), "l"(b), "r"(keep));                 \
    }                                                                                                            \
  };
MT_WARPGROUP_PRODUCT_OF_CODES(e4m3_t, "e4m3.e4m3", 128, MT_REGISTERS_0 ", " MT_REGISTERS_1, "64", "65", "66", "67", "68",
                              "69", MT_SUMS_32(0), MT_SUMS_32(32))
#undef MT_WARPGROUP_PRODUCT_OF_CODES
#undef MT_WARPGROUP_PRODUCTS_OF_REGISTERS
#undef MT_WARPGROUP_PRODUCT_OF_REGISTERS
#undef MT_WARPGROUP_PRODUCT
#undef MT_SUMS_32
#undef MT_SUMS_8
#undef MT_SUMS_32_OF
#undef MT_SUMS_8_OF
#undef MT_REGISTERS_8
#undef MT_REGISTERS_0
#undef MT_REGISTERS_1
#undef MT_REGISTERS_1_HALF
#undef MT_REGISTERS_2
#undef MT_REGISTERS_3

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME::hopper
