#pragma once
// Operands whose rows lie off 16 bytes, as copies whose rows do not: when to make them, where they lie, and the launch. Elements travel as bits.

#include <cstddef>
#include <cstdint>

#include "monotile/lang/layout.hpp"

namespace monotile::ops::packing {

enum PackLayout : uint32_t { kShort, kLong };
/// Eight short rows to a program, or chunks of long ones of up to 4,096 elements.
using short_layout = lang::blocked<8, 1, 16>;
using long_layout = lang::blocked<8, 4, 0>;
inline constexpr int kThreads = 128;
inline constexpr int64_t kShortCols = 256;

constexpr const char* kernel_name(size_t element_bytes) { return element_bytes == 1 ? "gemm.pack_bytes" : "gemm.pack_halves"; }

}  // namespace monotile::ops::packing
