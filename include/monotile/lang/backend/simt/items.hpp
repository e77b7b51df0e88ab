#pragma once
// Items on machines with lanes: each lane takes every n-th. Counting uses integer additions to scratch, whose order does not matter.

#include "monotile/lang/backend/simt/tile.hpp"

namespace monotile::lang::inline MONOTILE_TARGET_NAME {

/// Adds 1 to a counter in scratch.
MT_FN void count_one(int32_t* counter) {
#if defined(__CUDA_ARCH__)
  atomicAdd(counter, 1);
#elif defined(MONOTILE_TARGET_SPIRV) && defined(__HIP_DEVICE_COMPILE__)
  opencl::atomic_increment(counter);
#elif defined(MONOTILE_TARGET_HIP) && defined(__HIP_DEVICE_COMPILE__)
  __hip_atomic_fetch_add(counter, 1, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);
#else
  ++*counter;  // lanes of the emulator take turns, and waves change at barriers only
#endif
}

/// Which of the programs this is.
MT_FN int64_t program_of(const Context& ctx) { return ctx.program; }

/// An element rounded for storage.
template <class T>
MT_FN T stored(float v) { return rounding<T>::apply(v); }

/// What is a scalar of the whole program already.
template <class T>
MT_FN T uniform(const T& v) { return v; }

/// The program's scratch from `offset` bytes on.
template <class T>
MT_FN T* scratch_at(const Context& ctx, size_t offset) { return reinterpret_cast<T*>(ctx.scratch + offset); }

/// f(i) for every i in [0, n), in no order; afterwards everyone sees what was written.
template <class F>
MT_FN void for_items(Context& ctx, int32_t n, F f) {
  for (int l = 0; l < kLanes; ++l) {
    for (int32_t i = ctx.thread(l); i < n; i += ctx.threads) f(i);
  }
  ctx.barrier();
}

/// Op over f(i) of every i in [0, n): the same scalar for the whole program.
template <class Op, class F>
MT_FN auto fold_items(Context& ctx, int32_t n, F f) {
  using R = decltype(f(int32_t{}));
  R v[kLanes];
  for (int l = 0; l < kLanes; ++l) {
    v[l] = Op::identity(R{});
    for (int32_t i = ctx.thread(l); i < n; i += ctx.threads) v[l] = Op::combine(v[l], f(i));
  }
  reduce_program<Op>(ctx, v);
  return v[0];
}

/// Each lane's value becomes the sum of those of the lanes before it; returns the sum of all.
MT_FN int32_t sum_before(Context& ctx, int32_t (&v)[kLanes]) {
  int32_t scanned[kLanes], other[kLanes];
  for (int l = 0; l < kLanes; ++l) scanned[l] = v[l];
  for (int d = 1; d < kWave; d *= 2) {
    shuffle_up(other, scanned, d);
    for (int l = 0; l < kLanes; ++l) {
      if (ctx.thread(l) % kWave >= d) scanned[l] += other[l];
    }
  }
  int32_t* const slot = reinterpret_cast<int32_t*>(ctx.slots + (ctx.turn & 1) * 32 * 8);
  ++ctx.turn;
  for (int l = 0; l < kLanes; ++l) {
    if (ctx.thread(l) % kWave == kWave - 1) share(slot + ctx.thread(l) / kWave, scanned[l]);
  }
  ctx.barrier();
  const int waves = ctx.threads / kWave;
  int32_t all = 0;
  for (int l = 0; l < kLanes; ++l) {
    int32_t earlier = 0;
    all = 0;
    for (int w = 0; w < waves; ++w) {
      const int32_t of_wave = shared(slot + w);
      if (w < ctx.thread(l) / kWave) earlier += of_wave;
      all += of_wave;
    }
    v[l] = earlier + scanned[l] - v[l];
  }
  return all;
}

/// values[i] becomes the sum of those before it, for i in [0, n); returns the sum of all. `values` lies in scratch.
MT_FN int32_t sum_items_before(Context& ctx, int32_t* values, int32_t n) {
  int32_t base = 0;
  for (int32_t first = 0; first < n; first += ctx.threads) {
    int32_t v[kLanes];
    for (int l = 0; l < kLanes; ++l) v[l] = first + ctx.thread(l) < n ? values[first + ctx.thread(l)] : 0;
    const int32_t total = sum_before(ctx, v);
    for (int l = 0; l < kLanes; ++l) {
      if (first + ctx.thread(l) < n) values[first + ctx.thread(l)] = base + v[l];
    }
    base += total;
  }
  ctx.barrier();
  return base;
}

/// put(slot, i) for every i in [0, n) where want(i), slots counted from 0 in a fixed order; returns how many there are.
template <class Want, class Put>
MT_FN int32_t collect_items(Context& ctx, int32_t n, Want want, Put put) {
  int32_t v[kLanes];
  for (int l = 0; l < kLanes; ++l) {
    v[l] = 0;
    for (int32_t i = ctx.thread(l); i < n; i += ctx.threads) v[l] += want(i) ? 1 : 0;
  }
  const int32_t total = sum_before(ctx, v);
  for (int l = 0; l < kLanes; ++l) {
    for (int32_t i = ctx.thread(l); i < n; i += ctx.threads) {
      if (want(i)) put(v[l]++, i);
    }
  }
  ctx.barrier();
  return total;
}

/// put(slot, column, element) for every element of the row where want(column, element), slots counted from 0 in a fixed order; returns how
/// many there are. Elements are fp32.
template <class L, class Make, class Again, class Want, class Put>
MT_FN int32_t collect_where(Context& ctx, held_row<L, Make, Again>& h, Want want, Put put) {
  static_assert(L::lanes_per_row == 0 && L::elements <= 32, "one row in a program, one bit per element");
  int32_t base = 0;
  each(ctx, h, [&](const place<L>& at, const auto& t) {
    uint32_t wanted[kLanes];
    int32_t v[kLanes];
    for (int l = 0; l < kLanes; ++l) {
      wanted[l] = 0;
      v[l] = 0;
      MT_UNROLL
      for (int e = 0; e < L::elements; ++e) {
        const int32_t c = at.local_col(l, e);
        if (c < at.limit && want(static_cast<int32_t>(at.first_col) + c, promote(t.v[l][e]))) {
          wanted[l] |= 1u << e;
          ++v[l];
        }
      }
    }
    const int32_t total = sum_before(ctx, v);
    for (int l = 0; l < kLanes; ++l) {
      int32_t slot = base + v[l];
      for (uint32_t rest = wanted[l]; rest != 0; rest &= rest - 1) {  // `put` is there once, whatever a lane holds
        const int e = lowest_bit(rest);
        const float value = element_at(t.v[l], e);
        put(slot++, static_cast<int32_t>(at.first_col) + at.local_col(l, e), value);
      }
    }
    base += total;
  });
  ctx.barrier();
  return base;
}

/// A row of the largest of every `vector_elements` neighbours: few values that bound all of a row that stays on chip.
template <class L, class Make, class Again>
MT_FN auto group_max(Context& ctx, held_row<L, Make, Again>& h) {
  static_assert(!L::streaming && L::lanes_per_row == 0, "rows on chip");
  constexpr int E = L::vector_elements;
  using G = blocked<1, L::vectors, 0>;
  place<G> at;
  for (int l = 0; l < kLanes; ++l) {
    at.row[l] = h.at.row[l];
    at.live[l] = h.at.live[l];
    at.lane[l] = h.at.lane[l];
  }
  at.width = h.at.width;
  at.limit = (h.at.limit + E - 1) / E;
  at.first_col = h.at.first_col / E;
  at.cols = (h.at.cols + E - 1) / E;
  tile<float, G> t;
  for (int l = 0; l < kLanes; ++l) {
    MT_UNROLL
    for (int i = 0; i < L::vectors; ++i) {
      float best = -kInfinity;
      MT_UNROLL
      for (int e = 0; e < E; ++e) {
        if (h.at.local_col(l, i * E + e) < h.at.limit) best = max_of(best, promote(h.kept.v[l][i * E + e]));
      }
      t.v[l][i] = best;
    }
  }
  return hold(ctx, at, [t](const place<G>&) { return t; });
}

/// True if a tile here has room for all of its row.
template <class L>
MT_FN bool holds_row(const place<L>& at) { return chunk_cols(at) >= at.cols; }

/// Which chunk of its row this place is (0 where rows are not cut).
template <class L>
MT_FN int32_t chunk_number(const place<L>& at) { return static_cast<int32_t>(at.first_col / chunk_cols(at)); }

/// Keys of items first, first + step, ...: all are on their way before the first is looked at. Items from n on have none.
constexpr int kKeysAhead = 4;
template <class Key>
MT_FN void keys_ahead(int32_t (&k)[kKeysAhead], int32_t first, int32_t step, int32_t n, Key key) {
  MT_UNROLL
  for (int a = 0; a < kKeysAhead; ++a) k[a] = first + a * step < n ? key(first + a * step) : -1;
}

/// counts[key(i)] += 1 for every i in [0, n) with 0 <= key(i); counts lie in scratch.
template <class Key>
MT_FN void count_items(Context& ctx, int32_t* counts, int32_t n, Key key) {
  for (int l = 0; l < kLanes; ++l) {
    for (int32_t i = ctx.thread(l); i < n; i += kKeysAhead * ctx.threads) {
      int32_t k[kKeysAhead];
      keys_ahead(k, i, ctx.threads, n, key);
      MT_UNROLL
      for (int a = 0; a < kKeysAhead; ++a) {
        if (k[a] >= 0) count_one(counts + k[a]);
      }
    }
  }
  ctx.barrier();
}

/// visit(i, key(i), rank) for every i in [0, n) with 0 <= key(i) < keys, where rank counts the earlier items of the same key. `counts` is scratch
/// for `keys` counters per wave (rank_bytes).
template <class Key, class Visit>
MT_FN void rank_items(Context& ctx, int32_t* counts, int32_t keys, int32_t n, Key key, Visit visit) {
  const int waves = ctx.threads / kWave;
  const int32_t per_wave = (n + ctx.threads - 1) / ctx.threads * kWave;  // neighbours stay in one wave, in order
  for_items(ctx, keys * waves, [=](int32_t i) { counts[i] = 0; });
  for (int l = 0; l < kLanes; ++l) {
    const int wave = ctx.thread(l) / kWave;
    const int32_t first = wave * per_wave, end = first + per_wave < n ? first + per_wave : n;
    for (int32_t j = first + ctx.thread(l) % kWave; j < end; j += kKeysAhead * kWave) {
      int32_t k[kKeysAhead];
      keys_ahead(k, j, kWave, end, key);
      MT_UNROLL
      for (int a = 0; a < kKeysAhead; ++a) {
        if (k[a] >= 0) count_one(counts + wave * keys + k[a]);
      }
    }
  }
  ctx.barrier();
  for_items(ctx, keys, [=](int32_t k) {
    int32_t before = 0;
    for (int w = 0; w < waves; ++w) {
      const int32_t count = counts[w * keys + k];
      counts[w * keys + k] = before;
      before += count;
    }
  });
  for (int32_t j = 0; j < per_wave; j += kKeysAhead * kWave) {
    int32_t ahead[kLanes][kKeysAhead];
    for (int l = 0; l < kLanes; ++l) keys_ahead(ahead[l], ctx.thread(l) / kWave * per_wave + j + ctx.thread(l) % kWave, kWave, n, key);
    MT_UNROLL
    for (int a = 0; a < kKeysAhead; ++a) {
      if (j + a * kWave >= per_wave) break;  // all lanes
      for (int l = 0; l < kLanes; ++l) {
        const int wave = ctx.thread(l) / kWave;
        const int32_t i = wave * per_wave + j + a * kWave + ctx.thread(l) % kWave, k = ahead[l][a];
        int32_t* const counter = counts + wave * keys + (k >= 0 ? k : 0);
#if defined(__CUDA_ARCH__)
        const uint32_t peers = __match_any_sync(0xffffffffu, k), below = peers & ((1u << (threadIdx.x % 32)) - 1);
        const int32_t rank = *counter + __popc(below);
        __syncwarp();
        if (k >= 0 && below == 0) *counter += __popc(peers);
        __syncwarp();
        if (k >= 0) visit(i, k, rank);
#elif defined(MONOTILE_TARGET_HIP) && defined(__HIP_DEVICE_COMPILE__)
        const uint64_t peers = lanes_with(k), below = peers & ((uint64_t{1} << lane_of_wave()) - 1);
        const int32_t rank = *counter + __builtin_popcountll(below);
        wave_barrier();
        if (k >= 0 && below == 0) *counter += __builtin_popcountll(peers);
        wave_barrier();
        if (k >= 0) visit(i, k, rank);
#else
        if (k >= 0) visit(i, k, (*counter)++);
#endif
      }
    }
  }
  ctx.barrier();
}

/// put(rank, value, column) for n pairs in scratch, the largest value first, lower columns first among equals; every pair is met once.
template <class Put>
MT_FN void sort_pairs(Context& ctx, const float* values, const int32_t* columns, int32_t n, Put put) {
  for_items(ctx, n, [&](int32_t i) {
    const float v = values[i];
    const int32_t c = columns[i];
    int32_t rank = 0;
    for (int32_t j = 0; j < n; ++j) rank += (values[j] > v) | ((values[j] == v) & (columns[j] < c)) ? 1 : 0;
    put(rank, v, c);
  });
}

// --- rows of which few elements are in question --------------------------------------------------------------------------------------
/// A row, or a list of the elements that still matter: folds visit the list as soon as there is one.
template <class Row>
struct shortlist {
  Row& row;
  float* values;
  int32_t* columns;
  int32_t capacity;
  int32_t count;
  bool listed;
};
/// `bytes` of scratch from `offset` on hold the list: 8 bytes an element.
template <class L, class Make, class Again>
MT_FN auto shortlist_of(Context& ctx, held_row<L, Make, Again>& h, size_t offset, size_t bytes) {
  static_assert(L::lanes_per_row == 0, "the program has several rows");
  const int32_t capacity = static_cast<int32_t>(bytes / 8);
  float* const values = scratch_at<float>(ctx, offset);
  return shortlist<held_row<L, Make, Again>>{h, values, reinterpret_cast<int32_t*>(values + capacity), capacity, 0, false};
}
/// Lists the elements where want(column, element) if they fit: later folds must not need others.
template <class Row, class Want>
MT_FN void list_where(Context& ctx, shortlist<Row>& s, Want want) {
  float* const values = s.values;
  int32_t* const columns = s.columns;
  const int32_t capacity = s.capacity;
  s.count = collect_where(ctx, s.row, want, [=](int32_t slot, int32_t c, float v) {
    if (slot >= capacity) return;
    values[slot] = v;
    columns[slot] = c;
  });
  s.listed = s.count <= capacity;
}
/// The same with the pairs (value(i), column(i)) of the items i in [0, n) where want(i).
template <class Row, class Want, class Value, class Column>
MT_FN void list_items(Context& ctx, shortlist<Row>& s, int32_t n, Want want, Value value, Column column) {
  float* const values = s.values;
  int32_t* const columns = s.columns;
  const int32_t capacity = s.capacity;
  s.count = collect_items(ctx, n, want, [=](int32_t slot, int32_t i) {
    if (slot >= capacity) return;
    values[slot] = value(i);
    columns[slot] = column(i);
  });
  s.listed = s.count <= capacity;
}
/// At most how many elements are worth listing.
template <class Row>
MT_FN float list_limit(const Context&, const shortlist<Row>& s) { return static_cast<float>(s.capacity); }
template <class Op, class Row, class F>
MT_FN auto fold_at(Context& ctx, shortlist<Row>& s, F f) {
  using R = decltype(f(int32_t{}, float{}));
  if (!s.listed) return uniform(fold_at<Op>(ctx, s.row, f));
  const float* const values = s.values;
  const int32_t* const columns = s.columns;
  const R r = fold_items<Op>(ctx, s.count, [=](int32_t i) { return f(columns[i], values[i]); });
  return r;
}
template <class Op, class R, class Row, class First, class Then, class F>
MT_FN R fold_where(Context& ctx, shortlist<Row>& s, R start, First first, Then then, F f) {
  if (!s.listed) return uniform(fold_where<Op>(ctx, s.row, start, first, then, f));
  R v[kLanes];
  for (int l = 0; l < kLanes; ++l) {
    v[l] = start;
    for (int32_t i = ctx.thread(l); i < s.count; i += ctx.threads) {
      const int32_t c = s.columns[i];
      const float value = s.values[i];
      if (first(c, value) && then(c, value, v[l])) v[l] = Op::combine(v[l], f(c, value));
    }
  }
  reduce_program<Op>(ctx, v);
  return v[0];
}
/// The same as of a row.
template <class Row, class Want, class Put>
MT_FN int32_t collect_where(Context& ctx, shortlist<Row>& s, Want want, Put put) {
  if (!s.listed) return collect_where(ctx, s.row, want, put);
  const float* const values = s.values;
  const int32_t* const columns = s.columns;
  return collect_items(
      ctx, s.count, [=](int32_t i) { return want(columns[i], values[i]); },
      [=](int32_t slot, int32_t i) { put(slot, columns[i], values[i]); });
}

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME
