#pragma once
// How decode attention is instantiated: shared by decode_*.kernels.cpp, several files to keep each compile short.

#include "monotile/kernels/attention/attention_decode.hpp"
#include "ops/attention/decode_configs.hpp"
#include "ops/attention/register_prefill.hpp"
#include "ops/attention/variants.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

using namespace monotile::ops;  // NOLINT

template <class T, uint32_t Path, uint32_t Dims, class Score>
void register_decode_kernel(uint32_t scores) {
  using Cfg = decode::config_at<Path, Dims>;
  using Params = kernels::DecodeParams<Score>;
  const uint32_t variant = decode::variant(dtype_of<T>, Path, Dims, scores);
  register_kernel("attention.decode", lang::kTarget, variant,
                  erase<Params>(&lang::launch_chain<kernels::AttentionDecode<Cfg, T, Score>, Params>));
}
template <class T, uint32_t Dims, class Score>
void register_decode_kernels(uint32_t scores) {
  // Changed scores on sm_80, ptxas 13.0: 8 bytes of spills with bf16.
  constexpr bool kSpills = spills(dtype_of<T>, Dims) ||
                           (lang::kTarget == Target::cuda_sm80 && Dims == prefill::up_to_256 && Score::changes_scores);
  if constexpr (lang::kHasMfma) register_decode_kernel<T, decode::kStaged, Dims, Score>(scores);
  if constexpr (lang::kHasRing && !kSpills) register_decode_kernel<T, decode::kRing, Dims, Score>(scores);
  using Params = kernels::DecodeParams<Score>;
  using Merge = kernels::MergeDecode<decode::config_at<decode::kRing, Dims>, T, Score>;
  register_kernel("attention.decode_merge", lang::kTarget, decode::variant(dtype_of<T>, decode::kRing, Dims, scores),
                  erase<Params>(&lang::launch<Merge, Params>));
}

/// CPU keeps its keys in rows, where one query has nothing to share; targets without the words have none.
template <class T, class Score>
void register_decode(uint32_t scores) {
  if constexpr (lang::kHasChains && lang::kHasLanes) {
    register_decode_kernels<T, prefill::up_to_64, Score>(scores);
    register_decode_kernels<T, prefill::up_to_128, Score>(scores);
    register_decode_kernels<T, prefill::up_to_256, Score>(scores);
  }
}
/// Caches of codes, masks alone.
template <class T, class Code, uint32_t Dims>
void register_decode_codes_kernel() {
  if constexpr (lang::kHasRing && !spills(dtype_of<T>, Dims)) {
    using Score = kernels::RangeMask;
    using K = kernels::AttentionDecode<decode::config_at<decode::kRing, Dims>, T, Score, Code>;
    using Params = kernels::DecodeParams<Score>;
    register_kernel(decode::kCodesKernel, lang::kTarget,
                    decode::variant(dtype_of<T>, decode::kRing, Dims, prefill::kMasks),
                    erase<Params>(&lang::launch_chain<K, Params>));
  }
}
template <class T, class Code>
void register_decode_codes() {
  if constexpr (lang::kHasChains) {
    register_decode_codes_kernel<T, Code, prefill::up_to_64>();
    register_decode_codes_kernel<T, Code, prefill::up_to_128>();
    register_decode_codes_kernel<T, Code, prefill::up_to_256>();
  }
}
/// What sets the counts of a queue to zero: for sm_90a and, since the emulated one has no plain kernels, for 32 emulated lanes.
template <class Start = kernels::StartDecode>
void register_decode_start() {
  if constexpr (lang::kHasChains && lang::kHasRing)
    register_kernel("attention.decode_start", lang::kTarget, 0,
                    erase<kernels::DecodeCounts>(&lang::launch<Start, kernels::DecodeCounts>));
}
/// Where there is a copy engine.
template <class T, class Score>
void register_decode_stream(uint32_t scores) {
  if constexpr (lang::kHasWarpgroups) {
    register_decode_kernel<T, decode::kStream, prefill::up_to_64, Score>(scores);
    register_decode_kernel<T, decode::kStream, prefill::up_to_128, Score>(scores);
    if constexpr (!spills(dtype_of<T>, prefill::up_to_256))
      register_decode_kernel<T, decode::kStream, prefill::up_to_256, Score>(scores);
  }
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
