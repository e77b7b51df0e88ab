#pragma once
// Which tiles decode attention is compiled for.

#include "monotile/kernels/attention/params.hpp"
#include "ops/attention/prefill_configs.hpp"

namespace monotile::ops::decode {

using lang::chain_config;
using lang::schedule;

/// ring: NVIDIA and 32 emulated lanes, any alignment. stream: sm_90a, what suits the copy engine. staged: CDNA and 64 emulated lanes, any alignment.
enum Path : uint32_t { kRing, kStream, kStaged, kPaths };

/// 32 rows: two waves of 16 of mma.sync copy, and the products of the second one are idle work
/// that nobody waits for. 41 KB of shared memory with 128 columns: five programs to a multiprocessor of sm_90.
template <uint32_t P, uint32_t D>
struct config_at : chain_config<schedule::ring, 32, 64, D == prefill::up_to_64 ? 64 : 128,
                                D == prefill::up_to_64 ? 64 : 128, 1, 16> {};
template <>
struct config_at<kRing, prefill::up_to_256> : chain_config<schedule::ring, 32, 64, 256, 256, 1, 16> {};
/// Two programs to a multiprocessor, 96 KB of keys and values on their way in each; one with 192 KB where queries and sums of
/// waves leave no room for two. Four waves, 16 keys of a block each, 32 where columns are few.
template <>
struct config_at<kStream, prefill::up_to_64> : chain_config<schedule::stream, 16, 128, 64, 64, 3, 16, 4, 2> {};
template <>
struct config_at<kStream, prefill::up_to_128> : chain_config<schedule::stream, 16, 64, 128, 128, 3, 16, 4, 2> {};
template <>
struct config_at<kStream, prefill::up_to_256> : chain_config<schedule::stream, 16, 64, 256, 256, 3, 16, 4> {};
/// 32 rows are what MFMA takes at once: programs are single waves, and no barrier waits for another.
template <>
struct config_at<kStaged, prefill::up_to_64> : chain_config<schedule::staged, 32, 32, 64, 64, 1, 32, 1, 9> {};
template <>
struct config_at<kStaged, prefill::up_to_128> : chain_config<schedule::staged, 32, 32, 128, 128, 1, 32, 1, 6> {};
template <>
struct config_at<kStaged, prefill::up_to_256> : chain_config<schedule::staged, 32, 32, 256, 256, 1, 32, 1, 3> {};

inline constexpr const char* kCodesKernel = "attention.decode_e4m3";

struct TileShape {
  int bm, bn;
  int least_split = kernels::kLeastSplitKeys;  ///< keys
};
template <uint32_t P, uint32_t D>
inline constexpr TileShape kShape{config_at<P, D>::bm, config_at<P, D>::bn};
constexpr TileShape shape_of(uint32_t path, uint32_t dims) {
  if (path == kRing) return kShape<kRing, prefill::up_to_128>;      // the same for all
  if (path == kStaged) return kShape<kStaged, prefill::up_to_128>;  // the same for all
  TileShape shape = dims == prefill::up_to_64    ? kShape<kStream, prefill::up_to_64>
                    : dims == prefill::up_to_128 ? kShape<kStream, prefill::up_to_128>
                                                 : kShape<kStream, prefill::up_to_256>;
  // H200, 2026-11-30: of 256, 512 and 1,024 keys, the middle one cost large batches 3 % of the longest, the shortest 5 %.
  shape.least_split = 512;
  return shape;
}

constexpr uint32_t variant(DType dtype, uint32_t path, uint32_t dims, uint32_t scores) {
  return static_cast<uint32_t>(dtype) << 8 | path << 6 | dims << 4 | scores;
}

}  // namespace monotile::ops::decode
