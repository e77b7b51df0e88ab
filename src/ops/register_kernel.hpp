#pragma once
// For *.kernels.cpp: a kernel of the language as an entry of the kernel table.

#include "monotile/lang/lang.hpp"
#include "ops/row_layouts.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

/// K for programs of at most `MaxThreads` lanes, `ResidentThreads` of which should fit on a multiprocessor at once: both bound the registers of a lane.
template <class K, int MaxThreads, int ResidentThreads>
struct Bounded : K {
  static constexpr int max_threads = MaxThreads;
  static constexpr int resident_threads = ResidentThreads;
};

template <class K, int MaxThreads, int ResidentThreads>
void register_bounded(const char* name, uint32_t variant) {
  using Params = typename K::Params;
  register_kernel(name, lang::kTarget, variant,
                  ops::erase<Params>(&lang::launch<Bounded<K, MaxThreads, ResidentThreads>, Params>));
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
