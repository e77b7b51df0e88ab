#pragma once
// For *.kernels.cpp with kernels of teams: see register_kernel.hpp.

#include "monotile/lang/team.hpp"
#include "ops/register_kernel.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

template <class K, int MaxThreads, int ResidentThreads>
void register_team(const char* name, uint32_t variant) {
  using Params = typename K::Params;
  register_kernel(name, lang::kTarget, variant,
                  ops::erase<Params>(&lang::launch_team<Bounded<K, MaxThreads, ResidentThreads>, Params>));
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
