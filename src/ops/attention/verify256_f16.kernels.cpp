// Attention of drafted tokens of f16, head dimensions up to 256, compiled once per target.

#include "ops/attention/register_verify.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

void register_kernels_verify256_f16() { register_verify<half_t, prefill::up_to_256>(); }

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
