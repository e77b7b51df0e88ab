// Attention of drafted tokens of f16, compiled once per target.

#include "ops/attention/register_verify.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

void register_kernels_verify_f16() { register_verify<half_t>(); }

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
