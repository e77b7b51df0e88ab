#pragma once
// Attention with a mask or a change of scores of your own: a struct that derives from EveryKey (scores.hpp), compiled in
// your own file, for the target that the file is compiled for. examples/dilated_attention.cpp shows one.

#include <type_traits>

#include "monotile/kernels/attention/attention_prefill.hpp"
#include "ops/attention/tile_params.hpp"
#include "ops/check.hpp"

namespace monotile::kernels {

/// Does code of this file's target run on `device`?
inline bool compiled_for(const DeviceInfo& device) {
  const Target path = target_of(device);
  return device.device.kind == DeviceKind::cpu ? kTarget <= path : kTarget == path;
}

/// out = softmax(score(scale q k^T)) v, where `score` says what is seen and how scores change.
///
/// Arguments as for ops::attention, prefill or decode, dense or paged, but masks and changes of scores are those of
/// `score`: causal and window count for nothing; softcap, prefix_length, key_ranges, alibi_slopes, relative_bias and
/// tree_mask are refused. T: half_t or bfloat16_t, the dtype of q, out and both caches; on CPU, where dtypes are known at
/// run time, it counts for nothing. Dim: 64, 128 or 256, the largest head dimension. `score` is copied; what it points to
/// belongs to the device. Throws Error; allocates nothing but on first use of a device, waits for nothing.
template <class T, int Dim, class Score>
void attention_with(monotile::Context& context, const ops::AttentionArgs& args, const Score& score) {
  using namespace ops;  // NOLINT
  namespace fill = ops::attention_params;
  static_assert(Dim == 64 || Dim == 128 || Dim == 256);
  static_assert(kHasChains, "no matrix tiles on this target");
  constexpr const char* op = "attention_with";
  (void)plan(context.device(), args, TierPolicy{});  // checks every argument
  const DeviceInfo& device = device_info(context.device());
  if (!compiled_for(device))
    check::fail(op, "context", std::string("a device of ") + to_string(target_of(device)), to_string(kTarget));
  const auto refuse = [](const char* argument, bool given) {
    if (given) check::fail(op, argument, "given", "what is seen and how scores change is the functor's");
  };
  refuse("softcap", args.softcap != 0.0f);
  refuse("prefix_length", args.prefix_length.defined());
  refuse("key_ranges", args.key_ranges.defined());
  refuse("alibi_slopes", args.alibi_slopes.defined());
  refuse("relative_bias", args.relative_bias.defined());
  refuse("tree_mask", args.tree_mask.defined());
  if (fill::scale_of(args) <= 0.0f && !Score::changes_scores)
    check::fail(op, "scale", std::to_string(args.scale), "above 0 where the functor changes no scores");
  if (const char* why = fill::sizes_refused(args)) check::fail(op, "q", "sizes", why);
  if (kHasLanes) {
    check::dtype(op, "q", args.q, {dtype_of<T>});
    check::dtype(op, "key_cache", args.key_cache, {dtype_of<T>});
    if (args.q.dim(2) > Dim || args.out.dim(2) > Dim)
      check::fail(op, "q",
                  "head dimensions " + std::to_string(args.q.dim(2)) + " and " + std::to_string(args.out.dim(2)),
                  "up to " + std::to_string(Dim));
  }
  if (args.out.size() == 0 || args.kv_length.dim(0) == 0) return;

  constexpr uint32_t kDims = prefill::dims_of(kHasLanes ? Dim : 64);
  constexpr uint32_t kScores = Score::changes_scores ? prefill::kScored : prefill::kMasks;
  const auto run = [&](auto config) {
    using Cfg = decltype(config);
    const int64_t heads = fill::heads_per_tile(args, Cfg::bm, kHasLanes), tokens = Cfg::bm / heads;
    auto p = fill::prefill_params<Score>(args, heads, tokens, Cfg::bn);
    p.score = score;
    using Stored = std::conditional_t<kHasLanes, T, codes_t>;
    launch_chain<AttentionPrefill<Cfg, T, Score, Stored>>(context.stream(), Grid{device.units, 0}, p);
  };
  if constexpr (kHasWarpgroups && Dim <= 128) {  // what suits the copy engine
    using Cfg = prefill::config_at<prefill::kOverlapped, kDims, kScores>;
    if (fill::suits_copy_engine(args, Cfg::bn)) return run(Cfg{});
  }
  if constexpr (!kHasLanes) return run(prefill::config_at<prefill::kPlain, kDims, kScores>{});
  if constexpr (kHasMfma) return run(prefill::config_at<prefill::kStaged, kDims, kScores>{});
  if constexpr (kHasRing) return run(prefill::config_at<prefill::kRing, kDims, kScores>{});
}

}  // namespace monotile::kernels
