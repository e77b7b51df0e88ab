#pragma once
// How the attention kernels are instantiated: shared by one file per dtype, to keep each compile short.

#include "monotile/kernels/attention/attention.hpp"
#include "ops/attention/variants.hpp"
#include "ops/row_layouts.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

using namespace monotile::ops;  // NOLINT

template <class T, class KV, uint32_t Width = 0>
void register_attention(attention_kernels::Types types) {
  if constexpr (Width < (lang::kHasLanes ? static_cast<uint32_t>(attention_kernels::widths) : 1u)) {
    using L = attention_kernels::layout<Width>;
    using Params = kernels::AttentionParams<T, KV>;
    register_kernel("attention", lang::kTarget, attention_kernels::variant(types, Width, 1),
                    erase<Params>(&lang::launch<kernels::Attention<T, KV, L, 1>, Params>));
    register_kernel("attention", lang::kTarget, attention_kernels::variant(types, Width, 4),
                    erase<Params>(&lang::launch<kernels::Attention<T, KV, L, 4>, Params>));
    register_kernel("attention_merge", lang::kTarget, attention_kernels::variant(types, Width, 1),
                    erase<Params>(&lang::launch<kernels::MergeSplits<T, KV, L>, Params>));
    register_attention<T, KV, Width + 1>(types);
  }
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
