#pragma once
// Fibres of the emulator (src/runtime/fibre.cpp). Independent of wave width.

#include <functional>

namespace monotile::emulated {

/// Runs body(wave, fibre) for each wave of one program, switching at barriers. Throws Error(internal) if some waves wait at a barrier
/// that others never reach. Exceptions from a body reach the caller.
void run_waves(int waves, const std::function<void(int wave, void* fibre)>& body);
void wait_at_barrier(void* fibre);
[[noreturn]] void fail_misaligned(const void* p);

}  // namespace monotile::emulated
