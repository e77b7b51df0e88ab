#pragma once
// How prefill attention is instantiated: shared by prefill_*.kernels.cpp, several files to keep each compile short.

#include "monotile/kernels/attention/attention_prefill.hpp"
#include "ops/attention/prefill_configs.hpp"
#include "ops/row_layouts.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

using namespace monotile::ops;  // NOLINT

template <class T, class Score, uint32_t Path, uint32_t Dims, class Stored = T>
void register_prefill_kernel(DType dtype, uint32_t scores, const char* name) {
  constexpr uint32_t kKind = Score::changes_scores ? prefill::kScored : prefill::kMasks;
  using K = kernels::AttentionPrefill<prefill::config_at<Path, Dims, kKind>, T, Score, Stored>;
  using Params = kernels::PrefillParams<Score>;
  register_kernel(name, lang::kTarget, prefill::variant(dtype, Path, Dims, scores),
                  erase<Params>(&lang::launch_chain<K, Params>));
}
/// Kernels that would not fit into the registers of this target: not built, so that the simple kernel serves (ptxas 13.0: 52 bytes of spills on sm_80,
/// 872 on sm_90a, 44 to 64 and 908 with one query; bf16 has none).
constexpr bool spills(DType dtype, uint32_t dims) {
  return dtype == DType::f16 && dims == prefill::up_to_256 &&
         (lang::kTarget == Target::cuda_sm80 || lang::kTarget == Target::cuda_sm90);
}

/// Where one kernel takes caches of codes as well, their masks may be of two spans.
template <class Score>
struct of_all_types {
  using type = Score;
};
template <>
struct of_all_types<kernels::SpanMask> {
  using type = kernels::RangeMask;
};

/// CPU: one kernel for all types and dimensions, registered by the file of the first. Targets without the words: none.
template <class T, uint32_t Dims, class Score>
void register_prefill(uint32_t scores, const char* name = "attention.prefill") {
  if constexpr (!lang::kHasChains) {
  } else if constexpr (!lang::kHasLanes) {
    if constexpr (dtype_of<T> == DType::bf16 && Dims == prefill::up_to_64)
      register_prefill_kernel<float, typename of_all_types<Score>::type, prefill::kPlain, prefill::up_to_64,
                              kernels::codes_t>(DType::none, scores, name);
  } else {
    if constexpr (lang::kHasMfma) register_prefill_kernel<T, Score, prefill::kStaged, Dims>(dtype_of<T>, scores, name);
    if constexpr (lang::kHasRing && !spills(dtype_of<T>, Dims))
      register_prefill_kernel<T, Score, prefill::kRing, Dims>(dtype_of<T>, scores, name);
    if constexpr (lang::kHasWarpgroups)
      register_prefill_kernel<T, Score, prefill::kOverlapped, Dims>(dtype_of<T>, scores, name);
  }
}

/// A causal mask or none, where blocks go through the copy engine.
template <class T, uint32_t Dims>
void register_prefill_causal() {
  if constexpr (lang::kHasChains && lang::kHasWarpgroups)
    register_prefill_kernel<T, kernels::CausalMask, prefill::kOverlapped, Dims>(dtype_of<T>, prefill::kCausal,
                                                                                prefill::kCausalKernel);
}

/// Caches of codes, masks alone. On CPU the kernel of all types takes them.
template <class T, class Code, uint32_t Dims>
void register_prefill_codes() {
  if constexpr (lang::kHasChains && lang::kHasRing && !spills(dtype_of<T>, Dims))
    register_prefill_kernel<T, kernels::RangeMask, prefill::kRing, Dims, Code>(dtype_of<T>, prefill::kMasks,
                                                                               prefill::kCodesKernel);
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
