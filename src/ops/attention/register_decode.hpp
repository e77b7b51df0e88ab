#pragma once
// How decode attention is instantiated: shared by decode_*.kernels.cpp.

#include "monotile/kernels/attention/attention_decode.hpp"
#include "ops/attention/decode_configs.hpp"
#include "ops/attention/register_prefill.hpp"
#include "ops/attention/variants.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

using namespace monotile::ops;  // NOLINT

template <class T, uint32_t Dims, class Score>
void register_decode_kernel(uint32_t scores) {
  using Cfg = decode::config_at<Dims>;
  using Params = kernels::DecodeParams<Score>;
  const uint32_t variant = decode::variant(dtype_of<T>, Dims, scores);
  register_kernel("attention.decode", lang::kTarget, variant,
                  erase<Params>(&lang::launch_chain<kernels::AttentionDecode<Cfg, T, Score>, Params>));
  register_kernel(
      "attention.decode_merge", lang::kTarget, variant,
      erase<Params>(&lang::launch<kernels::MergeDecode<Cfg, T, attention_kernels::layout<Dims>, Score>, Params>));
}

/// CPU keeps its keys in rows, where one query has nothing to share; targets without the words have none.
template <class T, class Score>
void register_decode(uint32_t scores) {
  if constexpr (lang::kHasChains && lang::kHasLanes) {
    register_decode_kernel<T, prefill::up_to_64, Score>(scores);
    register_decode_kernel<T, prefill::up_to_128, Score>(scores);
    if constexpr (!spills(dtype_of<T>, prefill::up_to_256))
      register_decode_kernel<T, prefill::up_to_256, Score>(scores);
  }
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
