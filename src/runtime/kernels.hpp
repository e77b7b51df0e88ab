#pragma once
// Compiled kernels by name, target and variant. Each <family>.kernels.cpp is compiled once per target and registers what it
// instantiated; operators look their entries up when they plan, never when they run.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "monotile/device.hpp"
#include "runtime/kernel_table.hpp"

namespace monotile {

const char* to_string(Target target);
/// The path that `device` uses (MONOTILE_CUDA_PATH=sm80 and MONOTILE_CPU_PATH=plain|avx2|avx512|amx are honoured; read once).
Target target_of(const DeviceInfo& device);

struct KernelEntry {
  std::string_view name;  ///< "norm.rms_norm"
  Target target;
  uint32_t variant;       ///< the operator's own: tile configuration in the low 8 bits, dtype combination above them
  void (*function)();     ///< a KernelFn<Params>, cast back by the operator
};

/// nullptr if it was not built. cpu_amx, cpu_avx512 and emulated_sm90 have some kernels, and fall back on the next plainer path for the others.
void (*find_kernel(std::string_view name, Target target, uint32_t variant))();
/// Everything that was built, for `monotile ops --json` and the budgets.
const std::vector<KernelEntry>& built_kernels();

template <class Params>
KernelFn<Params> find_kernel_as(std::string_view name, Target target, uint32_t variant) {
  return reinterpret_cast<KernelFn<Params>>(find_kernel(name, target, variant));
}

}  // namespace monotile
