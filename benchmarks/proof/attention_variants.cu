// Loops of prefill attention beside each other: the same kernel with other numbers. `variant` is the loop's (chain_warpgroups.hpp).
#define MONOTILE_TARGET_CUDA
#define MONOTILE_TARGET_NAME cuda_sm90

#include "attention_variants.cuh"

#include "monotile/kernels/attention/attention_prefill.hpp"

namespace proof {
namespace {

using namespace monotile;  // NOLINT

template <int BM, int BN, int Dim, int Loop>
Variant variant(const char* name) {
  using Cfg = lang::chain_config<lang::schedule::pingpong, BM, BN, Dim, Dim, 2, 32, 1, 1, Loop>;
  using K = kernels::AttentionPrefill<Cfg, bfloat16_t, kernels::RangeMask>;
  return {name, Dim, BM, BN, &lang::launch_chain<K, kernels::PrefillParams<kernels::RangeMask>>};
}

}  // namespace

std::vector<Variant> attention_variants() {
  return {variant<128, 128, 128, 0>("128 x 128, waits before the turn"), variant<128, 128, 128, 1>("128 x 128, waits within the turn"),
          variant<128, 128, 128, 5>("128 x 128, next tile ahead"), variant<192, 128, 64, 5>("192 x 128, next tile ahead"),
          variant<128, 128, 128, 3>("128 x 128, without turns"), variant<192, 128, 64, 3>("192 x 128, without turns"),
          variant<192, 128, 64, 0>("192 x 128, waits before the turn"), variant<192, 128, 64, 1>("192 x 128, waits within the turn"),
          variant<128, 128, 64, 1>("128 x 128, waits within the turn")};
}

}  // namespace proof
