#pragma once
// Compiled kernels by name, target and variant. Each <family>.kernels.cpp is compiled once per target and registers what it
// instantiated; operators look their entries up when they plan, never when they run.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "monotile/device.hpp"

namespace monotile {

/// A code path: one backend with one set of compiler flags.
enum class Target : uint8_t {
  cpu_plain, cpu_avx2, cpu_avx512, cpu_amx, emulated32, emulated64, cuda_sm80, cuda_sm90, hip_gfx90a, hip_gfx942, hip_gfx1100, spirv, count
};
const char* to_string(Target target);
/// The path that `device` uses (MONOTILE_CUDA_PATH=sm80 and MONOTILE_CPU_PATH=plain|avx2|avx512|amx are honoured; read once).
Target target_of(const DeviceInfo& device);

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

struct KernelEntry {
  std::string_view name;  ///< "norm.rms_norm"
  Target target;
  uint32_t variant;       ///< the operator's own: tile configuration in the low 8 bits, dtype combination above them
  void (*function)();     ///< a KernelFn<Params>, cast back by the operator
};

void register_kernel(std::string_view name, Target target, uint32_t variant, void (*function)());
/// nullptr if it was not built. cpu_amx and cpu_avx512 have the kernels that gain by them, and fall back on the next plainer path for the others.
void (*find_kernel(std::string_view name, Target target, uint32_t variant))();
/// Everything that was built, for `monotile ops --json` and the budgets.
const std::vector<KernelEntry>& built_kernels();

template <class Params>
KernelFn<Params> find_kernel_as(std::string_view name, Target target, uint32_t variant) {
  return reinterpret_cast<KernelFn<Params>>(find_kernel(name, target, variant));
}

}  // namespace monotile
