#pragma once
// Key/value memory in pages. Layers that see the same keys form a group with one page pool and one block table per
// sequence; in groups with a window, pages that no later token can see are given back while the sequence grows.

#include <cstdint>
#include <string>
#include <vector>

#include "monotile/tensor.hpp"

namespace monotile::engine {

inline constexpr int64_t kPageSize = 16;

constexpr int64_t pages_for(int64_t tokens) { return (tokens + kPageSize - 1) / kPageSize; }

/// Hands out page numbers 0 .. count - 1. The page given back last is used first.
class PagePool {
 public:
  explicit PagePool(int64_t count);
  /// Throws Error(out_of_memory) if all pages are in use.
  int32_t take();
  void give_back(int32_t page);
  int64_t free() const { return static_cast<int64_t>(free_.size()); }
  int64_t total() const { return total_; }

 private:
  std::vector<int32_t> free_;
  int64_t total_;
};

struct CacheShape {
  int64_t layers = 0;
  int64_t kv_heads = 0;
  int64_t head_dim_qk = 0, head_dim_v = 0;
  int64_t window = 0;       ///< 0: all keys are seen
  int64_t max_columns = 0;  ///< pages of the longest sequence
  int64_t pages = 0;
  DType dtype = DType::none;
};

/// Pages that one sequence of a group can hold at once: all of its `context` tokens, or the window and the tokens of
/// one step.
int64_t most_pages(int64_t context, int64_t window, int64_t step_tokens);

/// The pages of one sequence in one group, in the order of its tokens; kGone where they were given back.
class BlockList {
 public:
  static constexpr int32_t kGone = -1;

  /// Gives back pages that a query at `position` and later ones cannot see (no effect without a window).
  void drop_unseen(PagePool& pool, int64_t window, int64_t position);
  /// Pages for tokens 0 .. length - 1. May throw as PagePool::take; pages taken by then stay for the next try.
  void grow(PagePool& pool, int64_t length);
  void clear(PagePool& pool);
  void reserve(int64_t columns) { pages_.reserve(static_cast<size_t>(columns)); }
  int64_t slot(int64_t position) const {
    return pages_[static_cast<size_t>(position / kPageSize)] * kPageSize + position % kPageSize;
  }
  const std::vector<int32_t>& pages() const { return pages_; }

 private:
  std::vector<int32_t> pages_;
  size_t dropped_ = 0;  ///< leading columns that are gone
};

/// The memory of one group.
class LayerGroup {
 public:
  /// `poison`: all bytes 0xff, which is NaN in every dtype.
  LayerGroup(Stream& stream, const CacheShape& shape, bool poison);

  /// [pages, kv_heads, kPageSize, dim] of a layer of this group.
  const TensorView& keys(int64_t layer) const { return keys_[static_cast<size_t>(layer)]; }
  const TensorView& values(int64_t layer) const { return values_[static_cast<size_t>(layer)]; }
  const CacheShape& shape() const { return shape_; }
  uint64_t bytes() const { return memory_.size(); }
  PagePool pool;

 private:
  CacheShape shape_;
  Buffer memory_;
  std::vector<TensorView> keys_, values_;
};

}  // namespace monotile::engine
