#pragma once
// Penalties of tokens that were there before, and a bias of chosen tokens.

#include "monotile/kernels/sampling/filters.hpp"

namespace monotile::kernels {
using namespace lang;  // NOLINT: kernels are written in the language

/// Programs share a row, window by window: a window's counts lie in scratch, and only logits that change are touched.
template <class X>
struct Penalise {
  using Params = PenaltyParams<X>;

  template <class Ctx>
  static MT_FN void run(Ctx& ctx, const Params& p) {
    const int64_t row = program_of(ctx) / p.parts, part = program_of(ctx) % p.parts;
    const auto value = [=](const float* values, float otherwise) {
      return values == nullptr ? otherwise : values[row];
    };
    const float repetition = value(p.repetition, 1.0f), presence = value(p.presence, 0.0f),
                frequency = value(p.frequency, 0.0f);
    const int32_t most = p.history == nullptr ? 0 : static_cast<int32_t>(p.history_cols);
    int32_t length = p.history_length == nullptr ? most : p.history_length[row];
    length = length < 0 ? 0 : length > most ? most : length;
    int32_t prompt = p.prompt_length == nullptr ? 0 : p.prompt_length[row];
    prompt = prompt < 0 ? 0 : prompt > length ? length : prompt;
    const int32_t* const history = p.history + row * p.history_stride;
    const int32_t* const bias_ids = p.bias_ids + row * p.bias_cols;
    const float* const bias = p.bias + row * p.bias_cols;
    const int32_t biased = static_cast<int32_t>(p.bias_cols);
    const bool penalised = repetition != 1.0f || presence != 0.0f || frequency != 0.0f;
    int32_t *const made = scratch_at<int32_t>(ctx, 0), *const given = made + p.window;

    for (int64_t w = part * p.windows; w < (part + 1) * p.windows; ++w) {
      const int64_t first = w * p.window;
      const int32_t n = static_cast<int32_t>(p.cols - first < p.window ? p.cols - first : p.window);
      if (n <= 0) break;
      X* const logits = p.logits.row(row) + first;
      if (penalised && length > 0) {
        const auto in_window = [=](int32_t i) {
          const int64_t at = history[i] - first;
          return at >= 0 && at < n ? static_cast<int32_t>(at) : -1;
        };
        for_items(ctx, n, [=](int32_t c) { made[c] = given[c] = 0; });
        count_items(ctx, given, prompt, in_window);
        count_items(ctx, made, length - prompt, [=](int32_t i) { return in_window(prompt + i); });
        for_items(ctx, n, [=](int32_t c) {
          if (made[c] == 0 && given[c] == 0) return;
          float v = promote(logits[c]);
          v = v > 0.0f ? v / repetition : v * repetition;
          if (made[c] > 0) v = v - frequency * static_cast<float>(made[c]) - presence;
          logits[c] = stored<X>(v);
        });
      }
      if (biased > 0) {
        for_items(ctx, biased, [=](int32_t i) {  // the first entry of a token adds all of its entries, in order
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
    }
  }
};

}  // namespace monotile::kernels
