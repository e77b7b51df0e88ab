#pragma once
// Hopper: a persistent grid in which one warpgroup keeps the copy engine busy and two multiply, handing stages over
// by barriers. The kernel's three callbacks are all that it sees of this. For sm_90a and the emulated one: what is in
// namespace hopper, and words of a wave such as same_for_all, are the backend's, whose wgmma.hpp comes first.

#include "monotile/lang/backend/simt/ring.hpp"

namespace monotile::lang::inline MONOTILE_TARGET_NAME {

/// What follows from a configuration.
template <class Cfg>
struct warpgroup_traits {
  static constexpr int consumers = 2, threads = 128 * (1 + consumers);
  static constexpr bool turns = Cfg::kind == schedule::pingpong;
  static constexpr bool by_stage = Cfg::kind == schedule::split && Cfg::bm == 64;  ///< each takes every second stage of the tile
  static constexpr int parts = turns || by_stage ? 1 : consumers;                  ///< warpgroups that share the rows of a tile
  /// Registers per lane: 168 at launch; the copying warpgroup gives most of its own away. 24 were tried and spill.
  static constexpr int producer_registers = 40, consumer_registers = 232;
  /// Per warp, blocks of 16 rows on their way out. Where both warpgroups store at a time, a slot for each block: nobody waits for the copy engine.
  static constexpr int result_slots = Cfg::kind == schedule::cooperative && Cfg::bn == 192 ? 3 : 2, slot_bytes = 16 * 128;
  static constexpr int result_bytes = consumers * 4 * result_slots * slot_bytes;
  static_assert(Cfg::bm / parts % 64 == 0, "a warpgroup multiplies 64 rows at a time");
};

template <class Cfg, class Stage>
struct alignas(1024) warpgroup_memory {
  Stage stage[Cfg::stages];
  unsigned char result[warpgroup_traits<Cfg>::result_bytes];
  alignas(8) uint64_t full[Cfg::stages];
  uint64_t empty[Cfg::stages];
};

/// The copying warpgroup's view of a stage.
template <class Cfg>
struct copy_context {
  const tile_space& space;
  uint32_t full;  ///< barrier of the stage that is being filled
  uint32_t rank;  ///< of this program in its cluster
};
/// A multiplying warpgroup's view.
template <class Cfg, class T>
struct product_context {
  using storage = T;
  const tile_space& space;
  int part;         ///< which rows of the tile are this warpgroup's
  int thread;       ///< in the warpgroup
  uint32_t result;  ///< shared address of this warp's slots
};

/// A warpgroup's share of a tile of sums.
template <int Rows, int Cols, class S = float>
struct warpgroup_acc {
  using sum = S;
  static constexpr int rows = Rows, cols = Cols, slabs = Rows / 64;
  using atom = wgmma_m64<Cols>;
  S d[slabs][atom::c_elements];
  int keep;  ///< 0 until the first product of a tile, which overwrites: no pass that clears
};
/// Integer sums in fp32.
template <int Rows, int Cols>
MT_DEVICE void sums_to_float(warpgroup_acc<Rows, Cols, float>& to, const warpgroup_acc<Rows, Cols, int32_t>& from) {
  using Acc = warpgroup_acc<Rows, Cols, float>;
  MT_UNROLL
  for (int s = 0; s < Acc::slabs; ++s) {
    MT_UNROLL
    for (int e = 0; e < Acc::atom::c_elements; ++e) to.d[s][e] = static_cast<float>(from.d[s][e]);
  }
}
template <int Rows, int Cols>
warpgroup_acc<Rows, Cols, float> float_sums_of(const warpgroup_acc<Rows, Cols, int32_t>&);  // the type alone

/// The instructions for 8-bit floats keep about 14 bits of a sum and cut the rest of what they add to it: long sums of one
/// sign come out too small (by 5 % after 4,096 steps, H200, 2026-11-30). So each stage has sums of its own, which are added up in fp32.
template <class T>
inline constexpr bool kShortSums = as_halves<T>;
/// Sums of one stage alone: columns [First, First + Cols) of the tile.
template <int Rows, int Cols, int First>
struct stage_sums : warpgroup_acc<Rows, Cols> {};
template <class Acc, int Rows, int Cols, int First>
MT_DEVICE void add_up(Acc& acc, stage_sums<Rows, Cols, First>& stage) {
  using Stage = stage_sums<Rows, Cols, First>;
  MT_UNROLL
  for (int s = 0; s < Acc::slabs; ++s) {
    hopper::pin(stage.d[s]);
    MT_UNROLL
    for (int e = 0; e < Stage::atom::c_elements; ++e) acc.d[s][First / 2 + e] += stage.d[s][e];
    MT_UNROLL
    for (int e = 0; e < Stage::atom::c_elements; ++e) hopper::pin(acc.d[s][First / 2 + e]);  // now, before the registers are written again
  }
}
template <class Cfg, class T>
using acc_of = warpgroup_acc<Cfg::bm / warpgroup_traits<Cfg>::parts, Cfg::bn, sum_of<T>>;

template <class Cfg, class T, int R, int C, class S, class F>
MT_DEVICE void each_vector(product_context<Cfg, T>& cx, warpgroup_acc<R, C, S>& acc, const tile_coord& t, F f) {
  using Acc = warpgroup_acc<R, C, S>;
  using Atom = typename Acc::atom;
  constexpr int kBatch = 4;
  MT_UNROLL
  for (int s = 0; s < Acc::slabs; ++s) {
    MT_UNROLL
    for (int first = 0; first < Atom::c_elements; first += kBatch) {
      // Registers are full of sums: nothing that a batch computes or loads may be kept for the next one.
      int row = t.m + cx.part * Acc::rows + s * 64, col = t.n;
      MT_HIDE(row, col);
      MT_UNROLL
      for (int e = first; e < first + kBatch; e += 2) {
        const coordinate at = Atom::c(cx.thread, e);
        S v[2] = {acc.d[s][e], acc.d[s][e + 1]};
        f(v, row + at.row, col + at.col);
        acc.d[s][e] = v[0], acc.d[s][e + 1] = v[1];
      }
    }
  }
}

/// acc *= scales of its row and column. All factors of a lane are loaded before the first is used, without a branch between them: one wait instead of one
/// for each cell. Cells that do not exist take another's.
template <class Cfg, class T, int R, int C>
MT_DEVICE void scale_cells(product_context<Cfg, T>& cx, warpgroup_acc<R, C, float>& acc, const tile_coord& t, const cell_scales& s) {
  using Acc = warpgroup_acc<R, C, float>;
  using Atom = typename Acc::atom;
  constexpr int kOfGroup = 4;  // sums of a lane in a group of eight columns: two rows of two neighbours
  const auto least = [](int a, int b) { return a < b ? a : b; };
  float rows[Acc::slabs][2], cols[Atom::c_elements / 2];
  MT_UNROLL
  for (int slab = 0; slab < Acc::slabs; ++slab) {
    MT_UNROLL
    for (int h = 0; h < 2; ++h)
      rows[slab][h] = s.row(least(t.m + cx.part * Acc::rows + slab * 64 + Atom::c(cx.thread, 2 * h).row, cx.space.rows - 1));
  }
  if (s.cols == nullptr) {
    MT_UNROLL
    for (int i = 0; i < Atom::c_elements / 2; ++i) cols[i] = 1.0f;
  } else if (s.col_step == 1 && t.n + C <= cx.space.cols) {  // offsets that the compiler knows: a sixth of the instructions
    const float* const first = s.cols + t.n + Atom::c(cx.thread, 0).col;
    MT_UNROLL
    for (int i = 0; i < Atom::c_elements / 2; ++i) cols[i] = first[i / 2 * 8 + i % 2];
  } else {
    MT_UNROLL
    for (int i = 0; i < Atom::c_elements / 2; ++i)
      cols[i] = s.cols[least(t.n + Atom::c(cx.thread, i / 2 * kOfGroup + i % 2).col, cx.space.cols - 1) * s.col_step];
  }
  MT_UNROLL
  for (int slab = 0; slab < Acc::slabs; ++slab) {
    MT_UNROLL
    for (int e = 0; e < Atom::c_elements; ++e) acc.d[slab][e] *= rows[slab][e % kOfGroup / 2] * cols[e / kOfGroup * 2 + e % 2];
  }
}

/// What depends on n alone is the same for the programs of a cluster, which lie above each other: each copies a share
/// of it into all of them.
template <class Cfg, class T, int R, int C, along A>
MT_DEVICE void copy_async(copy_context<Cfg>& cx, smem_tile<T, R, C, A>& to, const matrix_view& from, int batch, int row,
                          int col) {
  using Tile = smem_tile<T, R, C, A>;
  static_assert(Tile::row_bytes == 128, "the copy engine and the matrix unit agree on 128-byte panels");
  hopper::barrier_expect(cx.full, Tile::bytes);
  MT_UNROLL
  for (int p = 0; p < Tile::panels; ++p) {
    const uint32_t panel = shared_address(to.data) + p * Tile::panel_bytes;
    if constexpr (Cfg::cluster > 1 && A == along::n) {
      constexpr int kShare = R / Cfg::cluster;
      const int first = static_cast<int>(cx.rank) * kShare;
      hopper::copy_box_multicast(panel + first * 128, from.map, cx.full, col + p * Tile::panel_cols, row + first, batch,
                                 static_cast<uint16_t>((1 << Cfg::cluster) - 1));
    } else {
      hopper::copy_box(panel, from.map, cx.full, col + p * Tile::panel_cols, row, batch);
    }
  }
}

/// Issues acc += a b^T for columns from `First` on.
template <int First, class Cfg, class T, class Acc, int M, int N, int K, along A1, along A2>
MT_DEVICE void issue_products(product_context<Cfg, T>& cx, Acc& acc, const smem_tile<T, M, K, A1>& a,
                              const smem_tile<T, N, K, A2>& b) {
  constexpr int kStep = 32;  // bytes of k per instruction
  static_assert(First % 8 == 0, "operands start with a group of eight rows");
  const uint64_t from_a = hopper::operand_at(shared_address(a.data) + cx.part * Acc::rows * 128),
                 from_b = hopper::operand_at(shared_address(b.data) + First * 128);
  hopper::products_begin();
  MT_UNROLL
  for (int k = 0; k < K * static_cast<int>(sizeof(T)) / kStep; ++k) {
    const int panel = k / 4, within = k % 4 * kStep;
    MT_UNROLL
    for (int s = 0; s < Acc::slabs; ++s) {
      hopper::warpgroup_product<T, Acc::cols>::issue(acc.d[s], from_a + (panel * M * 128 + s * 64 * 128 + within) / 16,
                                                     from_b + (panel * N * 128 + within) / 16, acc.keep | k);
    }
  }
  hopper::products_close();
  acc.keep = 1;
}
/// acc += a b^T: only issued, the main loop waits one step behind.
template <class Cfg, class T, int Rows, int M, int N, int K, along A1, along A2>
MT_DEVICE void mma(product_context<Cfg, T>& cx, warpgroup_acc<Rows, N, sum_of<T>>& acc, const smem_tile<T, M, K, A1>& a,
                   const smem_tile<T, N, K, A2>& b) {
  issue_products<0>(cx, acc, a, b);
}
template <class Cfg, class T, int Rows, int Cols, int First, int M, int N, int K, along A1, along A2>
MT_DEVICE void mma(product_context<Cfg, T>& cx, stage_sums<Rows, Cols, First>& acc, const smem_tile<T, M, K, A1>& a,
                   const smem_tile<T, N, K, A2>& b) {
  issue_products<First>(cx, acc, a, b);
}

/// Blocks of 16 x 64 go to a slot of the warp, as Out, and from there by the copy engine, which leaves out what does
/// not exist.
template <class Out, class Cfg, class T, int R, int C>
MT_DEVICE void store_boxes(product_context<Cfg, T>& cx, const matrix_view& c, const tile_coord& t,
                           warpgroup_acc<R, C>& acc) {
  using Acc = warpgroup_acc<R, C>;
  constexpr int kSlots = warpgroup_traits<Cfg>::result_slots, kBlocks = C / 64;
  const int warp = cx.thread / 32, lane = cx.thread % 32, row = lane % 16, half = lane / 16;
  const int first_row = t.m + cx.part * Acc::rows + warp * 16;
  MT_UNROLL
  for (int s = 0; s < Acc::slabs; ++s) {
    MT_UNROLL
    for (int b = 0; b < kBlocks; ++b) {
      const uint32_t slot = cx.result + (s * kBlocks + b) % kSlots * warpgroup_traits<Cfg>::slot_bytes;
      // Where the blocks of a tile do not fill all slots alike, its first slot is that of the last block of the tile before.
      constexpr bool kEven = Acc::slabs * kBlocks % kSlots == 0;
      if (lane == 0) {
        if (kEven || s + b > 0) {
          hopper::wait_stores_read<kSlots - 1>();
        } else {
          hopper::wait_stores_read<0>();
        }
      }
      wave_sync();
      MT_UNROLL
      for (int j = 0; j < 4; ++j) {
        const float* d = &acc.d[s][b * 32 + j * 8];
        hopper::stmatrix4(slot + swizzle<128>::offset(row, 2 * j + half), hopper::pack<Out>(d[0], d[1]),
                          hopper::pack<Out>(d[2], d[3]), hopper::pack<Out>(d[4], d[5]), hopper::pack<Out>(d[6], d[7]));
      }
      hopper::fence_for_copies();
      wave_sync();
      if (lane == 0) {
        hopper::store_box(c.map, slot, t.n + b * 64, first_row + s * 64, t.batch);
        hopper::close_stores();
      }
    }
  }
}
template <class Cfg, class T, int R, int C>
MT_DEVICE void store(product_context<Cfg, T>& cx, const matrix_view& c, const tile_coord& t, warpgroup_acc<R, C>& acc) {
  if constexpr (C % 64 == 0) {
    // The copy engine leaves out what does not exist in pieces of 16 bytes only (seen on an H200, 2026-11-29).
    if (c.vectors && c.dtype != DType::f32 && c.cols % 8 == 0) {
      if constexpr (sizeof(T) > 1) return store_boxes<T>(cx, c, t, acc);
      return c.dtype == DType::bf16 ? store_boxes<bfloat16_t>(cx, c, t, acc) : store_boxes<half_t>(cx, c, t, acc);
    }
  }
  store_from_registers(cx, c, t, acc);
}

/// A place in the ring of stages, and how often it went round.
template <int Stages>
struct ring_cursor {
  int at = 0;
  uint32_t phase = 0;
  MT_DEVICE void next() {
    if (++at == Stages) {
      at = 0;
      phase ^= 1;
    }
  }
  MT_DEVICE void skip(int n) {
    n += at;
    phase ^= n / Stages & 1;
    at = n % Stages;
  }
};

/// acc = the products of `count` stages, each stage with sums of its own (kShortSums): those that are done are added up while the next ones are under
/// way, so that a warpgroup always has products in the queue. Two sets of registers take turns: the halves of a wide tile's columns, or the stages
/// of one that is narrow enough for three sets. `full(stage, phase)` waits for a stage, `multiply(sums, stage)` issues, `release(stage)` gives it back.
/// `meanwhile()` is done behind the first products.
template <int Stages, class Acc, class Full, class Multiply, class Release, class Meanwhile>
MT_DEVICE void add_stages(Acc& acc, int count, ring_cursor<Stages>& cursor, Full full, Multiply multiply, Release release, Meanwhile meanwhile) {
  constexpr bool kHalves = Acc::cols > 128;
  constexpr int kCols = kHalves ? Acc::cols / 2 : Acc::cols;
  stage_sums<Acc::rows, kCols, 0> even;
  stage_sums<Acc::rows, kCols, Acc::cols - kCols> odd;
  MT_UNROLL
  for (int s = 0; s < Acc::slabs; ++s) {
    MT_UNROLL
    for (int e = 0; e < Acc::atom::c_elements; ++e) acc.d[s][e] = 0.0f;
  }
  // Hidden: where the compiler knows that halves come in pairs it joins the two ends of the loop, and ptxas then waits for each instruction (C7514).
  int turns = kHalves ? 2 * count : count, turn = 1;
  MT_HIDE(turns, turn);
  ring_cursor<Stages> oldest = cursor;
  const auto issue = [&](auto& sums, bool opens, bool closes) {
    if (opens) full(cursor.at, cursor.phase);
    sums.keep = 0;
    multiply(sums, cursor.at);
    if (closes) cursor.next();
  };
  const auto collect = [&](auto& sums, bool closes) {
    add_up(acc, sums);
    if (closes) {
      release(oldest.at);
      oldest.next();
    }
  };
  if (turns == 0) return meanwhile();
  issue(even, true, !kHalves);
  meanwhile();
  MT_NO_UNROLL
  for (; turn + 1 < turns; turn += 2) {
    issue(odd, !kHalves, true);
    hopper::products_wait<1>();
    collect(even, !kHalves);
    issue(even, true, !kHalves);
    hopper::products_wait<1>();
    collect(odd, true);
  }
  if (turn < turns) {
    issue(odd, !kHalves, true);
    hopper::products_wait<1>();
    collect(even, !kHalves);
    hopper::products_wait<0>();
    collect(odd, true);
  } else {
    hopper::products_wait<0>();
    collect(even, true);
  }
}

template <class Cfg, class Stage, class Load, class Compute, class Finish>
MT_DEVICE void warpgroup_mainloop(Context& ctx, const tile_space& space, Load load, Compute compute, Finish finish) {
  using Traits = warpgroup_traits<Cfg>;
  using T = typename decltype(Stage::a)::element;
  using Acc = acc_of<Cfg, T>;
  auto& memory = *reinterpret_cast<warpgroup_memory<Cfg, Stage>*>((reinterpret_cast<uintptr_t>(ctx.scratch) + 1023) &
                                                                  ~uintptr_t{1023});
  const int thread = thread_number(), warpgroup = same_for_all(thread / 128), warp = same_for_all(thread / 32),
            lane = thread % 32;
  const uint32_t rank = Cfg::cluster > 1 ? hopper::cluster_rank() : 0;
  const uint32_t full = shared_address(memory.full), empty = shared_address(memory.empty);
  if (thread == 0) {
    for (int s = 0; s < Cfg::stages; ++s) {
      hopper::barrier_init(full + 8 * s, 1);
      hopper::barrier_init(empty + 8 * s, Traits::parts * 4 * Cfg::cluster);  // one arrival per multiplying warp
    }
    hopper::fence_barrier_init();
  }
  if constexpr (Cfg::cluster > 1) {
    hopper::cluster_sync();
  } else {
    ctx.barrier();
  }
  const int total = tile_count<Cfg>(space), first = program_number() / Cfg::cluster,
            stride = program_count() / Cfg::cluster;

  if (warpgroup == 0) {
    hopper::give_registers<Traits::producer_registers>();
    if (warp == 0 && hopper::elect_one()) {
      ring_cursor<Cfg::stages> cursor;
      for (int i = first; i < total; i += stride) {
        const tile_coord t = tile_at<Cfg>(space, i, static_cast<int>(rank));
        for (int k = 0; k < space.k; ++k) {
          hopper::barrier_wait(empty + 8 * cursor.at, cursor.phase ^ 1);
          copy_context<Cfg> cx{space, full + 8 * cursor.at, rank};
          load(cx, memory.stage[cursor.at], t, k);
          hopper::barrier_arrive(cx.full);
          cursor.next();
        }
      }
    }
  } else {
    hopper::take_registers<Traits::consumer_registers>();
    const int number = warpgroup - 1;
    constexpr int kWarpSlots = Traits::result_slots * Traits::slot_bytes;
    product_context<Cfg, T> cx{
        space, Traits::parts > 1 ? number : 0, thread % 128, shared_address(memory.result) + (warp - 4) * kWarpSlots};
    const auto release = [&](int stage) {
      if constexpr (Cfg::cluster > 1) {
        if (lane < Cfg::cluster) hopper::barrier_arrive_remote(empty + 8 * stage, lane);
      } else {
        if (lane == 0) hopper::barrier_arrive(empty + 8 * stage);
      }
    };
    constexpr int kTurn = 4;  // named barriers 4 and 5: the matrix units are this warpgroup's
    int lag = number == 0 ? Cfg::lag : 0;  // stages until the other warpgroup may start
    const auto let_start = [&] {
      lag = 0;
      hopper::named_barrier_arrive(kTurn, 256);
    };
    Acc acc;
    ring_cursor<Cfg::stages> cursor;
    int i = first;
    if constexpr (Traits::turns) {
      if (number == 1) {
        i += stride;
        cursor.skip(space.k);
        hopper::named_barrier_arrive(kTurn, 256);
      }
    }
    if constexpr (Cfg::lag > 0) {
      static_assert(kShortSums<T> && Traits::parts == 2, "two warpgroups that share a tile, of sums of stages");
      if (number == 1 && i < total) hopper::named_barrier_sync(kTurn, 256);
    }
    for (; i < total; i += Traits::turns ? 2 * stride : stride) {
      tile_coord t;
      if constexpr (!kShortSums<T>) t = tile_at<Cfg>(space, i, static_cast<int>(rank));
      if constexpr (Traits::turns) hopper::named_barrier_sync(kTurn + number, 256);
      if constexpr (kShortSums<T>) {
        static_assert(!Traits::turns, "both warpgroups add up stages of the same tile");
        add_stages(
            acc, space.k, cursor, [&](int stage, uint32_t phase) { hopper::barrier_wait(full + 8 * stage, phase); },
            [&](auto& sums, int stage) { compute(cx, sums, memory.stage[stage]); },
            [&](int stage) {
              release(stage);
              if (Cfg::lag > 0 && lag != 0 && --lag == 0) let_start();
            },
            [&] { t = tile_at<Cfg>(space, i, static_cast<int>(rank)); });
        if (Cfg::lag > 0 && lag != 0) let_start();
        finish(cx, acc, t);
      } else {
        acc.keep = 0;
        int previous = cursor.at;
        hopper::barrier_wait(full + 8 * cursor.at, cursor.phase);
        compute(cx, acc, memory.stage[cursor.at]);
        cursor.next();
        MT_NO_UNROLL
        for (int k = 1; k < space.k; ++k) {
          hopper::barrier_wait(full + 8 * cursor.at, cursor.phase);
          compute(cx, acc, memory.stage[cursor.at]);
          hopper::products_wait<1>();
          release(previous);
          previous = cursor.at;
          cursor.next();
        }
        if constexpr (Traits::turns) {
          hopper::named_barrier_arrive(kTurn + (number ^ 1), 256);
          cursor.skip(space.k);
        }
        hopper::products_wait<0>();
        MT_UNROLL
        for (int s = 0; s < Acc::slabs; ++s) hopper::pin(acc.d[s]);
        release(previous);
        finish(cx, acc, t);
      }
    }
    hopper::wait_stores_read<0>();
  }
  if constexpr (Cfg::cluster > 1) hopper::cluster_sync();  // none leaves while others still signal to it
}

template <class Cfg, class Stage>
struct alignas(1024) split_memory {
  union {
    Stage stage[Cfg::stages];
    sum_of<typename decltype(Stage::a)::element> sums[warpgroup_traits<Cfg>::by_stage ? 2 * Cfg::bm * Cfg::bn : Cfg::bm * Cfg::bn];  ///< element by element of the fragments, all lanes side by side
  };
  alignas(8) uint64_t full[Cfg::stages];
  uint64_t empty[Cfg::stages];
};

/// Few tiles, many steps: the programs of a cluster take a stretch of the steps each and leave their sums in their
/// shared memory; then each adds up some columns, in the order of the stretches, and finishes them. Where a tile has 64 rows, the two warpgroups
/// of a program take its steps in turns and leave two sums.
template <class Cfg, class Stage, class Load, class Compute, class Finish>
MT_DEVICE void split_mainloop(Context& ctx, const tile_space& space, Load load, Compute compute, Finish finish) {
  using T = typename decltype(Stage::a)::element;
  using Acc = acc_of<Cfg, T>;
  using Traits = warpgroup_traits<Cfg>;
  constexpr bool kByStage = Traits::by_stage;
  static_assert(Acc::slabs == 1 && sizeof(Stage) * Cfg::stages >= sizeof(float) * (kByStage ? 2 : 1) * Cfg::bm * Cfg::bn);
  static_assert(!kByStage || !kShortSums<T>, "stages in turns have one set of sums");
  auto& memory = *reinterpret_cast<split_memory<Cfg, Stage>*>((reinterpret_cast<uintptr_t>(ctx.scratch) + 1023) &
                                                              ~uintptr_t{1023});
  const int thread = thread_number(), warpgroup = same_for_all(thread / 128), warp = same_for_all(thread / 32),
            lane = thread % 32;
  const uint32_t full = shared_address(memory.full), empty = shared_address(memory.empty);
  if (thread == 0) {
    for (int s = 0; s < Cfg::stages; ++s) {
      hopper::barrier_init(full + 8 * s, 1);
      hopper::barrier_init(empty + 8 * s, kByStage ? 4 : 8);  // one arrival per warp that multiplies it
    }
    hopper::fence_barrier_init();
  }
  ctx.barrier();
  const int rank = static_cast<int>(hopper::cluster_rank()), size = static_cast<int>(hopper::cluster_size());
  const tile_coord t = tile_at<Cfg>(space, program_number() / size);
  const int first = space.k * rank / size, last = space.k * (rank + 1) / size;
  constexpr int kGroup = 8, kGroups = Acc::atom::c_elements / kGroup, kGroupCols = Cfg::bn / kGroups;
  const uint32_t sums = shared_address(memory.sums) + (kByStage ? thread % 128 : thread - 128) * 4;
  constexpr int kNext = 256 * 4;  // bytes between elements
  product_context<Cfg, T> cx{space, kByStage ? 0 : warpgroup - 1, thread % 128, 0};

  ring_cursor<Cfg::stages> cursor;
  if (warpgroup == 0) {
    if constexpr (kShortSums<T>) hopper::give_registers<Traits::producer_registers>();
    if (warp == 0 && hopper::elect_one()) {
      for (int k = first; k < last; ++k) {
        hopper::barrier_wait(empty + 8 * cursor.at, cursor.phase ^ 1);
        copy_context<Cfg> copies{space, full + 8 * cursor.at, 0};
        load(copies, memory.stage[cursor.at], t, k);
        hopper::barrier_arrive(copies.full);
        cursor.next();
      }
    }
  } else {
    Acc acc;
    if constexpr (kShortSums<T>) {
      hopper::take_registers<Traits::consumer_registers>();
      add_stages(
          acc, last - first, cursor, [&](int stage, uint32_t phase) { hopper::barrier_wait(full + 8 * stage, phase); },
          [&](auto& sums, int stage) { compute(cx, sums, memory.stage[stage]); },
          [&](int stage) {
            if (lane == 0) hopper::barrier_arrive(empty + 8 * stage);
          },
          [] {});
    } else {
      acc.keep = 0;
      int previous = -1;
      if (first + (kByStage ? warpgroup - 1 : 0) >= last) {  // no step: nothing would set the sums
        MT_UNROLL
        for (int e = 0; e < Acc::atom::c_elements; ++e) acc.d[0][e] = 0;
      }
      if (kByStage) cursor.skip(warpgroup - 1);
      MT_NO_UNROLL
      for (int k = first + (kByStage ? warpgroup - 1 : 0); k < last; k += kByStage ? 2 : 1) {
        hopper::barrier_wait(full + 8 * cursor.at, cursor.phase);
        compute(cx, acc, memory.stage[cursor.at]);
        hopper::products_wait<1>();
        if (previous >= 0 && lane == 0) hopper::barrier_arrive(empty + 8 * previous);
        previous = cursor.at;
        if constexpr (kByStage) {
          cursor.skip(2);
        } else {
          cursor.next();
        }
      }
    }
    hopper::products_wait<0>();
    hopper::pin(acc.d[0]);
    hopper::named_barrier_sync(1, 256);  // stages are read to their end: their memory is free
    MT_UNROLL
    for (int e = 0; e < Acc::atom::c_elements; ++e) memory.sums[e * 256 + thread - 128] = acc.d[0][e];
  }
  wave_sync();
  hopper::cluster_sync();
  if (warpgroup != 0) {
    for (int g = kByStage ? 2 * rank + warpgroup - 1 : rank; g < kGroups; g += kByStage ? 2 * size : size) {
      warpgroup_acc<64, kGroupCols, sum_of<T>> part;
      MT_UNROLL
      for (int e = 0; e < kGroup; ++e) part.d[0][e] = 0;
      for (int q = 0; q < size; ++q) {
        MT_UNROLL
        for (int e = 0; e < kGroup; ++e) {
          MT_UNROLL
          for (int half = 0; half < (kByStage ? 2 : 1); ++half)
            part.d[0][e] += __builtin_bit_cast(sum_of<T>, hopper::load_remote(sums + (g * kGroup + e) * kNext + half * 512, q));
        }
      }
      finish(cx, part, tile_coord{t.batch, t.m, t.n + g * kGroupCols});
    }
  }
  wave_sync();
  hopper::cluster_sync();  // none leaves while others read its sums
}

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME
