#pragma once
// Penalties of tokens that were there before, and a bias of chosen tokens.

#include "monotile/kernels/sampling/filters.hpp"

namespace monotile::kernels {
using namespace lang;  // NOLINT: kernels are written in the language

/// What a row says of its penalties. The first `prompt` of `length` tokens were given, the others made.
struct RowPenalties {
  float repetition, presence, frequency;
  int32_t length, prompt;
  const int32_t* history;

  template <class Params>
  static MT_FN RowPenalties of(const Params& p, int64_t row) {
    const auto value = [=](const float* values, float otherwise) {
      return values == nullptr ? otherwise : values[row];
    };
    RowPenalties r{value(p.repetition, 1.0f), value(p.presence, 0.0f), value(p.frequency, 0.0f), 0, 0, nullptr};
    const int32_t most = p.history == nullptr ? 0 : static_cast<int32_t>(p.history_cols);
    const int32_t length = p.history_length == nullptr ? most : p.history_length[row];
    r.length = length < 0 ? 0 : length > most ? most : length;
    const int32_t prompt = p.prompt_length == nullptr ? 0 : p.prompt_length[row];
    r.prompt = prompt < 0 ? 0 : prompt > r.length ? r.length : prompt;
    r.history = p.history + row * p.history_stride;
    return r;
  }
  MT_FN bool any() const { return length > 0 && (repetition != 1.0f || presence != 0.0f || frequency != 0.0f); }
  /// The logit of a token that was made so often, or only given.
  MT_FN float penalised(float v, int32_t made) const {
    v = v > 0.0f ? v / repetition : v * repetition;
    return made > 0 ? fma_of(-frequency, static_cast<float>(made), v) - presence : v;
  }
};

/// Adds the biases of row `row` in columns [first, first + n), whose logits these are: the first entry of a token adds all of its entries, in order.
template <class X, class Ctx, class Params>
MT_FN void add_biases(Ctx& ctx, const Params& p, int64_t row, X* logits, int64_t first, int32_t n) {
  const int32_t* const bias_ids = p.bias_ids + row * p.bias_cols;
  const float* const bias = p.bias + row * p.bias_cols;
  const int32_t biased = static_cast<int32_t>(p.bias_cols);
  if (biased == 0) return;
  for_items(ctx, biased, [=](int32_t i) {
    const int64_t at = bias_ids[i] - first;
    if (at < 0 || at >= n) return;
    for (int32_t j = 0; j < i; ++j) {
      if (bias_ids[j] == bias_ids[i]) return;
    }
    float sum = 0.0f;
    for (int32_t j = i; j < biased; ++j) sum += bias_ids[j] == bias_ids[i] ? bias[j] : 0.0f;
    logits[at] = stored<X>(promote(logits[at]) + sum);
  });
}

/// Programs share a row, window by window: a window's counts lie in scratch, and only logits that change are touched.
template <class X>
struct Penalise {
  using Params = PenaltyParams<X>;

  template <class Ctx>
  static MT_FN void run(Ctx& ctx, const Params& p) {
    const int64_t row = program_of(ctx) / p.parts, part = program_of(ctx) % p.parts;
    const RowPenalties r = RowPenalties::of(p, row);
    int32_t *const made = scratch_at<int32_t>(ctx, 0), *const given = made + p.window;

    for (int64_t w = part * p.windows; w < (part + 1) * p.windows; ++w) {
      const int64_t first = w * p.window;
      const int32_t n = static_cast<int32_t>(p.cols - first < p.window ? p.cols - first : p.window);
      if (n <= 0) break;
      X* const logits = p.logits.row(row) + first;
      if (r.any()) {
        const auto in_window = [=](int32_t i) {
          const int64_t at = r.history[i] - first;
          return at >= 0 && at < n ? static_cast<int32_t>(at) : -1;
        };
        for_items(ctx, n, [=](int32_t c) { made[c] = given[c] = 0; });
        count_items(ctx, given, r.prompt, in_window);
        count_items(ctx, made, r.length - r.prompt, [=](int32_t i) { return in_window(r.prompt + i); });
        for_items(ctx, n, [=](int32_t c) {
          if (made[c] != 0 || given[c] != 0) logits[c] = stored<X>(r.penalised(promote(logits[c]), made[c]));
        });
      }
      add_biases(ctx, p, row, logits, first, n);
    }
  }
};

/// One program per row, for histories that fit in scratch: tokens fall into buckets, and only those that share one are compared with all others. Logits are
/// fetched once, when it is known which of a row's tokens speak for themselves and how often they were made.
template <class X>
struct PenaliseFew {
  using Params = PenaltyParams<X>;
  static constexpr int32_t kBuckets = 8192, kMostTokens = 2048;
  static constexpr int16_t kSilent = -1;

  template <class Ctx>
  static MT_FN void run(Ctx& ctx, const Params& p) {
    const int64_t row = program_of(ctx);
    const RowPenalties r = RowPenalties::of(p, row);
    X* const logits = p.logits.row(row);
    const int32_t cols = static_cast<int32_t>(p.cols), length = r.length;
    int32_t *const counts = scratch_at<int32_t>(ctx, 0), *const tokens = counts + kBuckets,
                   *const crowded = tokens + kMostTokens, *const crowded_tokens = crowded + kMostTokens;
    int16_t* const made = reinterpret_cast<int16_t*>(crowded_tokens + kMostTokens);
    if (length > 0) {  // asked for before it is known whether there is a penalty at all
      for_items(ctx, kBuckets, [=](int32_t b) { counts[b] = 0; });
      for_items(ctx, length, [=](int32_t i) {
        const int32_t token = r.history[i];
        tokens[i] = token < cols ? token : -1;
      });
    }
    if (r.any()) {
      const auto bucket = [=](int32_t i) {
        return tokens[i] < 0 ? -1 : static_cast<int32_t>(static_cast<uint32_t>(tokens[i]) % kBuckets);
      };
      count_items(ctx, counts, length, bucket);
      const auto shares = [=](int32_t i) {
        return tokens[i] >= 0 && counts[static_cast<uint32_t>(tokens[i]) % kBuckets] > 1;
      };
      for_items(ctx, length, [=](int32_t i) {
        made[i] = static_cast<int16_t>(tokens[i] < 0 ? kSilent : i >= r.prompt ? 1 : 0);
      });
      const int32_t shared_buckets = collect_items(ctx, length, shares, [=](int32_t slot, int32_t i) {
        crowded[slot] = i;
        crowded_tokens[slot] = tokens[i];
      });
      for_items(ctx, shared_buckets, [=](int32_t slot) {  // the first of a token speaks for all
        const int32_t i = crowded[slot], t = crowded_tokens[slot];
        int32_t times = 0, earlier = 0;
        for (int32_t other = 0; other < shared_buckets; ++other) {
          const int32_t j = crowded[other], same = crowded_tokens[other] == t ? 1 : 0;
          earlier += j < i ? same : 0;
          times += j >= r.prompt ? same : 0;
        }
        made[i] = static_cast<int16_t>(earlier == 0 ? times : kSilent);
      });
      for_items(ctx, length, [=](int32_t i) {
        if (made[i] != kSilent) logits[tokens[i]] = stored<X>(r.penalised(promote(logits[tokens[i]]), made[i]));
      });
    }
    add_biases(ctx, p, row, logits, 0, cols);
  }
};

}  // namespace monotile::kernels
