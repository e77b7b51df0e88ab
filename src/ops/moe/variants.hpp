#pragma once
// Which layouts the mixture-of-experts kernels are built for.

#include "ops/row_layouts.hpp"

namespace monotile::ops {

/// Up to 128 experts: two tokens in a wave of 32; up to 512: one; more: a program for each token, of one wave where kernels are compiled on use.
enum RouterLayout : uint32_t { kExperts128, kExperts256, kExperts512, kExpertsBlock, kExpertsWave };

template <uint32_t Index>
struct router_layout_at {
  using type = row_layout<Index == kExperts128 ? kRows16 : Index == kExperts256 ? kRows32 : kBlock1>;
};
template <>
struct router_layout_at<kExperts512> {
  using type = lang::blocked<8, 2, 32>;
};
template <>
struct router_layout_at<kExpertsWave> {
  using type = lang::blocked<8, 8, 0>;
};
template <uint32_t Index>
using router_layout = typename router_layout_at<Index>::type;

}  // namespace monotile::ops
