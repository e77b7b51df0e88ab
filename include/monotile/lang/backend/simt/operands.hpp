#pragma once
// How the matrix unit of sm_90a is told where an operand lies in shared memory. The backend's mma.hpp comes first.
// PTX ISA, "Matrix Descriptor Format".

#include <cstdint>

namespace monotile::lang::inline MONOTILE_TARGET_NAME::hopper {

/// What the matrix unit is told about an operand in 128-byte swizzle: where it starts, and the bytes between groups
/// of eight rows (1024) and between panels (read for operands that are stored along m or n only).
MT_DEVICE uint64_t operand_at(uint32_t address, uint32_t panel_bytes = 16, uint32_t group_bytes = 1024) {
  return static_cast<uint64_t>(1u << 30 | group_bytes >> 4) << 32 | (panel_bytes >> 4) << 16 | (address & 0x3ffff) >> 4;
}
/// The word of it that differs from operand to operand.
MT_DEVICE uint32_t operand_word(uint32_t address, uint32_t panel_bytes = 16) {
  return (panel_bytes >> 4) << 16 | (address & 0x3ffff) >> 4;
}
}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME::hopper
