#pragma once
// What the kernel on heads is given: filled by the host, passed by value.

#include "monotile/kernels/kv_cache/params.hpp"

namespace monotile::kernels {

/// One of q, k and v: rows are (token, head). Pieces whose data is null are absent.
template <class X>
struct HeadPart {
  lang::view<X> y;
  lang::view<const X> x;
  lang::any_vector gamma;                          ///< one for all heads
  lang::any_view gamma_rows;                       ///< the same as a row
  lang::any_view cache;                            ///< rows are addressed by their element offset
  int64_t page_stride, head_stride, token_stride;  ///< of the cache, in elements
  lang::view<float> scales;                        ///< of codes: rows are addressed by their element offset
  int64_t scale_page_stride, scale_head_stride, scale_token_stride;
  float largest_code;
  bool chooses_scales;  ///< one per token and head, written; else read: one for all, or one per head
  int64_t rows, cols;
  int64_t half;  ///< pairs to rotate, 0: none
  lang::divisor heads;
};

template <class X>
struct HeadRowsParams {
  HeadPart<X> part[3];        ///< q, k, v
  int64_t first_programs[3];  ///< where the programs of each begin
  lang::any_index positions;
  SlotTable slots;  ///< its status serves positions, too
  lang::view<const float> cos, sin;
  int64_t max_position, slot_tokens;
  float eps, gamma_offset;
  bool interleaved;
};

}  // namespace monotile::kernels
