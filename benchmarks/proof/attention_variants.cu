// Loops of prefill attention beside each other: the same kernel with other numbers. `Loop` is chain_config's variant.
#define MONOTILE_TARGET_CUDA
#define MONOTILE_TARGET_NAME cuda_sm90

#include "attention_variants.cuh"

#include <cstddef>
#include <cstring>

#include "monotile/kernels/attention/attention_codes.hpp"
#include "monotile/kernels/attention/attention_prefill.hpp"

namespace proof {
namespace {

using namespace monotile;  // NOLINT
using Params = kernels::PrefillParams<kernels::RangeMask>;

template <int BM, int BN, int Dim, int Loop>
using Config = lang::chain_config<lang::schedule::pingpong, BM, BN, Dim, Dim, 2, 32, 1, 1, Loop>;

/// `queue`: the slot of its counts, where programs take tiles by tickets; -1: each has its own by number.
template <int BM, int BN, int Dim, int Loop>
Variant variant(const char* name, int queue = 0) {
  using K = kernels::AttentionPrefill<Config<BM, BN, Dim, Loop>, bfloat16_t, kernels::RangeMask>;
  return {name, Dim, BM, BN, &lang::launch_chain<K, Params>, queue};
}

/// The least that a mask can be: what code and look-ups for any mask cost is what this one saves.
struct CausalAlone : kernels::EveryKey {
  bool causal;
  MT_FN int end(int query, int length) const { return !causal ? length : query < 0 ? 0 : query + 1; }
  MT_FN kernels::KeySpan keys(int, int, int last, int length) const { return {0, end(last, length)}; }
  MT_FN kernels::Seen block(const kernels::ScoreBlock& b) const {
    return !causal || b.last_key <= b.first_query ? kernels::Seen::all
           : b.first_key > b.last_query           ? kernels::Seen::none
                                                  : kernels::Seen::some;
  }
  MT_FN bool one_span() const { return true; }
  MT_FN kernels::KeySpan span(const kernels::QueryAt& q, int length) const { return {0, end(q.position, length)}; }
  MT_FN bool sees(const kernels::QueryAt& q, int key) const { return key < end(q.position, q.length); }
};
template <int BM, int BN, int Dim, int Loop>
void launch_causal_alone(Stream& stream, const Grid& grid, const Params& given) {
  using Own = kernels::PrefillParams<CausalAlone>;
  Own p{};
  static_assert(offsetof(Own, scale_log2) == offsetof(Params, scale_log2));
  std::memcpy(static_cast<void*>(&p), &given, offsetof(Own, scale_log2) + sizeof p.scale_log2);
  p.score.causal = given.score.causal;
  lang::launch_chain<kernels::AttentionPrefill<Config<BM, BN, Dim, Loop>, bfloat16_t, CausalAlone>>(stream, grid, p);
}

}  // namespace

std::vector<Variant> attention_variants() {
  return {variant<128, 128, 128, 0>("128 x 128"),
          variant<128, 128, 128, 0>("128 x 128, tiles in rounds", -1),
          variant<128, 128, 128, 2>("128 x 128, tiles planned, in rounds", -1),
          variant<128, 128, 128, 4>("128 x 128, results later"),
          variant<128, 128, 128, 8>("128 x 128, queries brought near"),
          variant<128, 128, 128, 12>("128 x 128, results later, queries brought near"),
          {"128 x 128, causal mask alone", 128, 128, 128, &launch_causal_alone<128, 128, 128, 0>, 0},
          variant<192, 128, 64, 0>("192 x 128"),
          variant<192, 128, 64, 0>("192 x 128, tiles in rounds", -1),
          variant<192, 128, 64, 8>("192 x 128, queries brought near"),
          variant<192, 128, 64, 1>("192 x 128, without turns"),
          variant<128, 64, 256, 0>("128 x 64"),
          variant<128, 64, 256, 0>("128 x 64, tiles in rounds", -1),
          variant<128, 64, 256, 8>("128 x 64, queries brought near")};
}

template <int Loop>
CodesVariant of_codes(const char* name) {
  using Cfg = lang::chain_config<lang::schedule::turned, 128, 128, 128, 128, 2, 32, 1, 1, Loop>;
  using K = kernels::AttentionCodes<Cfg, e4m3_t, bfloat16_t>;
  return {name, 128, 128, &lang::launch_chain<K, kernels::CodedParams<kernels::RangeMask>>};
}
std::vector<CodesVariant> codes_variants() {
  return {of_codes<0>("codes in turns"), of_codes<1>("codes without turns")};
}

}  // namespace proof
