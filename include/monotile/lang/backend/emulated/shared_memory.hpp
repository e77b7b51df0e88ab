#pragma once
// Bank conflicts of the emulated GPUs (src/runtime/fibre.cpp). Independent of wave width.

#include <cstdint>

namespace monotile::emulated {

/// Accesses of matrix words to shared memory: how many passes over its 32 banks they took, and how many they would
/// need.
struct SharedAccesses {
  uint64_t passes = 0, needed = 0;
};
/// Which lanes are served together where an access is wider than the banks.
enum class Phases {
  together,     ///< any: only the sum counts
  consecutive,  ///< as many neighbours as 128 bytes hold: AMD's writes of 16 bytes, and reads of 8
  amd_read16  ///< AMD's reads of 16 bytes: four lanes and four of the other half of their 32, such as 0 to 3 and 20 to 23
};
/// Lane number `i` of a phase. ROCm documentation of composable_kernel, "Understanding AMD GPU LDS and Bank Conflicts"; that reads of 8 bytes are
/// served by sixteen neighbours is our assumption.
constexpr int phase_lane(Phases phases, int phase, int i, int in_phase) {
  if (phases != Phases::amd_read16) return phase * in_phase + i;
  const int low = phase % 4 * 4, high = 16 + (phase % 4 ^ 1) * 4;
  return phase / 4 * 32 + (i < 4 ? low + i : high + i - 4);
}
/// One access of `lanes` lanes, `bytes` each.
void count_shared_access(const unsigned char* const* addresses, int lanes, int bytes, Phases phases = Phases::together);
/// Since the last call, over all threads.
SharedAccesses take_shared_accesses();

}  // namespace monotile::emulated
