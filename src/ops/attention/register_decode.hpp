#pragma once
// How decode attention is instantiated: shared by decode_*.kernels.cpp.

#include "monotile/kernels/attention/attention_decode.hpp"
#include "ops/attention/decode_configs.hpp"
#include "ops/attention/variants.hpp"
#include "ops/row_tiles.hpp"

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

/// Dimensions above 128 do not fit into the registers of these targets with fp16 (ptxas 13.0: 44 and 64 bytes of spills on
/// sm_80, 908 on sm_90a; bf16 has none): the simple kernel serves.
template <class T>
constexpr bool kSpills = dtype_of<T> == DType::f16 &&
                         (lang::kTarget == Target::cuda_sm80 || lang::kTarget == Target::cuda_sm90);

/// CPU keeps its keys in rows, where one query has nothing to share; targets without the words have none.
template <class T, class Score>
void register_decode(uint32_t scores) {
  if constexpr (lang::kHasChains && lang::kHasLanes) {
    register_decode_kernel<T, prefill::up_to_64, Score>(scores);
    register_decode_kernel<T, prefill::up_to_128, Score>(scores);
    if constexpr (!kSpills<T>) register_decode_kernel<T, prefill::up_to_256, Score>(scores);
  }
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
