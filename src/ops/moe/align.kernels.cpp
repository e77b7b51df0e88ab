// Sorting pairs by expert, compiled once per target.

#include "monotile/kernels/moe/align.hpp"
#include "ops/register_kernel.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

void register_kernels_align() {
  register_bounded<kernels::AlignCount, 512, 1024>("moe_align_count", 0);
  register_bounded<kernels::AlignPlace, 512, 512>("moe_align_place", 0);
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
