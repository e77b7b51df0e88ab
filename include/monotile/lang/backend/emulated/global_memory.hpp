#pragma once
// Accesses of the emulated GPUs to global memory, wave by wave (src/runtime/global_memory.cpp). Independent of wave width.

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace monotile::emulated {

/// What the waves asked for, access by access: one instruction of all lanes. Memory comes in sectors, and lanes that want the same one share it.
struct GlobalAccesses {
  uint64_t accesses = 0;
  uint64_t sectors = 0;  ///< that were touched
  uint64_t needed = 0;   ///< that the bytes asked for would fill, if they lay side by side on a sector's border
  uint64_t bytes = 0;    ///< asked for, without what several lanes of an access had in common
};

/// While it lives, accesses are counted, over all threads. One at a time.
class CountGlobalAccesses {
 public:
  CountGlobalAccesses();
  ~CountGlobalAccesses();
  CountGlobalAccesses(const CountGlobalAccesses&) = delete;
  CountGlobalAccesses& operator=(const CountGlobalAccesses&) = delete;
  /// Of the launches that are done.
  GlobalAccesses loads() const;
  GlobalAccesses stores() const;
};

namespace detail {
extern std::atomic<bool> counting_global;
void note_lane(int lane, int lanes);
void note_global(const void* p, size_t bytes, bool store);
void close_global();
}  // namespace detail

inline bool counting_global() { return detail::counting_global.load(std::memory_order_relaxed); }
/// Lane `lane` of a wave of `lanes` makes the accesses that follow. The n-th ones of all lanes, as long as they are of one width, are one access of
/// the wave. Lane 0 starts anew.
inline void note_lane(int lane, int lanes) {
  if (counting_global()) detail::note_lane(lane, lanes);
}
inline void note_global_load(const void* p, size_t bytes) {
  if (counting_global()) detail::note_global(p, bytes, false);
}
inline void note_global_store(const void* p, size_t bytes) {
  if (counting_global()) detail::note_global(p, bytes, true);
}
/// The wave does something else from here on.
inline void close_global_accesses() {
  if (counting_global()) detail::close_global();
}

}  // namespace monotile::emulated
