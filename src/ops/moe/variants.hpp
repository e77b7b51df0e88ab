#pragma once
// Which layouts the mixture-of-experts kernels are built for.

#include "ops/row_tiles.hpp"

namespace monotile::ops {

/// Up to 128 experts: two tokens in a wave of 32; up to 512: one; more: a program for each token.
enum RouterLayout : uint32_t { kExperts128, kExperts256, kExperts512, kExpertsBlock };

template <uint32_t Index>
struct router_layout_at {
  using type = row_layout<Index == kExperts128 ? kRows16 : Index == kExperts256 ? kRows32 : kBlock1>;
};
template <>
struct router_layout_at<kExperts512> {
  using type = lang::blocked<8, 2, 32>;
};
template <uint32_t Index>
using router_layout = typename router_layout_at<Index>::type;

/// Ranks lie in the lanes of a row, where several rows share a program.
inline RowTile pick_router_tile(int64_t experts, int64_t top_k, const DeviceInfo& device) {
  if (device.device.kind == DeviceKind::cpu) return {kExperts128, 1, 1};
  if (experts <= 128 && top_k <= 16) return {kExperts128, 128, 8};
  if (experts <= 256 && top_k <= 32) return {kExperts256, 128, 4};
  if (experts <= 512 && top_k <= 32) return {kExperts512, 128, 4};
  return {kExpertsBlock, whole_waves((experts + 7) / 8, 1, device), 1};
}

}  // namespace monotile::ops
