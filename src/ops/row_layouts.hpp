#pragma once
// Layouts of rows by index, and the numbers of kernels that are instantiated over them: all that a *.kernels.cpp needs of the policy in row_tiles.hpp.

#include <cstddef>
#include <cstdint>

#include "monotile/dtype.hpp"
#include "monotile/lang/layout.hpp"
#include "runtime/kernel_table.hpp"

namespace monotile::ops {

/// The layouts, all with vectors of 8 elements (16 bytes of 16-bit types). Kernels are instantiated over these by index. `kRowsLxV`: several rows to
/// a program, L lanes of V vectors to each.
enum RowLayout : uint32_t { kRows16, kRows32, kRows4x4, kRows8x4, kRows32x4, kBlock1, kBlock2, kBlock4, kStream, kWide, kRowLayouts };

template <uint32_t Index>
struct row_layout_at;
template <> struct row_layout_at<kRows16> { using type = lang::blocked<8, 1, 16>; };
template <> struct row_layout_at<kRows32> { using type = lang::blocked<8, 1, 32>; };
template <> struct row_layout_at<kRows4x4> { using type = lang::blocked<8, 4, 4>; };
template <> struct row_layout_at<kRows8x4> { using type = lang::blocked<8, 4, 8>; };
template <> struct row_layout_at<kRows32x4> { using type = lang::blocked<8, 4, 32>; };
template <> struct row_layout_at<kBlock1> { using type = lang::blocked<8, 1, 0>; };
template <> struct row_layout_at<kBlock2> { using type = lang::blocked<8, 2, 0>; };
template <> struct row_layout_at<kBlock4> { using type = lang::blocked<8, 4, 0>; };
template <> struct row_layout_at<kStream> { using type = lang::blocked<8, 2, 0, true>; };
template <> struct row_layout_at<kWide> { using type = lang::blocked<8, 4, 0, true>; };
/// Added to a layout's index: rows are whole aligned vectors, checked by the host.
inline constexpr uint32_t kExact = kRowLayouts;
template <uint32_t Index>
  requires(Index >= kExact)
struct row_layout_at<Index> {
  using base = typename row_layout_at<Index - kExact>::type;
  using type = lang::blocked<base::vector_elements, base::vectors, base::lanes_per_row, base::streaming, true>;
};
template <uint32_t Index>
using row_layout = typename row_layout_at<Index>::type;

/// Most lanes that the policy gives a program of this layout: bounds a lane's registers.
template <class L>
constexpr int max_row_threads() {
  return L::lanes_per_row != 0 || (L::vectors == 1 && !L::exact) ? 256 : 512;
}
/// Lanes that should fit on one multiprocessor at once: memory-bound programs hide latency by their number, and this bounds their registers. Rows of fp32 are
/// twice as many registers, and as many bytes in flight with half the lanes.
template <class L>
constexpr int resident_row_threads(size_t element_bytes = 2) {
  if (L::exact && !L::streaming) return L::vectors == 1 ? 1536 : L::vectors == 4 && element_bytes == 4 ? 512 : 1024;
  return L::vectors >= 4 || (L::streaming && !L::exact) ? 512 : L::vectors == 2 ? 1024 : 1536;
}

/// Rows that a team of programs holds: pick_team_tile in row_tiles.hpp.
using team_layout = lang::blocked<8, 8, 0, false, true>;
inline constexpr int kTeamThreads = 256;

/// Several rows side by side in a wave, or rows of any length in chunks: for operators on heads (rotary embedding, cache writes).
enum HeadLayout : uint32_t { kHeads4, kHeads8, kHeads16, kHeads32, kHeadsStream, kHeadLayouts };

template <uint32_t Index>
struct head_layout_at {
  using type = lang::blocked<8, 1, 4 << Index>;
};
template <> struct head_layout_at<kHeadsStream> { using type = lang::blocked<8, 1, 0, true>; };
/// Added to a layout's index: heads are whole aligned vectors, checked by the host.
inline constexpr uint32_t kExactHeads = kHeadLayouts;
template <uint32_t Index>
  requires(Index >= kExactHeads)
struct head_layout_at<Index> {
  using base = typename head_layout_at<Index - kExactHeads>::type;
  using type = lang::blocked<base::vector_elements, base::vectors, base::lanes_per_row, base::streaming, true>;
};
template <uint32_t Index>
using head_layout = typename head_layout_at<Index>::type;

/// Number of a kernel whose instantiations differ in one dtype and the layout, or in two dtypes and the layout.
constexpr uint32_t variant_of(DType dtype, uint32_t layout) { return static_cast<uint32_t>(dtype) << 8 | layout; }
constexpr uint32_t variant_of(DType first, DType second, uint32_t layout) {
  return static_cast<uint32_t>(first) << 16 | static_cast<uint32_t>(second) << 8 | layout;
}

template <class Params>
void (*erase(KernelFn<Params> f))() {
  return reinterpret_cast<void (*)()>(f);
}

}  // namespace monotile::ops
