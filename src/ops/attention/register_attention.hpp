#pragma once
// How the attention kernels are instantiated: shared by one file per dtype, to keep each compile short.

#include "monotile/kernels/attention/attention_scored.hpp"
#include "monotile/kernels/attention/merge_splits.hpp"
#include "monotile/kernels/attention/scores.hpp"
#include "monotile/kernels/attention/tree_mask.hpp"
#include "ops/attention/variants.hpp"
#include "ops/row_layouts.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

using namespace monotile::ops;  // NOLINT

inline constexpr bool kCompiledOnUse = lang::kTarget == Target::spirv;
inline constexpr int kManyRows = attention_kernels::many_rows(kCompiledOnUse);

template <class T, class KV, class L, class Score>
void register_scored(uint32_t variant) {
  using Params = kernels::ScoredParams<T, KV, Score>;
  constexpr int kRows = attention_kernels::scored_rows(std::is_same_v<T, KV>, kCompiledOnUse);
  register_kernel(
      "attention.scored", lang::kTarget, variant,
      erase<Params>(&lang::launch<kernels::Attention<T, KV, L, kRows, kernels::FunctorScores<Score>>, Params>));
}

template <class T, class KV, uint32_t Width = 0>
void register_attention(attention_kernels::Types types) {
  if constexpr (Width < (lang::kHasLanes ? static_cast<uint32_t>(attention_kernels::widths) : 1u)) {
    using L = attention_kernels::layout<Width>;
    using Params = kernels::AttentionParams<T, KV>;
    register_kernel("attention", lang::kTarget, attention_kernels::variant(types, Width, 1),
                    erase<Params>(&lang::launch<kernels::Attention<T, KV, L, 1>, Params>));
    if constexpr (kManyRows > 1)
      register_kernel("attention", lang::kTarget, attention_kernels::variant(types, Width, kManyRows),
                      erase<Params>(&lang::launch<kernels::Attention<T, KV, L, kManyRows>, Params>));
    register_kernel("attention_merge", lang::kTarget, attention_kernels::variant(types, Width, 1),
                    erase<Params>(&lang::launch<kernels::MergeSplits<T, KV, L>, Params>));
    register_scored<T, KV, L, kernels::ScoredMask>(
        attention_kernels::scored_variant(types, Width, attention_kernels::scored));
    register_scored<T, KV, L, kernels::TreeMask>(
        attention_kernels::scored_variant(types, Width, attention_kernels::tree));
    register_attention<T, KV, Width + 1>(types);
  }
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
