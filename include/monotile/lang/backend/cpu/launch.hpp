#pragma once
// Launching on CPU: programs are spread over the thread pool.

#include <memory>
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
    bytes = (bytes + 63) & ~size_t{63};
    if (used_ + bytes > capacity_) {
      spill_.push_back(std::make_unique<unsigned char[]>(bytes + 64));
      wanted_ += bytes;
      return align(spill_.back().get());
    }
    void* p = align(block_.get()) + used_;
    used_ += bytes;
    return p;
  }
  void reset() {
    if (!spill_.empty()) {
      capacity_ = used_ + wanted_;
      block_ = std::make_unique<unsigned char[]>(capacity_ + 64);
      spill_.clear();
      wanted_ = 0;
    }
    used_ = 0;
  }

 private:
  static unsigned char* align(unsigned char* p) {
    return reinterpret_cast<unsigned char*>((reinterpret_cast<uintptr_t>(p) + 63) & ~uintptr_t{63});
  }
  std::unique_ptr<unsigned char[]> block_;
  std::vector<std::unique_ptr<unsigned char[]>> spill_;
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
      auto* const scratch = w.grid.scratch_bytes != 0 ? static_cast<unsigned char*>(arena.take(w.grid.scratch_bytes)) : nullptr;
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
