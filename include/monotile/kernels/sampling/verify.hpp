#pragma once
// Speculative decoding: which drafted tokens stand, and the token after them.

#include "monotile/kernels/sampling/filters.hpp"
#include "monotile/random.hpp"

namespace monotile::kernels {
using namespace lang;  // NOLINT: kernels are written in the language

/// How many drafts stand: one program for all sequences. A draft x stands where u q(x) < p(x), u the draw of its position.
struct VerifyDrafts {
  using Params = VerifyParams;

  template <class Ctx>
  static MT_FN void run(Ctx& ctx, const Params& p) {
    for_items(ctx, static_cast<int32_t>(p.batch), [=](int32_t b) {
      const uint64_t seed = p.seeds == nullptr ? 0 : static_cast<uint64_t>(p.seeds[b]);
      const int64_t position = p.positions == nullptr ? 0 : p.positions[b];
      int32_t i = 0;
      bool all = true;
      for (; i < p.drafts; ++i) {
        const int32_t token = p.draft_tokens[b * p.drafts + i];
        if (token < 0 || token >= p.cols) break;  // no further drafts
        const float target = p.target.row(b * (p.drafts + 1) + i)[token];
        const float draft = p.draft.data == nullptr ? 1.0f : p.draft.row(b * p.drafts + i)[token];
        const float u = random::uniform(random::bits(seed, position + i, random::Purpose::accept, 0));
        if (!(u * draft < target)) {
          all = false;
          break;
        }
        p.tokens[b * (p.drafts + 1) + i] = token;
      }
      p.accepted[b] = i;
      p.rejected[b] = all ? 0 : 1;
      for (int32_t j = i; j <= p.drafts; ++j) p.tokens[b * (p.drafts + 1) + j] = -1;
    });
  }
};

/// The token after the last draft that stands, of the target's distribution or of what the draft left of it: one program per chunk of each
/// sequence's row. Exponential race: the largest weight / -ln(u) wins, in arithmetic that all machines share.
template <class L>
struct VerifyDraw {
  using Params = VerifyParams;

  template <class Ctx>
  static MT_FN void run(Ctx& ctx, const Params& p) {
    const auto at = chunks_of<L>(ctx, p.batch, p.cols, p.chunks);
    const int64_t b = uniform(row_index(at));
    const int32_t i = p.accepted[b];
    const bool rejected = p.rejected[b] != 0;
    const uint64_t seed = p.seeds == nullptr ? 0 : static_cast<uint64_t>(p.seeds[b]);
    const int64_t position = (p.positions == nullptr ? 0 : p.positions[b]) + i;
    const random::Purpose purpose = rejected ? random::Purpose::residual : random::Purpose::sample;
    const bool subtract = rejected && p.draft.data != nullptr;
    const int32_t gone = rejected && !subtract ? p.draft_tokens[b * p.drafts + i] : -1;  // the draft was sure of it
    const float share = subtract ? 1.0f : 0.0f;
    const auto target_row = at_rows(at, b * (p.drafts + 1) + i),
               draft_row = at_rows(at, subtract ? b * p.drafts + i : b * (p.drafts + 1) + i);
    const auto draft = subtract ? p.draft : p.target;
    auto left = hold(ctx, at, [&](const auto&) {
      return map_at(
          at, [=](auto c, auto t, auto d) { return max_of(select(c == gone, 0.0f, t - d * share), 0.0f); },
          load(ctx, p.target, target_row), load(ctx, draft, draft_row));
    });
    const auto best = uniform(fold_where<ArgMax>(
        ctx, left, indexed{0.0f, INT32_MAX}, [](auto, auto v) { return v > 0.0f; },
        [](auto, auto v, indexed) { return v > 0.0f; },
        [=](int32_t c, float v) {
          const float e = static_cast<float>(random::exponential_q58(
                              random::bits(seed, position, purpose, static_cast<uint32_t>(c)))) *
                          0x1p-58f;
          return indexed{v / e, c};
        }));
    const auto here = at_rows(at, b * p.chunks + chunk_number(at));
    store_row_value(ctx, p.scores, here, best.value);
    store_row_value(ctx, p.winners, here, best.index);
  }
};

/// The winner of the chunks. Nothing left (the draft took all of the target): the rejected draft itself, which only rounding can bring about.
struct VerifyFinish {
  using Params = VerifyParams;

  template <class Ctx>
  static MT_FN void run(Ctx& ctx, const Params& p) {
    for_items(ctx, static_cast<int32_t>(p.batch), [=](int32_t b) {
      indexed best{0.0f, INT32_MAX};
      for (int32_t c = 0; c < p.chunks; ++c)
        best = ArgMax::combine(best, indexed{p.scores[b * p.chunks + c], p.winners[b * p.chunks + c]});
      const int32_t i = p.accepted[b];
      const bool found = best.index != INT32_MAX;
      const int32_t token = found ? best.index : p.rejected[b] != 0 ? p.draft_tokens[b * p.drafts + i] : 0;
      p.tokens[b * (p.drafts + 1) + i] = token;
      if (p.status != nullptr) p.status[b] = found || p.rejected[b] != 0 ? 0 : p.no_valid_token;
    });
  }
};

}  // namespace monotile::kernels
