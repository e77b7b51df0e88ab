#pragma once
// One token per row: temperature, top-k, top-p, min-p, then Gumbel-max over what is kept. Nothing is sorted: a filter keeps a prefix of the
// order (logit descending, index ascending), which a threshold and the last index among its ties describe; the threshold is searched for.

#include "monotile/kernels/sampling/filters.hpp"
#include "monotile/kernels/sampling/threshold.hpp"
#include "monotile/random.hpp"
#include "monotile/row_status.hpp"

namespace monotile::kernels {
using namespace lang;  // NOLINT: kernels are written in the language

/// The winner among the tokens of `kept` in `x` and the row's largest logit `top`, with its score.
template <class Ctx, class Row, class Place, class Params>
MT_FN indexed draw_among(Ctx& ctx, Row& x, const Place& row, const Params& p, const KeptTokens& kept, indexed top,
                         float temperature) {
  const float largest = top.value, inverse = 1.0f / temperature;
  const uint64_t seed = static_cast<uint64_t>(row_parameter(ctx, p.seeds, row, int64_t{0}));
  const int64_t position = row_parameter(ctx, p.positions, row, int64_t{0});
  constexpr random::Purpose kPurpose = random::Purpose::sample;
  const auto score = [=](int32_t token, float logit) {
    return indexed{random::gumbel_score(logit, largest, inverse,
                                        random::bits(seed, position, kPurpose, static_cast<uint32_t>(token))),
                   token};
  };
  // The largest logit's own score is where all start from. No variate exceeds 23, so most others need no draw at all. Of the drawn ones few
  // need the logarithms: a variate of g or more takes 1 - u <= e^-g. The margins are far above all rounding.
  const indexed start = score(top.index, largest);
  const float enough = start.value * 0x1p-24f - 23.0f;
  return uniform(fold_where<ArgMax>(
      ctx, x, start,
      [=](auto c, auto v) { return kept.holds(c, v) & (((v - largest) * inverse >= enough) | (v == largest)); },
      [=](auto c, auto v, indexed so_far) {
        const auto distance = max_of((v - largest) * inverse, -40.0f);
        return (random_tail(seed, position, kPurpose, c) <= fast_exp(distance + (0.001f - so_far.value * 0x1p-24f))) |
               (v == largest);
      },
      score));
}

/// One program per row; long rows on lanes are scanned in chunks before.
template <class X, class L>
struct Sample {
  using Params = SampleParams<X>;
  static constexpr int32_t kFew = 1024;

  /// The smallest logit whose probability is at least min_p times that of the largest.
  static MT_FN float min_p_threshold(float largest, float temperature, float min_p) {
    const float distance = temperature * fast_log(min_p);
    if (!(distance <= 0.0f)) return -kInfinity;  // 0 times infinity: all are equally likely
    float threshold = largest + distance;
    if (!(threshold - largest >= distance)) threshold = at_order(order_of(threshold) + 1);
    return threshold;
  }

  /// The winner among few listed tokens: each is compared with all others, instead of a threshold being searched for. `least`: what min-p asks for;
  /// `mass`: what top-p asks for, where top-k is off.
  template <class Ctx, class List, class Place>
  static MT_FN int32_t draw_of_few(Ctx& ctx, const List& x, const Place& row, const Params& p, const RowFilters& f,
                                   indexed top, float least, float mass) {
    constexpr float kLog2e = 1.44269504f;
    const float largest = top.value, inverse = 1.0f / f.temperature, factor = inverse * kLog2e;
    const int32_t count = x.count, most = f.top_k > 0 ? f.top_k : count;
    const float* const values = x.values;
    const int32_t* const columns = x.columns;
    float *const weights = x.values + kFew, *const before =
                                                weights + kFew;  // the list of a scanned row has room for far more
    int32_t* const ranks = x.columns + kFew;
    for_items(ctx, count, [=](int32_t i) { weights[i] = weight_of(values[i], largest, factor); });
    for_items(ctx, count, [=](int32_t i) {
      const float v = values[i];
      const int32_t c = columns[i];
      int32_t rank = 0;
      float sum = 0.0f;
      for (int32_t j = 0; j < count; ++j) {
        const bool earlier = values[j] > v || ((values[j] == v) & (columns[j] < c));
        rank += earlier ? 1 : 0;
        sum += earlier ? weights[j] : 0.0f;
      }
      ranks[i] = rank;
      before[i] = sum;
    });
    const bool by_mass = f.by_mass;
    if (by_mass && f.top_k > 0) {
      mass = f.top_p * fold_items<Sum>(ctx, count, [=](int32_t i) { return ranks[i] < most ? weights[i] : 0.0f; });
    }
    const bool one = f.min_p > 1.0f;
    const uint64_t seed = static_cast<uint64_t>(row_parameter(ctx, p.seeds, row, int64_t{0}));
    const int64_t position = row_parameter(ctx, p.positions, row, int64_t{0});
    return fold_items<ArgMax>(ctx, count,
                              [=](int32_t i) {
                                const float v = values[i];
                                const bool kept = ranks[i] < (one ? 1 : most) &&
                                                  (!by_mass || one || before[i] < mass) && v >= least && v > -kInfinity;
                                const uint32_t token = static_cast<uint32_t>(columns[i]);
                                return kept ? indexed{random::gumbel_score(
                                                          v, largest, inverse,
                                                          random::bits(seed, position, random::Purpose::sample, token)),
                                                      columns[i]}
                                            : ArgMax::identity(indexed{});
                              })
        .index;
  }

  template <class Ctx, class List, class Place>
  static MT_FN int32_t draw(Ctx& ctx, List& x, const Place& row, const Params& p, const RowFilters& f, indexed top) {
    constexpr float kLog2e = 1.44269504f;
    const float largest = top.value, factor = 1.0f / f.temperature * kLog2e;
    const int64_t number = uniform(row_index(row));
    const bool scanned = p.facts.chunks > 0;
    if (scanned && f.none()) {  // the chunks have drawn
      const int64_t first = number * p.facts.chunks;
      const ChunkFacts& facts = p.facts;
      return fold_items<ArgMax>(ctx, facts.chunks,
                                [=](int32_t i) {
                                  return indexed{facts.mass[first + i], facts.drawn[first + i]};
                                })
          .index;
    }
    // The list holds all of the row from here on.
    const int32_t wanted = f.top_k > 0 && f.top_k < p.most_wanted ? f.top_k : p.most_wanted;
    const float from = scanned ? list_largest<L, X>(ctx, x, p, number, largest, wanted) : kInfinity;
    float total = 0.0f;
    if (f.by_mass && f.top_k == 0 && scanned) {
      total = total_of_chunks(ctx, p.facts, number, largest, factor);
      if (x.listed) {
        const float listed = fold_at<Sum>(ctx, x, [=](auto, auto v) { return weight_of(v, largest, factor); });
        x.listed = listed >= f.top_p * total;
      }
    }
    if (f.top_k > p.most_wanted) x.listed = false;
    if (x.listed && x.count <= kFew) {
      const float least =
          f.min_p > 0.0f && f.min_p <= 1.0f ? min_p_threshold(largest, f.temperature, f.min_p) : -kInfinity;
      if (f.top_k != 0 || f.by_mass || least >= from)
        return draw_of_few(ctx, x, row, p, f, top, least, f.top_p * total);
    }

    KeptTokens kept{-kInfinity, -1};
    for (int filter = 0; filter < 2; ++filter) {  // one loop: the search is large, and is compiled once
      const bool by_count = filter == 0;
      if (by_count ? f.top_k == 0 : !f.by_mass) continue;
      const PrefixGoal goal{by_count,
                            static_cast<float>(f.top_k),
                            f.top_p,
                            factor,
                            by_count ? 4.0f : f.temperature * 4.0f,
                            by_count ? 0.0f : total};
      kept = smallest_prefix(ctx, x, kept, largest, goal);
    }
    if (f.min_p > 1.0f) kept = {largest, top.index};
    if (f.min_p > 0.0f && f.min_p <= 1.0f) {
      const float threshold = min_p_threshold(largest, f.temperature, f.min_p);
      if (threshold > kept.threshold) kept = {threshold, INT32_MAX};
    }
    if (f.top_k == 0 && !f.by_mass && kept.threshold < from) x.listed = false;
    return draw_among(ctx, x, row, p, kept, top, f.temperature).index;
  }

  template <class Ctx>
  static MT_FN void run(Ctx& ctx, const Params& p) {
    const auto row = rows_of<L>(ctx, p.rows, p.cols);
    auto x = hold(ctx, row, [&](const auto& at) { return load(ctx, p.logits, at); });
    indexed top{};
    if (p.facts.chunks > 0) {
      top = largest_of_chunks(ctx, p.facts, uniform(row_index(row)));
    } else {
      top = uniform(largest_or_nan(ctx, x));
    }
    const ops::RowStatus status = top.index < 0             ? ops::row_has_nan
                                  : top.value == -kInfinity ? ops::row_no_valid_token
                                                            : ops::row_ok;
    int32_t id = 0;
    if (status == ops::row_ok) {
      const RowFilters f = RowFilters::of(ctx, p, row);
      auto tokens = shortlist_of(ctx, x, 0, p.list_bytes);
      id = f.greedy ? top.index : draw(ctx, tokens, row, p, f, top);
    }
    store_row_value(ctx, p.ids, row, id);
    if (p.status != nullptr) store_row_value(ctx, p.status, row, status);
  }
};

/// Rows of which every token may be drawn: one program per chunk finds its winner.
template <class X, class L>
struct SampleChunk {
  using Params = SampleParams<X>;

  template <class Ctx>
  static MT_FN void run(Ctx& ctx, const Params& p) {
    const auto at = chunks_of<L>(ctx, p.rows, p.cols, p.facts.chunks);
    const RowFilters f = RowFilters::of(ctx, p, at);
    if (f.greedy || !f.none()) return;
    const int64_t row = uniform(row_index(at));
    const indexed top = largest_of_chunks(ctx, p.facts, row);
    if (top.index < 0 || top.value == -kInfinity) return;
    auto x = hold(ctx, at, [&](const auto& c) { return load(ctx, p.logits, c); });
    const indexed best = draw_among(ctx, x, at, p, KeptTokens{-kInfinity, -1}, top, f.temperature);
    const auto here = at_rows(at, row * p.facts.chunks + chunk_number(at));
    store_row_value(ctx, p.facts.mass, here, best.value);
    store_row_value(ctx, p.facts.drawn, here, best.index);
  }
};

}  // namespace monotile::kernels
