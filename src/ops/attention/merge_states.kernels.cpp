// Joining parts of attention, compiled once per target.

#include "monotile/kernels/attention/merge_states.hpp"
#include "ops/register_kernel.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

using namespace monotile::ops;  // NOLINT

void register_kernels_merge_states() {
  register_bounded<kernels::MergeStates<head_layout<kHeads16>>, 128, 1024>("merge_states", kHeads16);
  if constexpr (lang::kHasLanes)
    register_bounded<kernels::MergeStates<head_layout<kHeads32>>, 128, 1024>("merge_states", kHeads32);
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
