#pragma once
// For *.kernels.cpp: a kernel of the language as an entry of the kernel table.

#include "monotile/lang/lang.hpp"
#include "ops/row_tiles.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

/// K for programs of at most `MaxThreads` lanes, which bounds the registers of a lane.
template <class K, int MaxThreads>
struct Bounded : K {
  static constexpr int max_threads = MaxThreads;
};

template <class K, int MaxThreads>
void register_bounded(const char* name, uint32_t variant) {
  using Params = typename K::Params;
  register_kernel(name, lang::kTarget, variant, ops::erase<Params>(&lang::launch<Bounded<K, MaxThreads>, Params>));
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
