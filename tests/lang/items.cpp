// The words for items, lists, counting and sorting, compiled once per target: each against plain loops.

#include "monotile/lang/items.hpp"
#include "monotile/lang/take.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace monotile::MONOTILE_TARGET_NAME {
namespace {

using namespace lang;  // NOLINT

#define MT_PASTE_(a, b) a##_##b
#define MT_PASTE(a, b) MT_PASTE_(a, b)
#define MT_ITEM_TEST(name) TEST(Items, MT_PASTE(name, MONOTILE_TARGET_NAME))

constexpr int kThreads = 192;
constexpr int kWaves = 8;  // at most

struct Params {
  const int32_t* in;
  const float* x;
  int32_t *out, *columns;
  float* values;
  int32_t* facts;
  int32_t n, keys;
};

struct Data {
  std::vector<int32_t> in, out, columns, facts = std::vector<int32_t>(8, -7);
  std::vector<float> x, values;
  Params p{};

  Data(int32_t n, int32_t keys, uint32_t seed) {
    std::mt19937 random(seed);
    for (int32_t i = 0; i < n; ++i) in.push_back(static_cast<int32_t>(random() % static_cast<uint32_t>(keys + 1)) - 1);
    for (int32_t i = 0; i < n; ++i) x.push_back(static_cast<float>(static_cast<int32_t>(random() % 4001) - 2000) * 0.125f);
    out.assign(static_cast<size_t>(std::max(n, keys)), -9);
    columns = out;
    values.assign(out.size(), NAN);
    p = {in.data(), x.data(), out.data(), columns.data(), values.data(), facts.data(), n, keys};
  }
};

template <class K>
void run(const Params& p, size_t scratch) {
  Stream stream{Device{}};
  launch<K>(stream, Grid{1, kThreads, scratch}, p);
}

struct SumKernel {
  template <class Ctx>
  static MT_FN void run(Ctx& ctx, const Params& p) {
    int32_t* const s = scratch_at<int32_t>(ctx, 16);
    const int32_t *in = p.in;
    int32_t* out = p.out;
    for_items(ctx, p.n, [=](int32_t i) { s[i] = in[i]; });
    p.facts[0] = sum_items_before(ctx, s, p.n);
    p.facts[1] = fold_items<Max>(ctx, p.n, [=](int32_t i) { return s[i]; });
    const indexed best = fold_items<ArgMax>(ctx, p.n, [=](int32_t i) { return indexed{static_cast<float>(in[i]), i}; });
    p.facts[2] = best.index;
    for_items(ctx, p.n, [=](int32_t i) { out[i] = s[i]; });
  }
};
MT_ITEM_TEST(SumsAndFolds) {
  for (const int32_t n : {1, 5, 31, 64, 192, 193, 1000}) {
    Data d(n, 9, static_cast<uint32_t>(n));
    run<SumKernel>(d.p, 16 + static_cast<size_t>(n) * 4);
    int32_t sum = 0, most = INT32_MIN;
    for (size_t i = 0; i < d.in.size(); ++i) {
      ASSERT_EQ(d.out[i], sum) << i << " of " << n;
      most = std::max(most, sum);
      sum += d.in[i];
    }
    ASSERT_EQ(d.facts[0], sum);
    ASSERT_EQ(d.facts[1], most);
    ASSERT_EQ(d.facts[2], std::max_element(d.in.begin(), d.in.end()) - d.in.begin());
  }
}

struct CountKernel {
  template <class Ctx>
  static MT_FN void run(Ctx& ctx, const Params& p) {
    int32_t* const s = scratch_at<int32_t>(ctx, 0);
    const int32_t* in = p.in;
    int32_t *out = p.out, *columns = p.columns;
    for_items(ctx, p.keys, [=](int32_t k) { s[k] = 0; });
    count_items(ctx, s, p.n, [=](int32_t i) { return in[i]; });
    for_items(ctx, p.keys, [=](int32_t k) { columns[k] = s[k]; });
    rank_items(ctx, s, p.keys, p.n, [=](int32_t i) { return in[i]; }, [=](int32_t i, int32_t k, int32_t rank) { out[i] = rank * 1000 + k; });
  }
};
MT_ITEM_TEST(CountsAndRanks) {
  for (const int32_t keys : {1, 3, 40}) {
    for (const int32_t n : {0, 1, 33, 192, 500, 4001}) {
      Data d(n, keys, static_cast<uint32_t>(n + keys));
      run<CountKernel>(d.p, static_cast<size_t>(keys) * kWaves * 4);
      std::vector<int32_t> counts(static_cast<size_t>(keys), 0);
      for (int32_t i = 0; i < n; ++i) {
        const int32_t k = d.in[static_cast<size_t>(i)];
        ASSERT_EQ(d.out[static_cast<size_t>(i)], k < 0 ? -9 : counts[static_cast<size_t>(k)]++ * 1000 + k) << i << " of " << n;
      }
      for (int32_t k = 0; k < keys; ++k) ASSERT_EQ(d.columns[static_cast<size_t>(k)], counts[static_cast<size_t>(k)]);
    }
  }
}

template <class L>
struct ListKernel {
  template <class Ctx>
  static MT_FN void run(Ctx& ctx, const Params& p) {
    const view<const float> x{p.x, p.n, 0, p.n, 1, false};
    auto row = hold(ctx, rows_of<L>(ctx, 1, p.n), [&](const auto& at) { return load(ctx, x, at); });
    auto list = shortlist_of(ctx, row, 0, static_cast<size_t>(p.keys) * 8);
    const auto above = [](auto, auto v) { return v >= 100.0f; };
    for (int pass = 0; pass < 2; ++pass) {
      const sums found = fold_at<Sum>(ctx, list, [=](auto c, auto v) {
        const auto in = above(c, v);
        return make_sums(select(in, 1.0f, 0.0f), select(in, v, 0.0f));
      });
      p.facts[pass * 2] = static_cast<int32_t>(found.first);
      p.facts[pass * 2 + 1] = static_cast<int32_t>(found.second);
      if (pass == 0) list_where(ctx, list, above);
    }
    p.facts[4] = list.listed ? 1 : 0;
    // The smaller ones, sorted; the list's own memory is not touched.
    float* const v = scratch_at<float>(ctx, static_cast<size_t>(p.keys) * 8);
    int32_t* const c = reinterpret_cast<int32_t*>(v + p.n);
    const int32_t n = collect_where(
        ctx, list, [=](auto column, auto e) { return above(column, e) & (e < 200.0f); },
        [=](int32_t slot, int32_t column, float e) { v[slot] = e, c[slot] = column; });
    p.facts[5] = n;
    float* const values = p.values;
    int32_t* const columns = p.columns;
    sort_pairs(ctx, v, c, n, [=](int32_t rank, float e, int32_t column) { values[rank] = e, columns[rank] = column; });
  }
};
template <class L>
void check_list(int32_t n, int32_t capacity) {
  Data d(n, capacity, static_cast<uint32_t>(n + capacity));
  run<ListKernel<L>>(d.p, static_cast<size_t>(capacity + n) * 8);
  std::vector<std::pair<float, int32_t>> wanted;
  int32_t count = 0;
  double sum = 0;
  for (int32_t i = 0; i < n; ++i) {
    const float v = d.x[static_cast<size_t>(i)];
    if (v >= 100.0f) ++count, sum += static_cast<double>(v);
    if (v >= 100.0f && v < 200.0f) wanted.emplace_back(-v, i);
  }
  std::sort(wanted.begin(), wanted.end());
  for (int pass = 0; pass < 2; ++pass) {
    ASSERT_EQ(d.facts[static_cast<size_t>(pass * 2)], count) << n;
    ASSERT_EQ(d.facts[static_cast<size_t>(pass * 2 + 1)], static_cast<int32_t>(sum)) << n;
  }
  ASSERT_EQ(d.facts[4], !kHasLanes || count <= capacity ? 1 : 0);
  ASSERT_EQ(d.facts[5], static_cast<int32_t>(wanted.size()));
  for (size_t i = 0; i < wanted.size(); ++i) {
    ASSERT_EQ(d.values[i], -wanted[i].first) << "rank " << i << " of " << n;
    ASSERT_EQ(d.columns[i], wanted[i].second) << "rank " << i << " of " << n;
  }
}
MT_ITEM_TEST(ListsAndSorting) {
  for (const int32_t capacity : {8, 4000}) {
    for (const int32_t n : {1, 7, 8, 9, 100, 1500}) {
      check_list<blocked<8, 1, 0>>(n, capacity);
      check_list<blocked<8, 2, 0, true>>(n, capacity);
    }
    check_list<blocked<8, 2, 0, true>>(5000, capacity);
  }
}

template <class L>
struct GroupKernel {
  template <class Ctx>
  static MT_FN void run(Ctx& ctx, const Params& p) {
    const view<const float> x{p.x, p.n, 0, p.n, 1, false};
    auto row = hold(ctx, rows_of<L>(ctx, 1, p.n), [&](const auto& at) { return load(ctx, x, at); });
    auto groups = group_max(ctx, row);
    float* const values = p.values;
    p.facts[0] = collect_where(ctx, groups, [](auto, auto v) { return v >= -1e9f; }, [=](int32_t, int32_t c, float v) { values[c] = v; });
  }
};
MT_ITEM_TEST(GroupMaxima) {
  for (const int32_t n : {1, 8, 15, 100, 1500, 3000}) {
    Data d(n, 1, static_cast<uint32_t>(n));
    run<GroupKernel<blocked<8, 2, 0>>>(d.p, 64);
    ASSERT_EQ(d.facts[0], (n + 7) / 8);
    for (int32_t g = 0; g * 8 < n; ++g) {
      ASSERT_EQ(d.values[static_cast<size_t>(g)], *std::max_element(d.x.begin() + g * 8, d.x.begin() + std::min(n, g * 8 + 8)));
    }
  }
}

struct TakeParams {
  view<const float> x;
  float* values;
  int32_t* columns;
  int64_t rows, cols;
  int32_t k, way;  // 0: one by one; 1: all ranks at once; 2: their values picked by column afterwards
};
template <class L>
struct TakeKernel {
  template <class Ctx>
  static MT_FN void run(Ctx& ctx, const TakeParams& p) {
    const auto at = rows_of<L>(ctx, p.rows, p.cols);
    const int32_t cols = static_cast<int32_t>(p.cols);
    auto left = zeros(ctx, at);
    assign(ctx, at, left, map_at(at, [=](auto c, auto v) { return select(c < cols, v, -kInfinity); }, load(ctx, p.x, at)));
    const auto ranks = rows_of<typename ranks_beside<L>::type>(ctx, p.rows, p.k);
    auto values = zeros(ctx, ranks), columns = zeros(ctx, ranks);
    if (p.way != 0) {
      auto picked = zeros(ctx, ranks);
      take_ranks(ctx, at, left, ranks, p.k, values, columns);
      pick_columns(ctx, at, map([](auto v) { return v * 1.0f; }, load(ctx, p.x, at)), ranks, p.k, columns, picked);
      if (p.way == 2) assign(ctx, ranks, values, picked);
    }
    for (int32_t j = 0; j < p.k && p.way == 0; ++j) {
      const auto best = take_largest(ctx, at, left);
      const auto value = map([](auto b) { return b.value; }, best), column = map([](auto b) { return static_cast<float>(b.index); }, best);
      assign(ctx, ranks, values, map_at(ranks, [=](auto c, auto old, auto v) { return select(c == j, v, old); }, values, value));
      assign(ctx, ranks, columns, map_at(ranks, [=](auto c, auto old, auto v) { return select(c == j, v, old); }, columns, column));
    }
    store_indices(ctx, p.columns, ranks, columns);
    store_values(ctx, p.values, p.k + 1, ranks, map_at(ranks, [](auto c, auto v) { return v + float_of(c); }, values));
  }
};
template <class L>
void check_take(int64_t cols, int32_t k, int32_t way) {
  constexpr int64_t kRows = 13;
  Data d(static_cast<int32_t>(kRows * cols), 1, static_cast<uint32_t>(cols + k));
  for (float& v : d.x) v = std::floor(v / 20.0f);  // ties
  std::vector<float> values(static_cast<size_t>(kRows * (k + 1)), NAN);
  std::vector<int32_t> columns(static_cast<size_t>(kRows * k), -9);
  const TakeParams p{{d.x.data(), cols, 0, cols, 1, false}, values.data(), columns.data(), kRows, cols, k, way};
  Stream stream{Device{}};
  constexpr int kLanesPerRow = L::lanes_per_row == 0 ? 128 : L::lanes_per_row;
  const int64_t per_program = !kHasLanes || L::lanes_per_row == 0 ? 1 : 128 / kLanesPerRow;
  launch<TakeKernel<L>>(stream, Grid{(kRows + per_program - 1) / per_program, 128, 64}, p);
  for (int64_t r = 0; r < kRows; ++r) {
    std::vector<std::pair<float, int32_t>> wanted;
    for (int64_t c = 0; c < cols; ++c) wanted.emplace_back(-d.x[static_cast<size_t>(r * cols + c)], static_cast<int32_t>(c));
    std::sort(wanted.begin(), wanted.end());
    for (int32_t j = 0; j < k; ++j) {
      ASSERT_EQ(columns[static_cast<size_t>(r * k + j)], wanted[static_cast<size_t>(j)].second) << "row " << r << " rank " << j << " of " << cols;
      ASSERT_EQ(values[static_cast<size_t>(r * (k + 1) + j)], -wanted[static_cast<size_t>(j)].first + static_cast<float>(j));
    }
    ASSERT_TRUE(std::isnan(values[static_cast<size_t>(r * (k + 1) + k)])) << "padding written";
  }
}
MT_ITEM_TEST(TakingTheLargest) {
  for (const int32_t k : {1, 5, 16}) {
    for (const int32_t way : {0, 1, 2}) {
      for (const int64_t cols : {16, 60, 128}) check_take<blocked<8, 1, 16>>(cols, k, way);
      for (const int64_t cols : {17, 200, 256}) check_take<blocked<8, 1, 32>>(cols, k, way);
      for (const int64_t cols : {200, 300, 512}) check_take<blocked<8, 2, 32>>(cols, k, way);
      for (const int64_t cols : {40, 700, 1024}) check_take<blocked<8, 1, 0>>(cols, k, way);
    }
  }
}

}  // namespace
}  // namespace monotile::MONOTILE_TARGET_NAME
