#pragma once
// What the sampling kernels are given: filled by the host, passed by value.

#include "monotile/lang/view.hpp"

namespace monotile::kernels {

template <class X>
struct ArgmaxParams {
  lang::view<const X> logits;
  int32_t* ids;
  int32_t* status;  ///< may be null
  int64_t rows, cols;
};

/// What the chunks of long rows leave behind: one entry per (row, chunk); lists of 2^capacity_log2 elements each.
struct ChunkFacts {
  float* largest;
  int32_t* index;    ///< of the largest; -1: there is a NaN
  float* threshold;  ///< all elements of the chunk from here on are listed
  int32_t* count;    ///< of those; -1: they did not fit
  float* mass;       ///< sum of 2^((v - largest) * factor)
  int32_t* drawn;    ///< the chunk's winner, where all tokens take part in the draw
  float* values;
  int32_t* columns;
  int32_t chunks;  ///< 0: rows are not scanned
  int32_t capacity_log2;
};

template <class X>
struct ScanParams {
  lang::view<const X> logits;
  ChunkFacts facts;
  int64_t rows, cols;
  int32_t wanted;  ///< of the largest elements of the row
};

template <class X>
struct TopKParams {
  lang::view<const X> logits;
  float* values;
  int32_t* ids;
  int32_t* status;  ///< may be null
  ChunkFacts facts;
  int64_t rows, cols;
  uint64_t list_bytes;
  int32_t k;
};

/// One entry per row in each array; null: the parameter is off (temperature 1, seed and position 0).
template <class X>
struct SampleParams {
  lang::view<const X> logits;
  int32_t* ids;
  int32_t* status;
  const float *temperature, *top_p, *min_p;
  const int32_t* top_k;
  const int64_t *seeds, *positions;
  int64_t rows, cols;
  uint64_t list_bytes;  ///< of scratch
};

}  // namespace monotile::kernels
