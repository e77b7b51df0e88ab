// Speculative verification, compiled once per target.

#include "monotile/kernels/sampling/verify.hpp"
#include "ops/register_kernel.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

using namespace monotile::ops;  // NOLINT

void register_kernels_verify() {
  register_bounded<kernels::VerifyDrafts, 256, 256>("speculative_verify", 0);
  register_bounded<kernels::VerifyDraw<row_layout<kBlock1>>, 256, 1024>("speculative_verify", 1);
  register_bounded<kernels::VerifyFinish, 256, 256>("speculative_verify", 2);
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
