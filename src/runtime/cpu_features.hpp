#pragma once
// Which of the CPU's code paths this machine can run.

#include <vector>

#include "runtime/kernels.hpp"

namespace monotile {

/// Usable paths, the plainest first. Looked up once; asks the system for the use of tile registers (AMX), which a
/// process must do before its first such instruction.
const std::vector<Target>& cpu_targets();

/// True where instructions for bf16 (AVX-512-BF16, AMX) outrun fp32 ones on this machine.
bool cpu_has_fast_bf16(Target target);

}  // namespace monotile
