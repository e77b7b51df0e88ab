#pragma once
// Attention by online softmax, for prefill and decode, against dense or paged keys and values.

#include "monotile/kernels/attention/params.hpp"
#include "monotile/lang/lang.hpp"

namespace monotile::kernels {
using namespace lang;  // NOLINT: kernels are written in the language

/// The piece of work of one program: `Rows` query rows (token and head of one kv head) against a range of keys.
struct AttentionWork {
  int64_t sequence, kv_head, first_row, query_rows, query_tokens, first_token, length, split;
  int64_t first_key_row;  ///< dense caches: the row of key 0
};

template <class P>
MT_FN AttentionWork attention_work(const P& p, int64_t program, int rows) {
  AttentionWork w;
  const int64_t tile = program % p.tiles, rest = program / p.tiles;
  w.split = rest % p.splits;
  w.kv_head = rest / p.splits % p.kv_heads;
  w.sequence = rest / p.splits / p.kv_heads;
  w.first_token = clamped(p, w.sequence, p.q_start[w.sequence], 0, p.tokens);
  w.query_tokens = clamped(p, w.sequence, p.q_start[w.sequence + 1], w.first_token, p.tokens) - w.first_token;
  w.query_rows = w.query_tokens * p.group;
  w.first_row = tile * rows;
  w.first_key_row = p.block_table == nullptr ? clamped(p, w.sequence, p.kv_start[w.sequence], 0, p.dense_rows) : 0;
  const int64_t room = p.block_table == nullptr ? p.dense_rows - w.first_key_row : p.max_kv_length;
  w.length = clamped(p, w.sequence, p.kv_length[w.sequence], 0, room < p.max_kv_length ? room : p.max_kv_length);
  return w;
}

/// Keys that query `row` may see: [first, last).
struct KeyRange {
  int64_t first, last;
};
template <class P>
MT_FN KeyRange visible_keys(const P& p, const AttentionWork& w, int64_t row) {
  const int64_t position = row / p.group + (w.length - w.query_tokens);
  int64_t last = p.causal ? position + 1 : w.length;
  last = last < 0 ? 0 : last;
  const int64_t first = p.window > 0 && last > p.window ? last - p.window : 0;
  return {first, last};
}

/// The row of q and out for row `row` of a program's kv head.
template <class P>
MT_FN int64_t query_row(const P& p, const AttentionWork& w, int64_t row) {
  return (w.first_token + row / p.group) * (static_cast<int64_t>(p.kv_heads) * p.group) + w.kv_head * p.group + row % p.group;
}

/// The row of the cache that holds `key`, -1 outside [first, end): those slots may hold anything, NaN included, and are never read. Bad table
/// entries are clamped and reported.
template <class P>
MT_FN int64_t cache_row(const P& p, const AttentionWork& w, int64_t key, int64_t first, int64_t end) {
  if (key < first || key >= end) return -1;
  if (p.block_table == nullptr) return w.first_key_row + key;
  const int64_t page_index = key / p.page_size;
  const int64_t page = clamped(p, w.sequence, p.block_table[w.sequence * p.table_stride + page_index], 0, p.pages - 1);
  return page * p.page_size + key % p.page_size;
}

/// The rows of a kv head, and those that a place says, as fp32.
template <class KV>
MT_FN view<KV> rows_of_head(view<KV> rows, int64_t offset, int64_t /*of scales*/) {
  rows.data += offset;
  return rows;
}
MT_FN CodeRows rows_of_head(CodeRows rows, int64_t offset, int64_t of_scales) {
  rows.codes.data = static_cast<unsigned char*>(rows.codes.data) + offset;
  rows.scales.data += of_scales;
  return rows;
}
template <class Ctx, class KV, class At>
MT_FN auto load_cache(Ctx& ctx, const view<KV>& rows, const At& at) {
  return load(ctx, rows, at);
}
template <class Ctx, class At>
MT_FN auto load_cache(Ctx& ctx, const CodeRows& rows, const At& at) {
  const auto scale = load_row_value(ctx, rows.scales, at);
  return eval(ctx, at, map([](auto code, auto s) { return code * s; }, load_codes(ctx, rows.codes, at), scale));
}

/// What rows see and how their scores change, in units of log2: causal and window masks and the soft-cap, by the parameters alone.
/// The other masks and scores: `FunctorScores` (attention_scored.hpp).
struct PlainScores {
  template <class T, class KV>
  using Params = AttentionParams<T, KV>;

  template <class P>
  static MT_FN float query_scale(const P& p) {
    return p.scale_log2;
  }
  /// Keys that any row of [first_row, last_row) may see.
  template <class P>
  static MT_FN KeyRange keys(const P& p, const AttentionWork& w, int64_t first_row, int64_t last_row) {
    return {visible_keys(p, w, first_row).first, visible_keys(p, w, last_row - 1).last};
  }
  /// Before the keys, once for each row (which may lie behind the last one): what becomes, at each step, what `sees` and `score` are given.
  /// Here the row's number: its range is worked out at each step, which holds fewer registers.
  template <class P>
  static MT_FN int64_t look_up(const P&, const AttentionWork&, int64_t row) {
    return row;
  }
  template <class P>
  static MT_FN KeyRange row(const P& p, const AttentionWork& w, int64_t row) {
    return visible_keys(p, w, row);
  }
  template <class P>
  static MT_FN bool sees(const P&, const KeyRange& range, int64_t key) {
    return key >= range.first && key < range.last;
  }
  template <class P>
  static MT_FN float score(const P& p, float s, const KeyRange&, int64_t /*key*/) {
    return p.softcap > 0.0f ? p.softcap * fast_tanh(s * p.softcap_inverse) : s;
  }
  /// Sinks: none.
  template <class Ctx, class P, class At, class Tile, class Value>
  static MT_FN void add_sink(Ctx&, const P&, const At&, int64_t /*row*/, Tile&, Value& /*most*/, Value& /*sum*/) {}
};

/// `Rows` query rows per program share every key and value that is loaded; each lane group walks its own keys with its own running maximum,
/// and the groups are merged at the end.
template <class T, class KV, class L, int Rows, class Scores = PlainScores>
struct Attention {
  using Params = typename Scores::template Params<T, KV>;
  static constexpr int max_threads = 128;

  template <class Ctx>
  static MT_FN void run(Ctx& ctx, const Params& p) {
    const AttentionWork w = attention_work(p, ctx.program, Rows);
    if (w.first_row >= w.query_rows) return;
    if (p.splits > 1 && w.split >= p.partial_splits(w.length)) return;  // never read
    const int64_t last_row = w.first_row + Rows < w.query_rows ? w.first_row + Rows : w.query_rows;

    const auto at = local_rows<L>(ctx, p.dim_qk);
    const auto value_at = with_cols(at, p.dim_v);
    const int64_t step = tile_rows(ctx, at);
    // Keys keep their lane group whatever the window, so the order of the sums is that of the key's index.
    const KeyRange any = Scores::keys(p, w, w.first_row, last_row);
    int64_t begin = any.first, end = any.last;
    if (p.splits > 1) {
      begin = begin > w.split * kSplitKeys ? begin : w.split * kSplitKeys;
      end = end < (w.split + 1) * kSplitKeys ? end : (w.split + 1) * kSplitKeys;
    }
    const int64_t first = begin;
    begin -= begin % step;

    const auto keys = rows_of_head(p.k, w.kv_head * p.k_head_stride, w.kv_head * p.k_scale_head_stride);
    const auto values = rows_of_head(p.v, w.kv_head * p.v_head_stride, w.kv_head * p.v_scale_head_stride);

    const auto row_of_query = [&](int j) {  // rows past the end repeat the last one and are not stored
      return query_row(p, w, w.first_row + j < last_row ? w.first_row + j : last_row - 1);
    };
    const float scale = Scores::query_scale(p);
    auto q = repeat<Rows>([&](int j) {
      return eval(ctx, at, map([=](auto v) { return v * scale; }, load(ctx, p.q, at_rows(at, row_of_query(j)))));
    });
    const auto looked_up = repeat<Rows>([&](int j) { return Scores::look_up(p, w, w.first_row + j); });
    auto acc = repeat<Rows>([&](int) { return zeros(ctx, value_at); });
    auto highest = repeat<Rows>([&](int) { return row_fill(at, -kInfinity); });
    auto total = repeat<Rows>([&](int) { return row_fill(at, 0.0f); });

    for (int64_t base = begin; base < end; base += step) {
      const auto key = map([=](auto r) { return r + base; }, row_index(at));
      const auto rows = map([&](auto index) { return cache_row(p, w, index, first, end); }, key);
      const auto k = load_cache(ctx, keys, at_rows(at, rows));
      const auto v = load_cache(ctx, values, at_rows(value_at, rows));
      MT_UNROLL
      for (int j = 0; j < Rows; ++j) {
        const auto row = Scores::row(p, w, looked_up[j]);
        const auto score = map(
            [&](auto s, auto index) {
              const float changed = Scores::score(p, s, row, index);
              return Scores::sees(p, row, index) && index < end ? changed : -kInfinity;
            },
            row_reduce<Sum>(ctx, at, map([](auto a, auto b) { return a * b; }, q[j], k)), key);
        const auto above = map([](auto a, auto b) { return a > b ? a : b; }, highest[j], score);
        // exp2(-inf - -inf) would be NaN: nothing was seen yet, so nothing is rescaled
        const auto rescale = map([](auto a, auto b) { return a == b ? 1.0f : fast_exp2(a - b); }, highest[j], above);
        const auto weight = map([](auto s, auto b) { return s == -kInfinity ? 0.0f : fast_exp2(s - b); }, score, above);
        total[j] = map([](auto t, auto r, auto x) { return t * r + x; }, total[j], rescale, weight);
        // A key that this row does not see counts for nothing, even where its value is inf or NaN.
        assign(ctx, value_at, acc[j], map([](auto a, auto r, auto x, auto b) { return a * r + select(x == 0.0f, x, x * b); }, acc[j], rescale, weight, v));
        highest[j] = above;
      }
    }

    MT_UNROLL
    for (int j = 0; j < Rows; ++j) {
      auto most = rows_reduce<Max>(ctx, highest[j]);
      const auto share = map([](auto m, auto all) { return m == -kInfinity ? 0.0f : fast_exp2(m - all); }, highest[j], most);
      auto sum = rows_reduce<Sum>(ctx, map([](auto t, auto s) { return t * s; }, total[j], share));
      auto result = col_reduce<Sum>(ctx, value_at, eval(ctx, value_at, map([](auto a, auto s) { return a * s; }, acc[j], share)));
      if (w.first_row + j >= last_row) continue;
      const int64_t row = row_of_query(j);
      const auto first = first_row_only(value_at);
      if (p.splits > 1) {
        float* slot = p.partial + (row * p.splits + w.split) * (p.dim_v + 2);
        store(ctx, view<float>{slot + 2, 0, 0, p.dim_v}, at_rows(first, int64_t{0}), result);
        store_row_value(ctx, slot, first, most);
        store_row_value(ctx, slot + 1, first, sum);
      } else {
        Scores::add_sink(ctx, p, first, row, result, most, sum);
        finish(ctx, p, first, row, result, most, sum);
      }
    }
  }

  /// out = result / sum, and the logarithm of the sum; a row that saw no key gives 0 and -inf.
  template <class Ctx, class At, class Tile, class Value>
  static MT_FN void finish(Ctx& ctx, const Params& p, const At& first, int64_t row, const Tile& result, const Value& most, const Value& sum) {
    const auto inverse = map([](auto s) { return s == 0.0f ? 0.0f : 1.0f / s; }, sum);
    store(ctx, p.out, at_rows(first, row), map([](auto a, auto i) { return a * i; }, result, inverse));
    if (p.log_sum_exp == nullptr) return;
    const int64_t heads = static_cast<int64_t>(p.kv_heads) * p.group;
    float* lse = p.log_sum_exp + row / heads * p.lse_token_stride + row % heads * p.lse_head_stride;
    store_row_value(ctx, lse, first, map([](auto m, auto s) { return s == 0.0f ? -kInfinity : m * 0.693147181f + fast_log(s); }, most, sum));
  }
};

}  // namespace monotile::kernels
