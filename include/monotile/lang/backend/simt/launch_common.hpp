#pragma once
// What a kernel may say of the lanes of its programs, and what all targets with lanes have in common at a launch.

#include "runtime/kernel_table.hpp"

namespace monotile::lang::inline MONOTILE_TARGET_NAME {

inline constexpr bool kHasLanes = true;  // layouts matter
inline constexpr Target kTarget = Target::MONOTILE_TARGET_NAME;
inline constexpr int kSlotBytes = 2 * 32 * 8;

/// `Kernel::max_threads` (optional) bounds the threads of a program and so the registers of a lane.
template <class K>
constexpr int max_threads_of() {
  if constexpr (requires { K::max_threads; }) return K::max_threads;
  return 1024;
}

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME
