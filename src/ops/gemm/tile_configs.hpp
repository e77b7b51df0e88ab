#pragma once
// Which tiles the product is compiled for. The index is the low byte of a kernel's variant.

#include <cstdint>

#include "monotile/dtype.hpp"
#include "monotile/lang/tile_config.hpp"

namespace monotile::ops::tiles {

enum Config : uint32_t {
  kPlain,  ///< CPU: steps of 1 KB of a packed row, for each size of operands
  kPlain16,
  kPlain8,
  kRing,   ///< every GPU but AMD's, any alignment
  kWide,   ///< sm_90a from here on; operands must suit the copy engine
  kBroad,
  kSquare,
  kNarrow,  ///< few rows
  kSplit,   ///< few tiles, many steps
  kStaged,  ///< CDNA, any alignment
  // From here on for 8-bit floats: as many bytes, twice as many elements along k. Two sums an element (kShortSums) want smaller tiles.
  kRing8,
  kWide8,
  kSquare8,
  kNarrow8,
  kSplit8,
  kStaged8,
  // Of int8, whose sums are whole: the tiles of 16-bit operands.
  kWideInts,
  kSquareInts,
  kNarrowInts,
  // From here on for few rows of a: tiles lie across the result, so that the weights fill the rows of the instructions and are streamed once.
  kFewRing,  ///< every GPU but AMD's, any alignment
  kFew16,    ///< sm_90a: up to 16 rows
  kFew64,
  kFewSplit16,  ///< few tiles, many steps
  kFewSplit64,
  kFewStaged,  ///< CDNA, any alignment
  // The same for int8.
  kFewRing8,
  kFew16Ints,
  kFew64Ints,
  kFewSplit16Ints,
  kFewSplit64Ints,
  kFewStaged8,
  // From here on for operands of different types, fp32 and GGUF blocks: converted as they are copied, any alignment and form.
  kRingMixed,    ///< to bf16
  kStagedMixed,  ///< the same, CDNA
  kRingF32,      ///< to fp32, products by lanes
  kStagedF32,    ///< the same, CDNA
  kRingTf32,     ///< to fp32, which the instructions round
  kConfigs
};
/// What tables and reports call them.
inline constexpr const char* kConfigNames[] = {
    "plain",  "plain16", "plain8", "ring",   "wide",     "broad",   "square",      "narrow",      "split",
    "staged", "ring8",   "wide8",  "square8", "narrow8", "split8",  "staged8",     "wideints",    "squareints",
    "narrowints", "fewring", "few16", "few64",  "fewsplit16-", "fewsplit64-", "fewstaged", "fewring8", "few16ints",
    "few64ints", "fewsplit16ints-", "fewsplit64ints-", "fewstaged8", "ringmixed", "stagedmixed", "ringf32", "stagedf32", "ringtf32"};
static_assert(sizeof(kConfigNames) / sizeof(kConfigNames[0]) == kConfigs);
constexpr bool lies_across(uint32_t config) { return config >= kFewRing && config <= kFewStaged8; }
constexpr bool converts(uint32_t config) { return config >= kRingMixed; }
constexpr int64_t kMostFewRows = 64;
constexpr const char* kernel_name(uint32_t config, bool gated = false) {
  return gated ? "gemm.tiles_gated" : lies_across(config) ? "gemm.tiles_across" : "gemm.tiles";
}

using lang::schedule;
using lang::tile_config;
template <uint32_t>
struct config_at;
template <>
struct config_at<kPlain> : tile_config<schedule::plain, 672, 1536, 256, 1, 1, 4> {};
template <>
struct config_at<kPlain16> : tile_config<schedule::plain, 672, 1536, 512, 1, 1, 4> {};
template <>
struct config_at<kPlain8> : tile_config<schedule::plain, 672, 1536, 1024, 1, 1, 4> {};
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
/// 16 KB of shared memory and 128 registers a lane let three or four programs of four waves share a compute unit (64 KB, 512 registers a lane):
/// they hide each other's waits, since waves of one program do not take turns. Chosen by these numbers, not measured: it has not run on AMD hardware yet.
template <>
struct config_at<kStaged> : tile_config<schedule::staged, 128, 128, 32, 1> {};
template <>
struct config_at<kRing8> : tile_config<schedule::ring, 128, 128, 128, 3> {};
template <>
struct config_at<kWide8> : tile_config<schedule::cooperative, 128, 192, 128, 4, 1, 16> {};
/// The second warpgroup starts three stages after the first, so that one multiplies while the other stores.
template <>
struct config_at<kSquare8> : tile_config<schedule::cooperative, 128, 128, 128, 6, 2, 8, 3> {};
template <>
struct config_at<kNarrow8> : tile_config<schedule::cooperative, 128, 64, 128, 8, 1, 8> {};
template <>
struct config_at<kSplit8> : tile_config<schedule::split, 128, 128, 128, 6> {};
template <>
struct config_at<kStaged8> : tile_config<schedule::staged, 128, 128, 64, 1> {};
template <>
struct config_at<kWideInts> : tile_config<schedule::cooperative, 128, 256, 128, 4, 1, 16> {};
template <>
struct config_at<kSquareInts> : tile_config<schedule::pingpong, 128, 128, 128, 6, 2, 8> {};
template <>
struct config_at<kNarrowInts> : tile_config<schedule::pingpong, 128, 64, 128, 8, 1, 8> {};
template <>
struct config_at<kFewRing> : tile_config<schedule::ring, 128, 64, 64, 4> {};
template <>
struct config_at<kFew16> : tile_config<schedule::pingpong, 128, 16, 64, 9> {};
template <>
struct config_at<kFew64> : tile_config<schedule::pingpong, 128, 64, 64, 7> {};
template <>
struct config_at<kFewSplit16> : tile_config<schedule::split, 128, 16, 64, 10> {};
template <>
struct config_at<kFewSplit64> : tile_config<schedule::split, 128, 64, 64, 8> {};
template <>
struct config_at<kFewStaged> : tile_config<schedule::staged, 128, 64, 32, 1> {};
template <>
struct config_at<kFewRing8> : tile_config<schedule::ring, 128, 64, 128, 4> {};
template <>
struct config_at<kFew16Ints> : tile_config<schedule::pingpong, 128, 16, 128, 9> {};
template <>
struct config_at<kFew64Ints> : tile_config<schedule::pingpong, 128, 64, 128, 7> {};
template <>
struct config_at<kFewSplit16Ints> : tile_config<schedule::split, 128, 16, 128, 10> {};
template <>
struct config_at<kFewSplit64Ints> : tile_config<schedule::split, 128, 64, 128, 8> {};
template <>
struct config_at<kFewStaged8> : tile_config<schedule::staged, 128, 64, 64, 1> {};
template <>
struct config_at<kRingMixed> : tile_config<schedule::ring, 128, 128, 64, 3> {};
template <>
struct config_at<kStagedMixed> : tile_config<schedule::staged, 128, 128, 32, 1> {};
template <>
struct config_at<kRingF32> : tile_config<schedule::ring, 128, 128, 32, 3> {};
template <>
struct config_at<kStagedF32> : tile_config<schedule::staged, 128, 128, 16, 1> {};
template <>
struct config_at<kRingTf32> : tile_config<schedule::ring, 128, 128, 32, 3> {};

constexpr uint32_t variant(DType operands, uint32_t config) { return static_cast<uint32_t>(operands) << 8 | config; }

}  // namespace monotile::ops::tiles
