// Prefill attention of bf16 on caches of e4m3, masks; compiled once per target.

#include "ops/attention/register_prefill.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

void register_kernels_prefill_bf16_e4m3() {
  register_prefill_codes<bfloat16_t, e4m3_t, prefill::up_to_64>();
  register_prefill_codes<bfloat16_t, e4m3_t, prefill::up_to_128>();
  register_prefill_codes<bfloat16_t, e4m3_t, prefill::up_to_256>();
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
