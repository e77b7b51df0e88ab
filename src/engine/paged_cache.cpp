#include "engine/paged_cache.hpp"

#include <algorithm>
#include <limits>

namespace monotile::engine {

PagePool::PagePool(int64_t count) : total_(count) {
  if (count < 0 || count > std::numeric_limits<int32_t>::max() / kPageSize) {
    throw Error(ErrorCode::invalid_argument, "key/value cache: " + std::to_string(count) + " pages; allowed: 0 to " +
                                                 std::to_string(std::numeric_limits<int32_t>::max() / kPageSize));
  }
  free_.resize(static_cast<size_t>(count));
  for (size_t i = 0; i < free_.size(); ++i) free_[i] = static_cast<int32_t>(free_.size() - 1 - i);  // page 0 goes first
}

int32_t PagePool::take() {
  if (free_.empty())
    throw Error(ErrorCode::out_of_memory, "key/value cache: all " + std::to_string(total_) + " pages are in use");
  const int32_t page = free_.back();
  free_.pop_back();
  return page;
}

void PagePool::give_back(int32_t page) {
  if (page < 0 || page >= total_ || free() == total_) {
    throw Error(ErrorCode::internal,
                "key/value cache: page " + std::to_string(page) + " given back; allowed: a page in use");
  }
  free_.push_back(page);  // never allocates: the capacity is that of a full pool
}

int64_t most_pages(int64_t context, int64_t window, int64_t step_tokens) {
  const int64_t all = pages_for(context);
  // The first query of a step sees window - 1 tokens before it; a run of n tokens touches at most ceil(n / page) + 1
  // pages.
  return window > 0 ? std::min(all, pages_for(window - 1 + step_tokens) + 1) : all;
}

void BlockList::drop_unseen(PagePool& pool, int64_t window, int64_t position) {
  if (window <= 0) return;
  const int64_t first_seen = std::max<int64_t>(0, position - window + 1);
  const size_t gone = std::min(static_cast<size_t>(first_seen / kPageSize), pages_.size());
  for (; dropped_ < gone; ++dropped_) {
    pool.give_back(pages_[dropped_]);
    pages_[dropped_] = kGone;
  }
}

void BlockList::grow(PagePool& pool, int64_t length) {
  while (static_cast<int64_t>(pages_.size()) < pages_for(length)) pages_.push_back(pool.take());
}

void BlockList::clear(PagePool& pool) {
  for (size_t i = dropped_; i < pages_.size(); ++i) pool.give_back(pages_[i]);
  pages_.clear();
  dropped_ = 0;
}

LayerGroup::LayerGroup(Stream& stream, const CacheShape& shape, bool poison) : pool(shape.pages), shape_(shape) {
  const Device device = stream.device();
  const int64_t tokens = shape.pages * kPageSize * shape.kv_heads;
  const int64_t key_bytes = storage_bytes(shape.dtype, tokens * shape.head_dim_qk),
                value_bytes = storage_bytes(shape.dtype, tokens * shape.head_dim_v);
  int64_t bytes = 0;
  if (__builtin_mul_overflow(key_bytes + value_bytes, shape.layers, &bytes)) {
    throw Error(ErrorCode::invalid_argument, "key/value cache: " + std::to_string(shape.layers) + " layers with " +
                                                 std::to_string(key_bytes + value_bytes) +
                                                 " bytes each; allowed: fewer than 2^63 bytes in all");
  }
  memory_ = Buffer(device, static_cast<size_t>(bytes));
  if (poison) fill_bytes(stream, memory_.data(), 0xff, memory_.size());
  auto* at = memory_.as<std::byte>();
  for (int64_t layer = 0; layer < shape.layers; ++layer) {
    keys_.emplace_back(at, shape.dtype,
                       std::initializer_list<int64_t>{shape.pages, shape.kv_heads, kPageSize, shape.head_dim_qk},
                       device);
    at += key_bytes;
    values_.emplace_back(at, shape.dtype,
                         std::initializer_list<int64_t>{shape.pages, shape.kv_heads, kPageSize, shape.head_dim_v},
                         device);
    at += value_bytes;
  }
}

}  // namespace monotile::engine
