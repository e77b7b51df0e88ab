#pragma once
// Which tiles decode attention is compiled for.

#include "ops/attention/prefill_configs.hpp"

namespace monotile::ops::decode {

/// 32 rows are what MFMA takes at once; with mma.sync two waves of 16 copy, and the second one's products are idle work
/// that nobody waits for. 41 KB of shared memory with 128 columns: five programs to a multiprocessor of sm_90.
template <uint32_t D>
struct config_at : lang::chain_config<lang::schedule::ring, 32, 64, D == prefill::up_to_64 ? 64 : 128,
                                      D == prefill::up_to_64 ? 64 : 128, 1, 16> {};
template <>
struct config_at<prefill::up_to_256> : lang::chain_config<lang::schedule::ring, 32, 64, 256, 256, 1, 16> {};
inline constexpr int kRows = config_at<prefill::up_to_64>::bm, kBlock = config_at<prefill::up_to_64>::bn;

constexpr uint32_t variant(DType dtype, uint32_t dims, uint32_t scores) {
  return static_cast<uint32_t>(dtype) << 8 | dims << 4 | scores;
}

}  // namespace monotile::ops::decode
