#pragma once
// Which tiles prefill attention is compiled for.

#include <cstdint>

#include "monotile/dtype.hpp"
#include "monotile/lang/chain_config.hpp"

namespace monotile::ops::prefill {

using lang::chain_config;
using lang::schedule;

/// Head dimensions (the larger of keys' and values') up to 64, 128, 256: what lies between is filled up with zeros.
enum Dims : uint32_t { up_to_64, up_to_128, up_to_256, kDims };
/// plain: CPU, any head dimension. ring: NVIDIA and 32 emulated lanes, any alignment. overlapped: sm_90a and the emulated one, what suits the copy engine.
/// staged: CDNA and 64 emulated lanes, any alignment.
enum Path : uint32_t { kPlain, kRing, kOverlapped, kStaged, kPaths };
/// The library's functors: masks alone, masks and changes of scores, trees of drafted tokens; a causal mask or none, where that has
/// kernels of its own.
enum Scores : uint32_t { kMasks, kScored, kTree, kCausal, kScores };

template <uint32_t P, uint32_t D, uint32_t S>
struct config_at;
template <uint32_t D, uint32_t S>
struct config_at<kPlain, D, S> : chain_config<schedule::plain, 96, 64, 256, 256, 1> {};
template <uint32_t D, uint32_t S>
struct config_at<kRing, D, S>
    : chain_config<schedule::ring, 128, 64, D == up_to_64 ? 64 : 128, D == up_to_64 ? 64 : 128, 1, 16> {};
template <uint32_t S>
struct config_at<kRing, up_to_256, S> : chain_config<schedule::ring, 64, 64, 256, 256, 1, 16> {};
/// Three warpgroups multiply where 160 registers are enough: exponentials bind head dimensions up to 64, and three of them
/// leave fewer gaps between. Changed scores would spill 360 bytes.
template <uint32_t S>
struct config_at<kOverlapped, up_to_64, S> : chain_config<schedule::pingpong, S == kMasks ? 192 : 128, 128, 64, 64, 2> {
};
template <uint32_t S>
struct config_at<kOverlapped, up_to_128, S> : chain_config<schedule::pingpong, 128, 128, 128, 128, 2> {};
template <uint32_t S>
struct config_at<kOverlapped, up_to_256, S> : chain_config<schedule::pingpong, 128, 64, 256, 256, 2> {};
/// Codes of 8 bits, head dimensions up to 128.
using turned_config = chain_config<schedule::turned, 128, 128, 128, 128, 2>;
/// Four waves of 32 rows. Registers bound how many programs share a compute unit, of which each SIMD has a wave.
template <uint32_t S>
struct config_at<kStaged, up_to_64, S> : chain_config<schedule::staged, 128, 64, 64, 64, 1, 32, 1, 3> {};
template <uint32_t S>
struct config_at<kStaged, up_to_128, S> : chain_config<schedule::staged, 128, 64, 128, 128, 1, 32, 1, 2> {};
template <uint32_t S>
struct config_at<kStaged, up_to_256, S> : chain_config<schedule::staged, 128, 64, 256, 256, 1, 32, 1, 1> {};

inline constexpr const char* kCausalKernel = "attention.prefill_causal";
inline constexpr const char* kCodesKernel = "attention.prefill_e4m3";
inline constexpr const char* kTurnedKernel = "attention.codes";  ///< queries of codes as well; variant: the dtype of the results

struct TileShape {
  int bm, bn;
};
template <uint32_t P, uint32_t D, uint32_t S>
inline constexpr TileShape kShape{config_at<P, D, S>::bm, config_at<P, D, S>::bn};
constexpr TileShape shape_of(uint32_t path, uint32_t dims, uint32_t scores) {
  if (path == kPlain) return kShape<kPlain, up_to_64, kMasks>;
  if (path == kRing) return dims == up_to_256 ? kShape<kRing, up_to_256, kMasks> : kShape<kRing, up_to_128, kMasks>;
  if (path == kStaged) return kShape<kStaged, up_to_128, kMasks>;  // the same for all
  if (dims == up_to_64)
    return scores == kMasks || scores == kCausal ? kShape<kOverlapped, up_to_64, kMasks> : kShape<kOverlapped, up_to_64, kScored>;
  return dims == up_to_256 ? kShape<kOverlapped, up_to_256, kMasks> : kShape<kOverlapped, up_to_128, kMasks>;
}

constexpr uint32_t dims_of(int64_t dim) { return dim <= 64 ? up_to_64 : dim <= 128 ? up_to_128 : up_to_256; }
/// `dtype`: of queries and caches; none on CPU, where types are known at run time.
constexpr uint32_t variant(DType dtype, uint32_t path, uint32_t dims, uint32_t scores) {
  return static_cast<uint32_t>(dtype) << 8 | path << 6 | dims << 4 | scores;
}

}  // namespace monotile::ops::prefill
