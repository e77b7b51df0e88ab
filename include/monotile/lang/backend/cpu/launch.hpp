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

/// Memory of one thread's programs, one after the other. What a program asks for beyond it is allocated; the next one finds as much more.
class Arena {
 public:
  void* more(size_t bytes) {
    spill_.push_back(allocate(bytes));
    wanted_ += bytes;
    return spill_.back().get();
  }
  void reset() {
    if (spill_.empty()) return;
    spill_.clear();
    block_.reset();
    capacity_ += wanted_;
    wanted_ = 0;
    block_ = allocate(capacity_);
  }
  unsigned char* begin() const { return block_.get(); }
  unsigned char* end() const { return block_.get() + capacity_; }

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
  size_t capacity_ = 0, wanted_ = 0;
};
inline Arena& thread_arena() {
  thread_local Arena arena;
  return arena;
}

inline kept_rows& thread_kept_rows() {
  thread_local kept_rows kept;
  return kept;
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
    kept_rows& kept = thread_kept_rows();
    kept.forget();
    Context ctx{begin,       w.grid.programs,
                thread,      arena.begin(),
                arena.end(), [](size_t bytes) { return thread_arena().more(bytes); },
                nullptr,     &kept};
    for (int64_t i = begin; i < end; ++i) {
      arena.reset();
      ctx.next_program(i, arena.begin(), arena.end());
      if (w.grid.scratch_bytes != 0) ctx.scratch = static_cast<unsigned char*>(ctx.allocate(w.grid.scratch_bytes));
      run_program<K>(ctx, w.params);
    }
#if defined(__AVX2__)
    if (ctx.streamed) _mm_sfence();  // before another thread is told that the work is done
#endif
  };
  if (grid.programs <= grid.grain) {
    body(&work, 0, grid.programs, 0);
  } else {
    parallel_for(grid.programs, grid.grain, body, &work);
  }
}

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME
