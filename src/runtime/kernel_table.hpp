#pragma once
// What a compiled kernel needs to know of the runtime: its place in the table and how it is spread. Included by every *.kernels.cpp, once per target,
// so it brings in nothing of the standard library that takes time to read.

#include <cstddef>
#include <cstdint>

namespace monotile {

class Stream;

/// A code path: one backend with one set of compiler flags.
enum class Target : uint8_t {
  cpu_plain, cpu_avx2, cpu_avx512, cpu_amx, emulated32, emulated64, cuda_sm80, cuda_sm90, hip_gfx90a, hip_gfx942, hip_gfx1100, spirv,
  emulated_sm90,  ///< schedules of cuda_sm90 on emulated lanes: some kernels, for emulated:32 where a test forces it
  count
};

/// How a kernel is spread: `programs` independent programs, each with `threads` lanes (ignored on CPU) and scratch memory.
struct Grid {
  int64_t programs = 0;
  int threads = 0;
  size_t scratch_bytes = 0;
  int64_t grain = 1;  ///< CPU: programs that one thread takes at a time (about 16 KB of data pays for waking it)
};

/// Queues one launch. Params are passed by value to the device.
template <class Params>
using KernelFn = void (*)(Stream& stream, const Grid& grid, const Params& params);

/// `name` lives as long as the program.
void register_kernel(const char* name, Target target, uint32_t variant, void (*function)());

}  // namespace monotile
