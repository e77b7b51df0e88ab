#pragma once
// What the kernels on caches are given: filled by the host, passed by value.

#include "monotile/lang/view.hpp"

namespace monotile::kernels {

/// From tokens to their places in paged caches.
struct SlotTable {
  lang::any_index slots;
  int32_t* status;  ///< may be null; set where a token's slot lies past the caches
  int64_t count;    ///< slots of the caches, below 2^32
  lang::divisor page_size;
};

/// One of keys and values.
template <class X, class C>
struct KvAppendPart {
  lang::view<C> cache;  ///< rows are addressed by their element offset
  lang::view<const X> source;
  int64_t page_stride, head_stride, token_stride;  ///< of the cache, in elements
  int64_t cols;
};

template <class X, class C>
struct KvAppendParams {
  KvAppendPart<X, C> part[2];  ///< keys, values
  int64_t rows;                ///< tokens x heads of either
  lang::divisor heads;
  SlotTable slots;
};

/// Rows moved as they are: row (item, a, b) of `from` to row (item', a, b) of `to`, in each of two pairs of tensors.
template <class T>
struct CopyRowsPart {
  lang::view<T> to;  ///< rows are addressed by their element offset, here and below
  lang::view<const T> from;
  int64_t to_stride[3], from_stride[3];
  int64_t cols, chunks;  ///< columns of a row, and programs side by side along it
};
template <class T>
struct CopyRowsParams {
  CopyRowsPart<T> part[2];
  int64_t first_programs;                ///< programs of the first part; those of the second follow
  lang::any_index from_index, to_index;  ///< null: the item itself
  int64_t items, index_step;             ///< indices lie index_step apart
  uint32_t a, b;                         ///< rows of an item: a x b
  int64_t from_count, to_count;          ///< indices outside are reported, and nothing is written
  int32_t* status;                       ///< may be null
  bool zeros;                            ///< items without a source become zeros
};

/// Rows of paged caches to packed rows, codes as values.
struct KvGatherPart {
  lang::any_view y, cache;
  int64_t page_stride, head_stride, token_stride;
  lang::view<const float> scales;
  int64_t scale_page_stride, scale_head_stride, scale_token_stride;
  int64_t cols;
};
struct KvGatherParams {
  KvGatherPart part[2];  ///< keys, values
  int64_t rows;          ///< tokens x heads of either
  lang::divisor heads;
  SlotTable slots;
  bool codes;
};

}  // namespace monotile::kernels
