#pragma once
// Chained products by waves: each wave has some rows of the tile for itself, from the first product to the last, and
// all copy. While one block of b is multiplied, its block of c is on its way, and the other way round; blocks of codes,
// which have room of their own, are one block ahead.

#include "monotile/lang/backend/simt/chain_codes.hpp"

namespace monotile::lang::inline MONOTILE_TARGET_NAME {

template <class Cfg>
struct chain_traits {
  using layout = chain_unit::row_layout;
  static constexpr int wave_rows = Cfg::wave_rows > layout::rows ? Cfg::wave_rows : layout::rows;
  static constexpr int waves = Cfg::bm / wave_rows, threads = waves * kWave;
};

template <class Cfg, class T>
struct chain_context {
  using storage = T;
  template <int R>
  using rows_of = row_values<typename chain_traits<Cfg>::layout, R>;
  using rows = rows_of<chain_traits<Cfg>::wave_rows>;
  Context& program;
  chain_queue copies;
  int first_row;    ///< of this wave within the tile
  int nothing = 0;  ///< 0, but renewed before each product: places in tiles are computed there, not kept in registers
  MT_FN int lane(int l) const { return program.thread(l) % kWave + nothing; }
};

/// Stored: elements of b and c, which become T on their way.
template <class Cfg, class T, class Stored>
struct alignas(1024) chain_memory {
  template <int C>
  using streamed = typename tile_of_codes<T, Stored, Cfg::bn, C>::type;
  smem_tile<T, Cfg::bm, Cfg::da, along::m> a;
  streamed<Cfg::da> b;
  streamed<Cfg::dc> c;
  int unbounded[2];  ///< set by a wave that finds inf or NaN in c; two, so that one may be reset
};

/// Rows of b or c that start on 16 bytes. Where a block is one box, a lane's places follow from each other by additions; else
/// boxes are powers of two, as divisors of a block, and some look-ups are under way together.
template <class Cfg, class T, int R, int C, along A, class Place>
MT_FN void copy_aligned_rows(chain_context<Cfg, T>& cx, smem_tile<T, R, C, A>& to, const box_view& from, Place place) {
  using Tile = smem_tile<T, R, C, A>;
  constexpr int kVector = 8, kChunks = C / kVector, kThreads = chain_traits<Cfg>::threads, kStep = kThreads / kChunks;
  constexpr int kTimes = R / kStep, kAtOnce = kTimes < 4 ? kTimes : 4;
  static_assert(kThreads % kChunks == 0 && R % (kStep * kAtOnce) == 0);
  const T* const data = static_cast<const T*>(from.data);
  const auto add = [&](int l, int r, const T* row, bool exists) {
    const int chunk = cx.program.thread(l) % kChunks, col = chunk * kVector, left = from.cols - col;
    const int count = !exists || left <= 0 ? 0 : left < kVector ? left : kVector;
    cx.copies.add(to.data + Tile::offset(r, chunk), count == 0 ? data : row + col, count * static_cast<int>(sizeof(T)),
                  cx.lane(l), r, 0);
  };
  if (from.box_x >= R) {
    const box_at at = place(0);
    const int64_t further = kStep * from.stride_x;
    const T* row[kLanes];
    for (int l = 0; l < kLanes; ++l)
      row[l] = data + from.offset(at.x + cx.program.thread(l) / kChunks, at.y, at.z);
    MT_NO_UNROLL
    for (int first = 0; first < kTimes; first += kAtOnce) {
      MT_UNROLL
      for (int i = 0; i < kAtOnce; ++i) {
        for (int l = 0; l < kLanes; ++l) {
          const int r = cx.program.thread(l) / kChunks + (first + i) * kStep;
          add(l, r, row[l], r < at.rows);
          row[l] += further;
        }
      }
    }
    return;
  }
  const int shift = lowest_bit(static_cast<uint32_t>(from.box_x));
  MT_NO_UNROLL
  for (int first = 0; first < kTimes; first += kAtOnce) {
    box_at at[kAtOnce][kLanes];
    MT_UNROLL
    for (int i = 0; i < kAtOnce; ++i) {
      for (int l = 0; l < kLanes; ++l) at[i][l] = place((cx.program.thread(l) / kChunks + (first + i) * kStep) >> shift);
    }
    MT_UNROLL
    for (int i = 0; i < kAtOnce; ++i) {
      for (int l = 0; l < kLanes; ++l) {
        const int r = cx.program.thread(l) / kChunks + (first + i) * kStep, within = r & (from.box_x - 1);
        add(l, r, data + from.offset(at[i][l].x + within, at[i][l].y, at[i][l].z), within < at[i][l].rows);
      }
    }
  }
}

/// The rows of a tile, box by box: place(number of the box) says where it is. What does not exist becomes 0.
template <class Cfg, class T, int R, int C, along A, class Place>
MT_FN void copy_boxes(chain_context<Cfg, T>& cx, smem_tile<T, R, C, A>& to, const box_view& from, Place place) {
  using Tile = smem_tile<T, R, C, A>;
  constexpr int kVector = 8, kChunks = C / kVector, kThreads = chain_traits<Cfg>::threads;
  static_assert(R * kChunks % kThreads == 0, "every lane copies the same number of chunks");
  if constexpr (A == along::n && kThreads >= 128) {  // two waves have no registers for it (decode with changed scores on sm_90a)
    if (from.vectors) return copy_aligned_rows(cx, to, from, place);
  }
  const int box = from.box_x * from.box_y;
  const T* const data = static_cast<const T*>(from.data);
  MT_NO_UNROLL
  for (int i = 0; i < R * kChunks / kThreads; ++i) {
    for (int l = 0; l < kLanes; ++l) {
      const int number = cx.program.thread(l) + i * kThreads, r = number / kChunks, chunk = number % kChunks;
      const int which = box >= R ? 0 : r / box, within = r - which * box, col = chunk * kVector;
      const box_at at = place(which);
      const int along_y = from.box_y == 1 ? 0 : within / from.box_x;
      const T* row = data;
      int exist = 0;
      if (within < at.rows && col < from.cols) {
        row += from.offset(at.x + within - along_y * from.box_x, at.y + along_y, at.z) + col;
        exist = from.cols - col < kVector ? from.cols - col : kVector;
      }
      unsigned char* const slot = to.data + Tile::offset(r, chunk);
      if (from.vectors) {
        cx.copies.add(slot, row, exist * static_cast<int>(sizeof(T)), cx.lane(l), r, 0);
      } else {
        packed<T, kVector> v{};
        MT_UNROLL
        for (int e = 0; e < kVector; ++e) {
          if (e < exist) v.v[e] = row[e];
        }
        cx.copies.put(slot, __builtin_bit_cast(vector16, v), r, 0);
      }
    }
  }
}

/// s = a b^T for the rows of this wave.
template <class Cfg, class T, class Acc, class A, class B>
MT_FN void first_product(chain_context<Cfg, T>& cx, Acc& s, const A& a, const B& b) {
  using Layout = typename Acc::layout;
  using Unit = typename unit_at<Layout>::type;
  cx.nothing = unforeseen(0);
  clear(cx, s);
  MT_UNROLL
  for (int k = 0; k < Cfg::da; k += Layout::k) {
    uint32_t rows[Acc::tall][Unit::a_words][kLanes];
    MT_UNROLL
    for (int i = 0; i < Acc::tall; ++i) Unit::load_a(cx, rows[i], a, cx.first_row + i * Layout::rows, k);
    MT_UNROLL
    for (int j = 0; j < Acc::wide; j += Unit::b_at_once) {
      uint32_t y[Unit::b_at_once][Unit::b_words][kLanes];
      Unit::load_b(cx, y, b, j * Layout::cols, k);
      MT_UNROLL
      for (int i = 0; i < Acc::tall; ++i) {
        MT_UNROLL
        for (int h = 0; h < Unit::b_at_once; ++h) Unit::template multiply<T>(s.d[i][j + h], rows[i], y[h]);
      }
    }
  }
}

/// o += weights c.
template <class Cfg, class T, class Acc, class Operand, class C>
MT_FN void second_product(chain_context<Cfg, T>& cx, Acc& o, const Operand& weights, const C& c) {
  using Layout = typename Acc::layout;
  using Unit = typename unit_at<Layout>::type;
  cx.nothing = unforeseen(0);
  MT_UNROLL
  for (int s = 0; s < Operand::steps; ++s) {
    MT_UNROLL
    for (int j = 0; j < Acc::wide; j += Unit::b_at_once) {
      uint32_t y[Unit::b_at_once][Unit::b_words][kLanes];
      Unit::load_b_across(cx, y, c, s * Layout::step, j * Layout::cols);
      MT_UNROLL
      for (int i = 0; i < Acc::tall; ++i) {
        MT_UNROLL
        for (int h = 0; h < Unit::b_at_once; ++h) Unit::template multiply<T>(o.d[i][j + h], weights.w[i][s], y[h]);
      }
    }
  }
}

template <class Cfg, class T, class Acc>
MT_FN void store_rows(chain_context<Cfg, T>& cx, const box_view& to, const box_at& at, Acc& acc) {
  store_rows_from_registers(cx, to, at, acc);
}

/// One tile per program.
template <class Cfg, class Body>
MT_FN void ring_chain(Context& ctx, const Body& body) {
  using T = typename Body::element;
  using Traits = chain_traits<Cfg>;
  using Layout = typename Traits::layout;
  constexpr int kRows = Traits::wave_rows;
  using Memory = chain_memory<Cfg, T, typename Body::cache_element>;
  constexpr bool kAhead = is_coded<decltype(Memory::b)>;
  auto& memory =
      *reinterpret_cast<Memory*>((reinterpret_cast<uintptr_t>(ctx.scratch) + 1023) & ~uintptr_t{1023});
  const auto t = body.tile(ctx.program);
  if (!t.exists) return;
  const int wave = ctx.thread(0) / kWave;
  chain_context<Cfg, T> cx{ctx, {}, wave * kRows};
  row_acc<Layout, kRows, Cfg::dc> o;
  clear(cx, o);
  auto state = body.begin(cx, t);
  int j = body.after(t, body.blocks(t)), turn = 0;
  for (int l = 0; l < kLanes; ++l) {
    if (ctx.thread(l) < 2) memory.unbounded[ctx.thread(l)] = 0;
  }
  auto&& coming_b = incoming<Traits::threads>(memory.b);
  auto&& coming_c = incoming<Traits::threads>(memory.c);
  const auto load_b = [&](int block) {
    if (block >= 0) body.load_b(cx, coming_b, t, block);
    if (kAhead || block >= 0) cx.copies.close_group();
  };
  const auto load_c = [&](int block) {
    if (block >= 0) body.load_c(cx, coming_c, t, block);
    if (kAhead || block >= 0) cx.copies.close_group();
  };
  if (j >= 0) {
    body.load_a(cx, memory.a, t);
    load_b(j);
    if constexpr (kAhead) load_c(j);
  }
  while (j >= 0) {
    cx.copies.template wait<kAhead ? 1 : 0>();
    arrive<false>(cx, coming_b);
    ctx.barrier();  // b is there for all waves, and all have left c
    int next = -1;
    if constexpr (kAhead) {
      next = body.after(t, j);
      load_b(next);
    } else {
      load_c(j);
    }
    row_acc<Layout, kRows, Cfg::bn> s;
    first_product(cx, s, memory.a, memory.b);
    scale_columns(cx, s, memory.b);
    const auto rescale = body.weigh(cx, state, s, t, j, body.hides(t, j));
    row_operand<Layout, kRows, Cfg::bn> weights;
    as_operand<T>(weights, s);
    scale_rows(cx, o, rescale, [](float x, float r) { return x * r; });
    cx.copies.template wait<kAhead ? 1 : 0>();
    arrive<true>(cx, coming_c);
    ctx.barrier();  // c is there for all waves, and all have left b
    bool one_by_one = false;
    if (body.partial(t, j)) {
      bool found = false;
      for (int l = 0; l < kLanes; ++l) found = share_is_unbounded(memory.c, ctx.thread(l), Traits::threads) || found;
      if (found) memory.unbounded[turn] = 1;
      ctx.barrier();
      one_by_one = memory.unbounded[turn] != 0;
      turn ^= 1;
      for (int l = 0; l < kLanes; ++l) {
        if (ctx.thread(l) == 0) memory.unbounded[turn] = 0;  // nobody looks at it before the next barrier
      }
    }
    if constexpr (kAhead) {
      load_c(next);
    } else {
      next = body.after(t, j);
    }
    if (one_by_one) {
      constexpr int kCols = 32;  // of the weights at a time: b's memory is free
      static_assert(sizeof memory.b.data >= sizeof(T) * Traits::waves * Layout::rows * kCols);
      product_of_seen<kCols>(cx, o, weights, memory.c,
                             reinterpret_cast<T*>(memory.b.data) + wave * Layout::rows * kCols);
      ctx.barrier();  // all have left the room
    }
    if constexpr (!kAhead) load_b(next);
    if (!one_by_one) second_product(cx, o, weights, memory.c);
    j = next;
  }
  body.finish(cx, state, o, t);
}

template <class K>
struct chain_kernel : K {
  static constexpr int max_threads = chain_traits<typename K::Config>::threads;
};
/// A program per tile.
template <class K, class Params>
void launch_ring_chain(Stream& stream, const Params& params) {
  using Cfg = typename K::Config;
  const Grid grid{params.total, chain_traits<Cfg>::threads, sizeof(chain_memory<Cfg, typename K::element, typename K::cache_element>) + 1024};
  launch<chain_kernel<K>>(stream, grid, params);
}

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME
