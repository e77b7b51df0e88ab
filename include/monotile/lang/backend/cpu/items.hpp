#pragma once
// Items on CPU: plain loops in order; lists of a row's elements are folded in packs.

#include <algorithm>
#include <utility>

#include "monotile/lang/backend/cpu/tile.hpp"

namespace monotile::lang::inline MONOTILE_TARGET_NAME {

MT_FN int64_t program_of(const Context& ctx) { return ctx.program; }
template <class T>
MT_FN T stored(float v) { return from_float<T>(v); }
template <class T>
MT_FN T* scratch_at(const Context& ctx, size_t offset) { return reinterpret_cast<T*>(ctx.scratch + offset); }

template <class F>
MT_FN void for_items(Context&, int32_t n, F f) {
  for (int32_t i = 0; i < n; ++i) f(i);
}
template <class Op, class F>
MT_FN auto fold_items(Context&, int32_t n, F f) {
  using R = decltype(f(int32_t{}));
  R r = Op::identity(R{});
  for (int32_t i = 0; i < n; ++i) r = Op::combine(r, f(i));
  return r;
}
MT_FN int32_t sum_items_before(Context&, int32_t* values, int32_t n) {
  int32_t sum = 0;
  for (int32_t i = 0; i < n; ++i) sum += std::exchange(values[i], sum);
  return sum;
}
template <class Want, class Put>
MT_FN int32_t collect_items(Context&, int32_t n, Want want, Put put) {
  int32_t slot = 0;
  for (int32_t i = 0; i < n; ++i) {
    if (want(i)) put(slot++, i);
  }
  return slot;
}
template <class L, class T, class Want, class Put>
MT_FN int32_t collect_where(Context&, held_row<L, T>& h, Want want, Put put) {
  int32_t slot = 0;
  each_pack(h, [&](const int_pack<8>& c, const pack<8>& v, int n) {
    const mask_pack<8> wanted = want(c, v);
    if (!any_of(wanted)) return;
    for (int i = 0; i < n; ++i) {
      if (wanted.part[0][i] != 0) put(slot++, c.part[0][i], v.part[0][i]);
    }
  });
  return slot;
}
template <class L, class T>
MT_FN auto group_max(Context& ctx, held_row<L, T>& h) {
  using G = blocked<1, 1, 0>;
  const int64_t groups = (h.at.cols + 7) / 8;
  float* const p = ctx.take<float>(groups);
  int64_t g = 0;
  each_pack(h, [&](const int_pack<8>&, const pack<8>& v, int n) {
    float best = -kInfinity;
    for (int i = 0; i < n; ++i) best = max_of(best, v.part[0][i]);
    p[g++] = best;
  });
  return held_row<G, memory_tile<float>>{place<G>{h.at.row, groups, h.at.live}, memory_tile<float>(p, 0.0f)};
}
template <class L>
MT_FN bool holds_row(const place<L>&) { return true; }
template <class L>
MT_FN int32_t chunk_number(const place<L>&) { return 0; }

template <class Key>
MT_FN void count_items(Context&, int32_t* counts, int32_t n, Key key) {
  for (int32_t i = 0; i < n; ++i) {
    const int32_t k = key(i);
    if (k >= 0) ++counts[k];
  }
}
template <class Key, class Visit>
MT_FN void rank_items(Context&, int32_t* counts, int32_t keys, int32_t n, Key key, Visit visit) {
  std::fill(counts, counts + keys, 0);
  for (int32_t i = 0; i < n; ++i) {
    const int32_t k = key(i);
    if (k >= 0) visit(i, k, counts[k]++);
  }
}
template <class Put>
MT_FN void sort_pairs(Context& ctx, const float* values, const int32_t* columns, int32_t n, Put put) {
  auto* const order = ctx.take<int32_t>(n);
  for (int32_t i = 0; i < n; ++i) order[i] = i;
  std::sort(order, order + n, [=](int32_t a, int32_t b) {
    return values[a] > values[b] || (values[a] == values[b] && columns[a] < columns[b]);
  });
  for (int32_t rank = 0; rank < n; ++rank) put(rank, values[order[rank]], columns[order[rank]]);
}

template <class Row>
struct shortlist {
  Row& row;
  float* values;
  int32_t* columns;
  int32_t count;
  bool listed;
};
template <class L, class T>
MT_FN auto shortlist_of(Context&, held_row<L, T>& h, size_t, size_t) {
  return shortlist<held_row<L, T>>{h, nullptr, nullptr, 0, false};
}
template <class Row, class Want>
MT_FN void list_where(Context& ctx, shortlist<Row>& s, Want want) {
  if (s.values == nullptr) {  // any number fits
    s.values = ctx.take<float>(s.row.at.cols);
    s.columns = ctx.take<int32_t>(s.row.at.cols);
  }
  float* const values = s.values;
  int32_t* const columns = s.columns;
  int32_t count = 0;
  each_pack(s.row, [&](const int_pack<8>& c, const pack<8>& v, int n) {
    const mask_pack<8> wanted = want(c, v);
    if (!any_of(wanted)) return;
    for (int i = 0; i < n; ++i) {  // written in any case: a branch would be mispredicted too often
      values[count] = v.part[0][i];
      columns[count] = c.part[0][i];
      count -= wanted.part[0][i];
    }
  });
  std::memset(values + count, 0, 32);  // folds take whole packs
  std::memset(columns + count, 0, 32);
  s.count = count;
  s.listed = true;
}
template <class Row, class Want, class Value, class Column>
MT_FN void list_items(Context& ctx, shortlist<Row>& s, int32_t n, Want want, Value value, Column column) {
  s.values = ctx.take<float>(n);
  s.columns = ctx.take<int32_t>(n);
  s.count = 0;
  for (int32_t i = 0; i < n; ++i) {
    if (!want(i)) continue;
    s.values[s.count] = value(i);
    s.columns[s.count++] = column(i);
  }
  std::memset(s.values + s.count, 0, 32);
  std::memset(s.columns + s.count, 0, 32);
  s.listed = true;
}
template <class Row>
MT_FN float list_limit(const Context&, const shortlist<Row>&) { return 65536.0f; }
template <class Op, class Row, class F>
MT_FN auto fold_at(Context& ctx, shortlist<Row>& s, F f) {
  if (!s.listed) return fold_at<Op>(ctx, s.row, f);
  auto at = s.row.at;
  at.cols = s.count;
  return row_reduce<Op>(ctx, at, listed_tile<F>(f, s.values, s.columns));
}
template <class Row, class Visit>
MT_FN void each_pack(const shortlist<Row>& s, Visit visit) {
  if (!s.listed) return each_pack(s.row, visit);
  for (int32_t i = 0; i < s.count; i += 8) {
    int_pack<8> columns;
    std::memcpy(columns.part, s.columns + i, 32);
    visit(columns, load_pack<8>(s.values + i), std::min(8, s.count - i));
  }
}
template <class Row, class Want, class Put>
MT_FN int32_t collect_where(Context&, shortlist<Row>& s, Want want, Put put) {
  int32_t slot = 0;
  each_pack(s, [&](const int_pack<8>& c, const pack<8>& v, int n) {
    const mask_pack<8> wanted = want(c, v);
    if (!any_of(wanted)) return;
    for (int i = 0; i < n; ++i) {
      if (wanted.part[0][i] != 0) put(slot++, c.part[0][i], v.part[0][i]);
    }
  });
  return slot;
}

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME
