#pragma once
// Chained products on Hopper: a persistent grid in which one warpgroup keeps the copy engine busy and the others, 64
// rows of the tile each, multiply in turns. While one has the matrix unit the others turn scores into weights; and the
// second product of a block runs under the weighing of the next one. sm_90a only.

#include <cstddef>

#include "monotile/lang/backend/cuda/chain_unit.hpp"
#include "monotile/lang/backend/simt/chain.hpp"

namespace monotile::lang::inline MONOTILE_TARGET_NAME {

template <class Cfg>
struct warpgroup_chain_traits {
  static constexpr int consumers = Cfg::bm / 64, threads = 128 * (1 + consumers);
  /// Registers per lane: 168 at launch; the copying warpgroup gives most of its own away. With 40 and 232 the others spill
  /// 16 bytes (head dimension 128).
  static constexpr int producer_registers = 24, consumer_registers = 240;
  static constexpr int result_slots = 2, slot_bytes = 16 * 128;  ///< per warp, blocks of 16 rows on their way out
  static_assert(consumers == 2, "registers are shared out for two multiplying warpgroups");
};

template <int Stages>
struct chain_barriers {
  uint64_t full[Stages], empty[Stages];
};
template <class Cfg, class T>
struct alignas(1024) warpgroup_chain_memory {
  smem_tile<T, Cfg::bm, Cfg::da, along::m> a;
  smem_tile<T, Cfg::bn, Cfg::da, along::n> b[Cfg::stages];
  smem_tile<T, Cfg::bn, Cfg::dc, along::n> c[Cfg::stages];
  unsigned char result[warpgroup_chain_traits<Cfg>::consumers * 4 * warpgroup_chain_traits<Cfg>::result_slots *
                       warpgroup_chain_traits<Cfg>::slot_bytes];
  alignas(8) chain_barriers<1> a_at;
  chain_barriers<Cfg::stages> b_at, c_at;
};

/// The copying warp's view.
template <class Cfg>
struct chain_copies {
  uint32_t full;  ///< barrier of what is being filled
  int lane;
};
/// A multiplying warp's view: 16 of the 64 rows of its warpgroup.
template <class Cfg, class T>
struct chain_consumer {
  using storage = T;
  template <int R>
  using rows_of = row_values<mma_rows, R>;
  using rows = rows_of<16>;
  int first_row;
  int thread;              ///< in the warpgroup
  unsigned char* results;  ///< slots of all warps
  MT_DEVICE int lane(int) const { return thread % 32; }
  MT_DEVICE unsigned char* slots() const {
    using Traits = warpgroup_chain_traits<Cfg>;
    return results + first_row / 16 * (Traits::result_slots * Traits::slot_bytes);
  }
};

/// A place in a ring, waiting and handing over: one number, and addresses that follow from where the memory of the
/// program starts. What is kept apart takes registers.
template <int Stages, int Offset>
struct chain_cursor {
  static_assert((Stages & (Stages - 1)) == 0, "a power of two");
  uint32_t memory;
  uint32_t count = 0;
  MT_DEVICE explicit chain_cursor(uint32_t memory_) : memory(memory_) {}
  MT_DEVICE int at() const { return static_cast<int>(count % Stages); }
  MT_DEVICE uint32_t full() const { return memory + Offset + 8 * at(); }
  MT_DEVICE uint32_t empty() const { return memory + Offset + 8 * Stages + 8 * at(); }
  MT_DEVICE void init(int arrivals) const {
    for (int s = 0; s < Stages; ++s) {
      hopper::barrier_init(memory + Offset + 8 * s, 1);
      hopper::barrier_init(memory + Offset + 8 * Stages + 8 * s, arrivals);
    }
  }
  MT_DEVICE void next() { ++count; }
  MT_DEVICE void wait_full() const { hopper::barrier_wait(full(), count / Stages & 1); }
  MT_DEVICE void wait_empty() const { hopper::barrier_wait(empty(), (count / Stages & 1) ^ 1); }
  /// One arrival per warp.
  MT_DEVICE void release(int lane) {
    if (lane == 0) hopper::barrier_arrive(empty());
    next();
  }
};

/// Boxes are shared out among the lanes of the copying warp, each looks up the place of its own. Boxes that do not exist
/// lie outside the view, where the copy engine reads zeros.
template <class Cfg, class T, int R, int C, along A, class Place>
MT_DEVICE void copy_boxes(chain_copies<Cfg>& cx, smem_tile<T, R, C, A>& to, const box_view& from, Place place) {
  using Tile = smem_tile<T, R, C, A>;
  static_assert(Tile::row_bytes == 128, "the copy engine and the matrix unit agree on 128-byte panels");
  const int rows = from.box_x * from.box_y, boxes = A == along::m ? 1 : R / rows;
  if (cx.lane == 0) hopper::barrier_expect(cx.full, boxes * rows * C * static_cast<int>(sizeof(T)));
  __syncwarp();
  MT_NO_UNROLL
  for (int i = cx.lane; i < boxes * Tile::panels; i += 32) {
    const int box = i / Tile::panels, panel = i - box * Tile::panels;
    const box_at at = place(box);
    hopper::copy_box(shared_address(to.data) + panel * Tile::panel_bytes + box * rows * 128, from.map, cx.full,
                     panel * Tile::panel_cols, at.x, at.y, at.z);
  }
  __syncwarp();
  if (cx.lane == 0) hopper::barrier_arrive(cx.full);
}

/// s = a b^T, issued.
template <class Cfg, class T, int N, int M, int K>
MT_DEVICE void issue_first(chain_consumer<Cfg, T>& cx, row_acc<mma_rows, 16, N>& s,
                           const smem_tile<T, M, K, along::m>& a, const smem_tile<T, N, K, along::n>& b) {
  constexpr int kStep = 32;  // bytes of k per instruction
  const uint64_t from_a = hopper::operand_at(shared_address(a.data) + cx.first_row / 64 * 64 * 128),
                 from_b = hopper::operand_at(shared_address(b.data));
  hopper::products_begin();
  MT_UNROLL
  for (int k = 0; k < K * static_cast<int>(sizeof(T)) / kStep; ++k) {
    const int panel = k / 4, within = k % 4 * kStep;
    hopper::warpgroup_product<T, N>::issue(reinterpret_cast<float(&)[N / 2]>(s.d),
                                           from_a + (panel * M * 128 + within) / 16,
                                           from_b + (panel * N * 128 + within) / 16, k);
  }
  hopper::products_close();
}
/// o += weights c, issued.
template <class Cfg, class T, int N, int D>
MT_DEVICE void issue_second(chain_consumer<Cfg, T>&, row_acc<mma_rows, 16, D>& o,
                            const row_operand<mma_rows, 16, N>& weights, const smem_tile<T, N, D, along::n>& c) {
  const uint64_t from = hopper::operand_at(shared_address(c.data), N * 128);
  hopper::products_begin();
  MT_UNROLL
  for (int k = 0; k < N / 16; ++k) {
    hopper::warpgroup_product_of_registers<T, D>::issue(reinterpret_cast<float(&)[D / 2]>(o.d), weights.w[0][k],
                                                        from + k * 16 * 128 / 16);
  }
  hopper::products_close();
}
template <int N>
MT_DEVICE void pin(row_acc<mma_rows, 16, N>& acc) {
  hopper::pin(reinterpret_cast<float(&)[N / 2]>(acc.d));
}

/// Whole blocks of 16 x 64 leave by way of a slot of the warp and the copy engine.
template <class Cfg, class T, int D>
MT_DEVICE void store_rows(chain_consumer<Cfg, T>& cx, const box_view& to, const box_at& at,
                          row_acc<mma_rows, 16, D>& acc) {
  if (!to.vectors || to.cols % 8 != 0 || 16 % to.box_x != 0 || cx.first_row + 16 > at.rows)
    return store_rows_from_registers(cx, to, at, acc);
  using Traits = warpgroup_chain_traits<Cfg>;
  constexpr int kSlots = Traits::result_slots;
  const int lane = cx.lane(0), row = lane % 16, half = lane / 16;
  MT_UNROLL
  for (int b = 0; b < D / 64; ++b) {
    if (b * 64 >= to.cols) break;
    const uint32_t slot = shared_address(cx.slots()) + b % kSlots * Traits::slot_bytes;
    if (lane == 0) hopper::wait_stores_read<kSlots - 1>();
    __syncwarp();
    MT_UNROLL
    for (int j = 0; j < 4; ++j) {
      const auto& left = acc.d[0][b * 8 + 2 * j];
      const auto& right = acc.d[0][b * 8 + 2 * j + 1];
      hopper::stmatrix4(slot + swizzle<128>::offset(row, 2 * j + half), round_pair<T>(left[0][0], left[1][0]),
                        round_pair<T>(left[2][0], left[3][0]), round_pair<T>(right[0][0], right[1][0]),
                        round_pair<T>(right[2][0], right[3][0]));
    }
    hopper::fence_for_copies();
    __syncwarp();
    if (lane == 0) {
      hopper::store_box(to.map, slot, b * 64, at.x, at.y + cx.first_row / to.box_x, at.z);
      hopper::close_stores();
    }
  }
}

/// Rows of c from `rows` on do not exist, but the copy engine brought what lies there: pages have unused slots. Every
/// warpgroup clears them for itself.
template <class T, int R, int C, along A>
MT_DEVICE void clear_rows_from(smem_tile<T, R, C, A>& tile, int rows, int thread, int barrier) {
  using Tile = smem_tile<T, R, C, A>;
  constexpr int kChunks = C / 8;
  MT_NO_UNROLL
  for (int i = rows * kChunks + thread; i < R * kChunks; i += 128) {
    asm volatile("st.shared.v4.u32 [%0], {%1, %1, %1, %1};" ::"r"(shared_address(tile.data) +
                                                                  Tile::offset(i / kChunks, i % kChunks)),
                 "r"(0)
                 : "memory");
  }
  hopper::fence_for_copies();  // matrix unit and copy engine come after these stores
  hopper::named_barrier_sync(barrier, 128);
}

template <class Cfg, class Body>
MT_DEVICE void warpgroup_chain(Context& ctx, const Body& body, int total) {
  using T = typename Body::element;
  using Traits = warpgroup_chain_traits<Cfg>;
  auto& memory = *reinterpret_cast<warpgroup_chain_memory<Cfg, T>*>((reinterpret_cast<uintptr_t>(ctx.scratch) + 1023) &
                                                                    ~uintptr_t{1023});
  const int thread = static_cast<int>(threadIdx.x), warpgroup = __shfl_sync(~0u, thread / 128, 0),
            warp = __shfl_sync(~0u, thread / 32, 0), lane = thread % 32;
  using Memory = warpgroup_chain_memory<Cfg, T>;
  const uint32_t base = shared_address(&memory);
  chain_cursor<1, static_cast<int>(offsetof(Memory, a_at))> a(base);
  chain_cursor<Cfg::stages, static_cast<int>(offsetof(Memory, b_at))> b(base);
  chain_cursor<Cfg::stages, static_cast<int>(offsetof(Memory, c_at))> c(base);
  if (thread == 0) {
    a.init(Traits::consumers * 4);  // one arrival per multiplying warp
    b.init(Traits::consumers * 4);
    c.init(Traits::consumers * 4);
    hopper::fence_barrier_init();
  }
  __syncthreads();
  // Every second round backwards: tiles get shorter along the way, so nobody always takes the longest of a round.
  const int programs = static_cast<int>(gridDim.x), program = static_cast<int>(blockIdx.x);
  const auto tile_of_round = [&](int round) {
    return round * programs + ((round & 1) != 0 ? programs - 1 - program : program);
  };

  if (warpgroup == 0) {
    hopper::give_registers<Traits::producer_registers>();
    if (warp != 0) return;
    for (int round = 0; round * programs < total; ++round) {
      if (tile_of_round(round) >= total) continue;
      const auto t = body.tile(tile_of_round(round));
      if (!t.exists) continue;
      int j = body.after(t, body.blocks(t));
      if (j < 0) continue;
      a.wait_empty();
      chain_copies<Cfg> to_a{a.full(), lane};
      body.load_a(to_a, memory.a, t);
      a.next();
      // The order in which they are multiplied: b one block ahead of c.
      int previous = -1;
      while (j >= 0 || previous >= 0) {
        if (j >= 0) {
          b.wait_empty();
          chain_copies<Cfg> to_b{b.full(), lane};
          body.load_b(to_b, memory.b[b.at()], t, j);
          b.next();
        }
        if (previous >= 0) {
          c.wait_empty();
          chain_copies<Cfg> to_c{c.full(), lane};
          body.load_c(to_c, memory.c[c.at()], t, previous);
          c.next();
        }
        previous = j;
        if (j >= 0) j = body.after(t, j);
      }
    }
    return;
  }
  hopper::take_registers<Traits::consumer_registers>();
  const int number = warpgroup - 1;
  constexpr int kOwn = 1, kTurn = 4;  // named barriers: 1 and 2 of a warpgroup, 4 and 5 the matrix unit is its own
  chain_consumer<Cfg, T> cx{number * 64 + warp % 4 * 16, thread % 128, memory.result};
  const auto own_number = [&] { return unforeseen(cx.first_row) / 64; };  // rather than in a register all the time
  const auto in_turn = [&](auto issue) {
    hopper::named_barrier_sync(kTurn + own_number(), 256);
    issue();
    hopper::named_barrier_arrive(kTurn + (own_number() + 1) % Traits::consumers, 256);
  };
  if (number == Traits::consumers - 1) hopper::named_barrier_arrive(kTurn, 256);
  row_acc<mma_rows, 16, Cfg::bn> s;
  row_acc<mma_rows, 16, Cfg::dc> o;
  row_operand<mma_rows, 16, Cfg::bn> weights;
  const auto scale = [](float x, float r) { return x * r; };
  // The block before is multiplied with its c, this one with b and weighed meanwhile. Blocks that hide something wait for
  // both products, since masks want the registers; and in one path with a branch inside, the wait for the second product
  // would move before the weighing of all blocks.
  const auto overlapped = [&](int block, auto& state, const auto& t, auto hides) {
    const auto finish_second = [&] {
      hopper::products_wait<0>();
      pin(o);
      c.release(lane);
    };
    b.wait_full();
    in_turn([&] {
      issue_first(cx, s, memory.a, memory.b[b.at()]);
      issue_second(cx, o, weights, memory.c[c.at()]);
    });
    if constexpr (hides) {
      finish_second();
    } else {
      hopper::products_wait<1>();
    }
    pin(s);
    b.release(lane);
    const auto rescale = body.weigh(cx, state, s, t, block, hides);
    if constexpr (!hides) {
      hopper::not_before(body.witness(state));
      finish_second();
    }
    scale_rows(cx, o, rescale, scale);
    as_operand<T>(weights, s);
  };
  for (int round = 0; round * programs < total; ++round) {
    if (tile_of_round(round) >= total) continue;
    const auto t = body.tile(tile_of_round(round));
    if (!t.exists) continue;
    clear(cx, o);
    auto state = body.begin(cx);
    int j = body.after(t, body.blocks(t));
    if (j >= 0) a.wait_full();
    while (j >= 0) {  // once, but for blocks that are multiplied one by one
      b.wait_full();
      in_turn([&] { issue_first(cx, s, memory.a, memory.b[b.at()]); });
      hopper::products_wait<0>();
      pin(s);
      b.release(lane);
      scale_rows(cx, o, body.weigh(cx, state, s, t, j, body.hides(t, j)), scale);
      as_operand<T>(weights, s);
      int block = j;  // whose weights are waiting for c
      bool one_by_one;
      j = body.after(t, j);
      while (true) {
        c.wait_full();
        if (const int rows = body.rows_of_block(t, block); rows < Cfg::bn)
          clear_rows_from(memory.c[c.at()], rows, cx.thread, kOwn + own_number());
        one_by_one =
            body.partial(t, block) &&
            hopper::named_barrier_any(kOwn + own_number(), 128, share_is_unbounded(memory.c[c.at()], cx.thread, 128));
        if (one_by_one || j < 0) break;
        if (body.hides(t, j)) {
          overlapped(j, state, t, known<true>{});
        } else {
          overlapped(j, state, t, known<false>{});
        }
        block = j;
        j = body.after(t, j);
      }
      if (j < 0) a.release(lane);
      if (one_by_one) {
        if (lane == 0) hopper::wait_stores_read<0>();
        product_of_seen<Cfg::bn>(cx, o, weights, memory.c[c.at()], reinterpret_cast<T*>(cx.slots()));
        static_assert(Traits::result_slots * Traits::slot_bytes >= 16 * Cfg::bn * static_cast<int>(sizeof(T)));
      } else {
        in_turn([&] { issue_second(cx, o, weights, memory.c[c.at()]); });
        hopper::products_wait<0>();
        pin(o);
      }
      c.release(lane);
    }
    body.finish(cx, state, o, t);
  }
  if (lane == 0) hopper::wait_stores_read<0>();
}

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME
