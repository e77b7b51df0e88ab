// Loops of prefill attention beside each other: the same kernel with other numbers.
#define MONOTILE_TARGET_CUDA
#define MONOTILE_TARGET_NAME cuda_sm90

#include "attention_variants.cuh"

#include <cstddef>
#include <cstring>

#include "monotile/kernels/attention/attention_prefill.hpp"

namespace proof {
namespace {

using namespace monotile;  // NOLINT
using Params = kernels::PrefillParams<kernels::SpanMask>;

template <int BM, int BN, int Dim>
using Config = lang::chain_config<lang::schedule::pingpong, BM, BN, Dim, Dim, 2>;

/// `queue`: the slot of its counts, where programs take tiles by tickets; -1: each has its own by number.
template <int BM, int BN, int Dim>
Variant variant(const char* name, int queue = 0) {
  using K = kernels::AttentionPrefill<Config<BM, BN, Dim>, bfloat16_t, kernels::SpanMask>;
  return {name, Dim, BM, BN, &lang::launch_chain<K, Params>, queue};
}

/// With the functor of a causal mask alone.
template <int BM, int BN, int Dim>
void launch_causal_alone(Stream& stream, const Grid& grid, const Params& given) {
  using Own = kernels::PrefillParams<kernels::CausalMask>;
  Own p{};
  static_assert(offsetof(Own, scale_log2) == offsetof(Params, scale_log2));
  std::memcpy(static_cast<void*>(&p), &given, offsetof(Own, scale_log2) + sizeof p.scale_log2);
  p.score.causal = given.score.causal;
  lang::launch_chain<kernels::AttentionPrefill<Config<BM, BN, Dim>, bfloat16_t, kernels::CausalMask>>(stream, grid, p);
}

}  // namespace

std::vector<Variant> attention_variants() {
  return {variant<128, 128, 128>("128 x 128"),
          variant<128, 128, 128>("128 x 128, in rounds", -1),
          {"128 x 128, causal mask alone", 128, 128, 128, &launch_causal_alone<128, 128, 128>, 0},
          variant<192, 128, 64>("192 x 128"),
          {"192 x 128, causal mask alone", 64, 192, 128, &launch_causal_alone<192, 128, 64>, 0},
          variant<128, 64, 256>("128 x 64"),
          {"128 x 64, causal mask alone", 256, 128, 64, &launch_causal_alone<128, 64, 256>, 0}};
}

}  // namespace proof
