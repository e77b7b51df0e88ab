// Prefill attention of queries, keys and values of e4m3, masks; compiled once per target.

#include "monotile/kernels/attention/attention_codes.hpp"
#include "ops/attention/register_prefill.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

template <class T>
void register_codes() {
  if constexpr (lang::kHasWarpgroups) {
    using K = kernels::AttentionCodes<prefill::turned_config, e4m3_t, T>;
    register_kernel(prefill::kTurnedKernel, lang::kTarget, static_cast<uint32_t>(dtype_of<T>),
                    erase<typename K::Params>(&lang::launch_chain<K, typename K::Params>));
  }
}
void register_kernels_prefill_codes() {
  register_codes<bfloat16_t>();
  register_codes<half_t>();
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
