#pragma once
// What the rotary embedding kernel is given: filled by the host, passed by value.

#include "monotile/lang/view.hpp"

namespace monotile::kernels {

/// One of q and k: rows are (token, head).
template <class X>
struct RopePart {
  lang::view<X> y, x;
  int64_t rows;
  uint32_t heads;
  bool copy_rest;  ///< columns past the rotated ones: they are there, and y is not x
};

template <class X>
struct RopeParams {
  RopePart<X> part[2];     ///< q, k
  int64_t first_programs;  ///< programs of q; those of k follow
  lang::any_index positions;
  lang::view<const float> cos, sin;
  int32_t* status;  ///< may be null
  int64_t max_position;
  int64_t half, rest;  ///< pairs of a head, columns past them
  bool interleaved;
};

}  // namespace monotile::kernels
