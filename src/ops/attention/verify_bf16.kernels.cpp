// Attention of drafted tokens of bf16, compiled once per target.

#include "ops/attention/register_verify.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

void register_kernels_verify_bf16() { register_verify<bfloat16_t>(); }

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
