#pragma once
// Which tiles the product is compiled for. The index is the low byte of a kernel's variant.

#include <cstdint>

#include "monotile/dtype.hpp"
#include "monotile/lang/tile_config.hpp"

namespace monotile::ops::tiles {

enum Config : uint32_t {
  kPlain,  ///< CPU
  kRing,   ///< every GPU, any alignment
  kWide,   ///< sm_90a from here on; operands must suit the copy engine
  kBroad,
  kSquare,
  kNarrow,  ///< few rows
  kSplit,   ///< few tiles, many steps
  kConfigs
};

using lang::schedule;
using lang::tile_config;
template <uint32_t>
struct config_at;
template <>
struct config_at<kPlain> : tile_config<schedule::plain, 64, 64, 64, 1> {};
template <>
struct config_at<kRing> : tile_config<schedule::ring, 128, 128, 64, 3> {};
template <>
struct config_at<kWide> : tile_config<schedule::cooperative, 128, 256, 64, 4, 1, 16> {};
template <>
struct config_at<kBroad> : tile_config<schedule::pingpong, 128, 192, 64, 4, 2, 8> {};
template <>
struct config_at<kSquare> : tile_config<schedule::pingpong, 128, 128, 64, 6, 2, 8> {};
template <>
struct config_at<kNarrow> : tile_config<schedule::pingpong, 128, 64, 64, 8, 1, 8> {};
template <>
struct config_at<kSplit> : tile_config<schedule::split, 128, 128, 64, 6> {};

constexpr uint32_t variant(DType operands, uint32_t config) { return static_cast<uint32_t>(operands) << 8 | config; }

}  // namespace monotile::ops::tiles
