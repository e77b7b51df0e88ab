#pragma once
// How attention of drafted tokens is instantiated: the kernel of many queries with the mask of a tree.

#include "ops/attention/register_prefill.hpp"

// After the language: scores use its mathematics.
#include "monotile/kernels/attention/tree_mask.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

template <class T>
void register_verify() {
  constexpr const char* kName = "attention.verify";
  using Score = kernels::TreeMask;
  register_prefill<T, prefill::up_to_64, Score>(prefill::kTree, kName);
  register_prefill<T, prefill::up_to_128, Score>(prefill::kTree, kName);
  register_prefill<T, prefill::up_to_256, Score>(prefill::kTree, kName);
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
