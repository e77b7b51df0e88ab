#pragma once
// How attention of drafted tokens is instantiated: the kernel of many queries with the mask of a tree.

#include "ops/attention/register_prefill.hpp"

// After the language: scores use its mathematics.
#include "monotile/kernels/attention/tree_mask.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

template <class T, uint32_t Dims>
void register_verify() {
  register_prefill<T, Dims, kernels::TreeMask>(prefill::kTree, "attention.verify");
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
