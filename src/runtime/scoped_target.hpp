#pragma once
#include "runtime/kernels.hpp"

namespace monotile {

/// While it lives, plans made by this thread for devices of the target's backend take this target's kernels: comparisons of
/// code paths inside one process.
class ScopedTarget {
 public:
  explicit ScopedTarget(Target target);
  ~ScopedTarget();
  ScopedTarget(const ScopedTarget&) = delete;

 private:
  int before_;
};

}  // namespace monotile
