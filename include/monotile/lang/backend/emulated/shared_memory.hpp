#pragma once
// Bank conflicts of the emulated GPUs (src/runtime/fibre.cpp). Independent of wave width.

#include <cstdint>

namespace monotile::emulated {

/// Accesses of matrix words to shared memory: how many passes over its 32 banks they took, and how many they would
/// need.
struct SharedAccesses {
  uint64_t passes = 0, needed = 0;
};
/// One access of `lanes` lanes, `bytes` each.
void count_shared_access(const unsigned char* const* addresses, int lanes, int bytes);
/// Since the last call, over all threads.
SharedAccesses take_shared_accesses();

}  // namespace monotile::emulated
