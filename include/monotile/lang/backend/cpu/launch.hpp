#pragma once
// Launching on CPU: programs are spread over the thread pool.

#include <sys/mman.h>

#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

#include "monotile/lang/backend/cpu/tile.hpp"
#include "runtime/kernels.hpp"
#include "runtime/thread_pool.hpp"

namespace monotile::lang::inline MONOTILE_TARGET_NAME {

inline constexpr bool kHasLanes = false;  // layouts matter
inline constexpr Target kTarget = Target::MONOTILE_TARGET_NAME;

/// Scratch of one thread: a bump allocator that is emptied when a program ends. It grows until it is large enough, then never allocates.
class Arena {
 public:
  void* take(size_t bytes) {
    bytes = (bytes + kLine - 1) / kLine * kLine;
    if (used_ + bytes > capacity_) {
      spill_.push_back(allocate(bytes));
      wanted_ += bytes;
      return spill_.back().get();
    }
    void* p = block_.get() + used_;
    used_ += bytes;
    return p;
  }
  void reset() {
    if (!spill_.empty()) {
      spill_.clear();
      block_.reset();
      capacity_ = used_ + wanted_;
      wanted_ = 0;
      block_ = allocate(capacity_);
    }
    used_ = 0;
  }

 private:
  static constexpr size_t kLine = 64, kLargePage = size_t{2} << 20;
  struct Free {
    void operator()(unsigned char* p) const { std::free(p); }
  };
  using Memory = std::unique_ptr<unsigned char, Free>;
  /// Blocks of several large pages ask for them: panels and sums of matrix products are walked across rows.
  static Memory allocate(size_t bytes) {
    const bool large = bytes >= 2 * kLargePage;
    const size_t step = large ? kLargePage : kLine;
    Memory p(static_cast<unsigned char*>(std::aligned_alloc(step, (bytes + step - 1) / step * step)));
    if (p == nullptr) throw std::bad_alloc();
    if (large) (void)madvise(p.get(), bytes, MADV_HUGEPAGE);
    return p;
  }
  Memory block_;
  std::vector<Memory> spill_;
  size_t used_ = 0, capacity_ = 0, wanted_ = 0;
};
inline Arena& thread_arena() {
  thread_local Arena arena;
  return arena;
}

template <class K, class Params>
__attribute__((flatten)) void run_program(Context& ctx, const Params& params) {
  K::run(ctx, params);
}

template <class K, class Params>
void launch(Stream&, const Grid& grid, const Params& params) {
  struct Work {
    const Grid& grid;
    const Params& params;
  } work{grid, params};
  const auto body = [](const void* context, int64_t begin, int64_t end, int thread) {
    const auto& w = *static_cast<const Work*>(context);
    Arena& arena = thread_arena();
    for (int64_t i = begin; i < end; ++i) {
      arena.reset();
      auto* const scratch =
          w.grid.scratch_bytes != 0 ? static_cast<unsigned char*>(arena.take(w.grid.scratch_bytes)) : nullptr;
      Context ctx{i, thread, [](size_t bytes) { return thread_arena().take(bytes); }, scratch};
      run_program<K>(ctx, w.params);
    }
  };
  if (grid.programs <= grid.grain) {
    body(&work, 0, grid.programs, 0);
  } else {
    parallel_for(grid.programs, grid.grain, body, &work);
  }
}

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME
