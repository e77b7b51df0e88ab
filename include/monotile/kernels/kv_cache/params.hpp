#pragma once
// What the cache append kernel is given: filled by the host, passed by value.

#include "monotile/lang/view.hpp"

namespace monotile::kernels {

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
  int64_t first_programs;      ///< programs of the keys; those of the values follow
  int64_t rows;                ///< tokens x heads of either
  uint32_t heads;
  lang::any_index slots;
  int32_t* status;  ///< may be null
  int64_t page_size, slot_count;
};

}  // namespace monotile::kernels
