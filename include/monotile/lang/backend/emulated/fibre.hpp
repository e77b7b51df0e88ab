#pragma once
// Fibres of the emulator (src/runtime/fibre.cpp), and how programs are examined on them. Independent of wave width.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace monotile::emulated {

/// Runs body(wave, fibre) for each wave of one program, switching at barriers. Throws Error(internal) if some waves wait at a barrier
/// that others never reach. Exceptions from a body reach the caller.
void run_waves(int waves, const std::function<void(int wave, void* fibre)>& body);
void wait_at_barrier(void* fibre);
[[noreturn]] void fail_misaligned(const void* p);

/// Mistakes that can be planted, to see that they would be noticed.
enum class Fault {
  none,
  fragment_map,     ///< the lanes of a matrix instruction hold the elements of their neighbours
  wave_width,       ///< lanes exchange as if a wave had half as many
  missing_barrier,  ///< one barrier of a program, drawn from the seed, is not there
  pipeline_phase    ///< waiting for a copy stops one group, or one step, too early
};

/// While it lives, programs of this process run in an order drawn from the seed, waves change at accesses to shared memory too, and every byte of
/// shared memory is watched: reading what nobody wrote, and two waves at one byte without a barrier in between (one of them writing), throw
/// Error(internal). One at a time. MONOTILE_EMULATED_SEED=N does the same for a whole process.
class Examination {
 public:
  explicit Examination(uint64_t seed, Fault planted = Fault::none);
  ~Examination();
  Examination(const Examination&) = delete;
  Examination& operator=(const Examination&) = delete;
};

namespace detail {
extern std::atomic<bool> examined;
extern std::atomic<Fault> planted;
void note(const void* p, size_t bytes, bool write);
}  // namespace detail

inline bool examined() { return detail::examined.load(std::memory_order_relaxed); }
inline bool planted(Fault f) { return examined() && detail::planted.load(std::memory_order_relaxed) == f; }
/// One access to shared memory by the wave that runs.
inline void note_read(const void* p, size_t bytes) {
  if (examined()) detail::note(p, bytes, false);
}
inline void note_write(const void* p, size_t bytes) {
  if (examined()) detail::note(p, bytes, true);
}

/// The shared memory of the program that this thread runs, watched while this lives.
class WatchedProgram {
 public:
  WatchedProgram(int64_t program, const void* slots, size_t slot_bytes, const void* scratch, size_t scratch_bytes);
  ~WatchedProgram();
  WatchedProgram(const WatchedProgram&) = delete;
  WatchedProgram& operator=(const WatchedProgram&) = delete;

 private:
  bool watching_;
};

}  // namespace monotile::emulated
