#pragma once
// Attention of one query per sequence: a split of the keys as a tile, and how the splits of a query are joined.

#include "monotile/kernels/attention/attention_prefill.hpp"

namespace monotile::kernels {
using namespace lang;  // NOLINT: kernels are written in the language

struct DecodeTile : PrefillTile {
  int split;
  int first_split, splits;  ///< that the sequence has; none if there is no query
};

/// Joins the splits of a tile in their order, a lane group to each head. For the program that comes after all of them.
template <class T, class L, class Ctx, class Score>
MT_FN void join_splits(Ctx& ctx, const DecodeParams<Score>& p, const DecodeTile& t) {
  constexpr int kAtOnce = 16;                            // splits that are on their way together
  constexpr int kCols = L::lanes_per_row * L::elements;  // of their sums, a constant: less code, which is run once
  constexpr float kLog2e = 1.44269504f, kLn2 = 0.693147181f;
  const int heads = p.q.box_x, first_head = t.group * heads;
  const int64_t first_split =
      (static_cast<int64_t>(t.first_token) * p.q.extent_z * heads + first_head) * p.splits + t.first_split;
  view<T> out;
  out.data = static_cast<T*>(p.out.data) + p.out.offset(0, t.first_token, t.group);
  out.outer_stride = p.out.stride_x;
  out.cols = p.out.cols;
  out.vectors = p.out.vectors;
  view<float> lse;
  lse.data = p.log_sum_exp + t.first_token * p.lse_token_stride + first_head * p.lse_head_stride;
  lse.outer_stride = p.lse_head_stride;

  const auto power = [](auto m, auto most) { return m == -kInfinity ? 0.0f : fast_exp2(m - most); };
  const auto larger = [](auto a, auto b) { return b > a ? b : a; };
  const auto rows = local_rows<L>(ctx, p.out.cols);
  const auto step = static_cast<int>(tile_rows(ctx, rows));
  MT_NO_UNROLL
  for (int base = 0; base < heads; base += step) {
    const auto head = map([=](auto r) { return r + base < heads ? r + base : -1; }, row_index(rows));
    const auto at = at_rows(rows, head);
    auto acc = zeros(ctx, at);
    auto highest = row_fill(at, -kInfinity), total = row_fill(at, 0.0f);
    MT_NO_UNROLL
    for (int first = 0; first < t.splits; first += kAtOnce) {
      const float* const sums = static_cast<const float*>(p.partial.data) + (first_split + first) * kCols;
      const float* const statistics = p.statistics + 2 * (first_split + first);
      decltype(zeros(ctx, at)) here[kAtOnce];
      decltype(row_fill(at, 0.0f)) most[kAtOnce], weights[kAtOnce];
      MT_UNROLL
      for (int i = 0; i < kAtOnce; ++i)
        here[i] = load_sums(ctx, sums + i * kCols, int64_t{p.splits} * kCols, at, first + i < t.splits);
      MT_UNROLL
      for (int i = 0; i < kAtOnce; ++i) {
        const auto found = [=, there = first + i < t.splits, room = int64_t{p.splits}](auto h, int which, float none) {
          return there && h >= 0 ? statistics[2 * (h * room) + 2 * i + which] : none;
        };
        most[i] = map([=](auto h) { return found(h, 0, -kInfinity); }, head);
        weights[i] = map([=](auto h) { return found(h, 1, 0.0f); }, head);
      }
      auto above = highest;
      MT_UNROLL
      for (int i = 0; i < kAtOnce; ++i) above = map(larger, above, most[i]);
      const auto rescale = map(power, highest, above);
      highest = above;
      total = map([](auto a, auto r) { return a * r; }, total, rescale);
      assign(ctx, at, acc, map([](auto a, auto r) { return a * r; }, acc, rescale));
      MT_UNROLL
      for (int i = 0; i < kAtOnce; ++i) {
        const auto share = map(power, most[i], above);
        total = map([](auto a, auto w, auto s) { return a + w * s; }, total, weights[i], share);
        assign(ctx, at, acc, map([](auto a, auto x, auto s) { return a + x * s; }, acc, here[i], share));
      }
    }
    const float* const sinks = p.sinks;
    const auto sink =
        map([=](auto h) { return sinks == nullptr || h < 0 ? -kInfinity : sinks[first_head + h] * kLog2e; }, head);
    const auto most = map(larger, highest, sink), share = map(power, highest, most);
    const auto sum = map([=](auto a, auto s, auto k, auto m) { return a * s + power(k, m); }, total, share, sink, most);
    const auto factor = map([](auto s, auto a) { return a == 0.0f ? 0.0f : fast_divide(s, a); }, share, sum);
    store_joined(ctx, out, at, map([](auto a, auto f) { return a * f; }, acc, factor));
    if (p.log_sum_exp == nullptr) continue;
    store_row_value(ctx, lse, at,
                    map([](auto m, auto s) { return s == 0.0f ? -kInfinity : m * kLn2 + fast_log(s); }, most, sum));
  }
}

}  // namespace monotile::kernels
