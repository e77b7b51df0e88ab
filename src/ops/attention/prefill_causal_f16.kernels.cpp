// Prefill attention of f16 with a causal mask or none; compiled once per target.

#include "ops/attention/register_prefill.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

void register_kernels_prefill_causal_f16() {
  register_prefill_causal<half_t, prefill::up_to_64>();
  register_prefill_causal<half_t, prefill::up_to_128>();
  register_prefill_causal<half_t, prefill::up_to_256>();
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
