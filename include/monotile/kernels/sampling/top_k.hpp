#pragma once
// The k largest elements of each row, in order; or the logarithms of the probabilities of these and of given tokens.

#include "monotile/kernels/sampling/threshold.hpp"
#include "monotile/row_status.hpp"

namespace monotile::kernels {
using namespace lang;  // NOLINT: kernels are written in the language

/// One program per row; long rows on lanes are scanned in chunks before.
template <class X, class L>
struct TopK {
  using Params = TopKParams<X>;

  template <class Ctx>
  static MT_FN void run(Ctx& ctx, const Params& p) {
    const auto place = rows_of<L>(ctx, p.rows, p.cols);
    const int64_t row = uniform(row_index(place));
    const auto clean = [](auto v) { return select(is_nan(v), -kInfinity, v); };
    auto x = hold(ctx, place, [&](const auto& at) { return map(clean, load(ctx, p.logits, at)); });
    auto tokens = shortlist_of(ctx, x, 0, p.list_bytes);
    bool scanned = p.facts.chunks > 0;
    float largest = 0.0f;
    if (scanned) {
      const indexed top = largest_of_chunks(ctx, p.facts, row);
      largest = top.value;
      scanned = top.index >= 0;  // chunks with a NaN are of no use
      if (p.status != nullptr) store_row_value(ctx, p.status, place, scanned ? ops::row_ok : ops::row_has_nan);
      if (scanned && p.k > 0) list_largest<L, X>(ctx, tokens, p, row, largest, p.k);
    } else if (p.status != nullptr) {
      auto raw = hold(ctx, place, [&](const auto& at) { return load(ctx, p.logits, at); });
      const float nan = uniform(fold_at<Max>(ctx, raw, [](auto, auto v) { return select(is_nan(v), 1.0f, 0.0f); }));
      store_row_value(ctx, p.status, place, nan > 0.0f ? ops::row_has_nan : ops::row_ok);
    }
    if (!scanned) largest = uniform(fold_at<Max>(ctx, x, [](auto, auto v) { return v; }));
    float log_sum = 0.0f;
    if (p.log) {
      constexpr float kLog2e = 1.44269504f;
      float total = 0.0f;
      if (scanned) {
        total = total_of_chunks(ctx, p.facts, row, largest, kLog2e);
      } else {
        total = uniform(fold_at<Sum>(ctx, x, [=](auto, auto v) { return weight_of(v, largest, kLog2e); }));
      }
      log_sum = largest + fast_log(total);
    }
    const bool log = p.log;
    const auto judged = [=](float v) { return log && v != -kInfinity ? v - log_sum : v; };
    const int32_t given = p.given;
    if (given > 0) {
      const X* const logits = p.logits.row(row);
      const int32_t* const tokens_given = p.given_ids + row * given;
      float* const out = p.given_values + row * given;
      const int64_t cols = p.cols;
      for_items(ctx, given, [=](int32_t i) {
        const int32_t c = tokens_given[i];
        const float v = c >= 0 && c < cols ? promote(logits[c]) : -kInfinity;
        out[i] = judged(is_nan(v) ? -kInfinity : v);
      });
    }
    const int32_t k = p.k;
    if (k == 0) return;
    float* const values = p.values + row * k;
    int32_t* const ids = p.ids + row * k;
    const auto put = [=](int32_t rank, float v, int32_t c) {
      if (rank >= k) return;
      values[rank] = judged(v);
      ids[rank] = c;
    };
    if (scanned && tokens.listed && tokens.count <= 1024) {
      sort_pairs(ctx, tokens.values, tokens.columns, tokens.count, put);
      return;
    }
    KeptTokens kept{-kInfinity, INT32_MAX};
    if (k < p.cols)
      kept = smallest_prefix(ctx, tokens, kept, largest, {true, static_cast<float>(k), 0.0f, 0.0f, 4.0f, 0.0f});

    float* const found = scratch_at<float>(ctx, p.list_bytes);
    int32_t* const columns = reinterpret_cast<int32_t*>(found + k);
    collect_where(
        ctx, tokens, [=](auto c, auto v) { return kept.holds(c, v); },
        [=](int32_t slot, int32_t c, float v) {
          if (slot >= k) return;
          found[slot] = v;
          columns[slot] = c;
        });
    sort_pairs(ctx, found, columns, k, put);
  }
};

}  // namespace monotile::kernels
