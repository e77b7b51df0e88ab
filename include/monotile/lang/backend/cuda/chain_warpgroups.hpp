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
  /// Registers per lane: shared out evenly at launch, then the copying warpgroup gives most of its own away. With 40 and
  /// 232 two multiplying warpgroups spill 16 bytes at 128 columns, with 24 the copying one 8 bytes at 64.
  static constexpr int producer_registers = consumers == 3 ? 32 : Cfg::dc > 64 ? 24 : 40;
  static constexpr int consumer_registers = consumers == 3 ? 160 : Cfg::dc > 64 ? 240 : 232;
  static constexpr int inspectors = 3;                           ///< warps
  static constexpr int result_slots = 2, slot_bytes = 16 * 128;  ///< per warp, blocks of 16 rows on their way out
  static_assert(consumers == 2 || consumers == 3, "registers are shared out for two or three multiplying warpgroups");
};

template <int Stages>
struct chain_barriers {
  uint64_t full[Stages], empty[Stages];
};
/// What is known about a block, in one word: its number and what is to be done with it.
struct chain_block {
  int word;
  static constexpr int partial = 1, cut = 2, last = 4, bits = 3;  ///< cut: rows of it do not exist
  MT_DEVICE int number() const { return word >> bits; }
  MT_DEVICE bool is(int what) const { return (word & what) != 0; }
  MT_DEVICE bool hides() const { return is(partial | cut); }
};
template <class Body>
using tile_of_chain = decltype(static_cast<const Body*>(nullptr)->tile(0));

template <class Cfg, class T, class Tile>
struct alignas(1024) warpgroup_chain_memory {
  smem_tile<T, Cfg::bm, Cfg::da, along::m> a;
  smem_tile<T, Cfg::bn, Cfg::da, along::n> b[Cfg::stages];
  smem_tile<T, Cfg::bn, Cfg::dc, along::n> c[Cfg::stages];
  unsigned char result[warpgroup_chain_traits<Cfg>::consumers * 4 * warpgroup_chain_traits<Cfg>::result_slots *
                       warpgroup_chain_traits<Cfg>::slot_bytes];
  alignas(8) chain_barriers<1> a_at;
  chain_barriers<Cfg::stages> b_at, c_at;
  uint64_t inspected[Cfg::stages];
  // Written by the copying warp before it hands over a, b, c.
  Tile tile[2];            ///< of two, since a tile is finished after its a is released
  int tiles[2];            ///< 0: there are no more; 1: the tile sees no block; 2: it does
  int block[Cfg::stages];  ///< chain_block of b
  int look[Cfg::stages];   ///< chain_block of c if it is to be inspected; 0: it is not; -1: there are no more blocks
  int rows[Cfg::stages];   ///< of c that exist
  int unbounded[Cfg::stages];  ///< is there an inf or NaN in c? Looked for where weights may be 0 on purpose.
};

/// From shared memory, now.
MT_DEVICE int load_word(const int& word) {
  int v;
  asm volatile("ld.shared.s32 %0, [%1];" : "=r"(v) : "r"(shared_address(&word)) : "memory");
  return v;
}
/// v, the same for all lanes of a warp, and the compiler knows.
MT_DEVICE int same_for_all(int v) { return __shfl_sync(~0u, v, 0); }

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

/// The same while the second product of the block before is under way: `finish` waits for it.
template <class Cfg, class T, class Finish>
struct chain_meanwhile : chain_consumer<Cfg, T> {
  Finish finish;
};
/// Scores become weights, and half way through the second product is waited for: the first half runs under it, and the
/// second is mixed with what its sums are needed for.
template <class Cfg, class T, class Finish, class Layout, int R, int C, class F>
MT_DEVICE void scale_rows(chain_meanwhile<Cfg, T, Finish>& cx, row_acc<Layout, R, C>& acc,
                          const row_values<Layout, R>& values, F f) {
  using Acc = row_acc<Layout, R, C>;
  constexpr int kHalf = Acc::wide / 2;
  const auto columns = [&](int first, int end) {
    MT_UNROLL
    for (int j = first; j < end; ++j) {
      MT_UNROLL
      for (int e = 0; e < Layout::elements; ++e)
        acc.d[0][j][e][0] = f(acc.d[0][j][e][0], values.v[slot_of<Layout>(0, e)][0]);
    }
  };
  columns(0, kHalf);
  hopper::not_before(acc.d[0][kHalf - 1][Layout::elements - 1][0]);
  cx.finish();
  columns(kHalf, Acc::wide);
}

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
  MT_DEVICE uint32_t parity() const { return count / Stages & 1; }
  MT_DEVICE void wait_full() const { hopper::barrier_wait(full(), parity()); }
  MT_DEVICE void wait_empty() const { hopper::barrier_wait(empty(), parity() ^ 1); }
  /// One arrival per warp.
  MT_DEVICE void release(int lane) { release_if(true, lane); }
  MT_DEVICE void release_if(bool so, int lane) {  // without a branch
    if (so & (lane == 0)) hopper::barrier_arrive(empty());
    count += so ? 1 : 0;
  }
};

/// Boxes are shared out among the lanes of the copying warp, each looks up the place of its own. Boxes that do not exist
/// lie outside the view, where the copy engine reads zeros.
template <class Cfg, class T, int R, int C, along A, class Place>
MT_DEVICE void copy_boxes(chain_copies<Cfg>& cx, smem_tile<T, R, C, A>& to, const box_view& from, Place place) {
  using Tile = smem_tile<T, R, C, A>;
  static_assert(Tile::row_bytes == 128, "the copy engine and the matrix unit agree on 128-byte panels");
  const int rows = from.box_x * from.box_y,
            boxes = A == along::m || rows >= R ? 1 : R / rows;  // divided where it must be
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

/// s = a b^T, issued: a tile of M rows and one of N, by where they lie.
template <int M, int K, class Cfg, class T, int N>
MT_DEVICE void issue_first(chain_consumer<Cfg, T>&, row_acc<mma_rows, 16, N>& s, uint32_t a, uint32_t b) {
  constexpr int kStep = 32;  // bytes of k per instruction
  const uint64_t from_a = hopper::operand_at(a), from_b = hopper::operand_at(b);
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
                            const row_operand<mma_rows, 16, N>& weights, uint32_t c) {
  const uint64_t from = hopper::operand_at(c, N * 128);
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
  const bool single = to.box_x == 1;  // without divisions
  if (!to.vectors || to.cols % 8 != 0 || (!single && 16 % to.box_x != 0) || cx.first_row + 16 > at.rows)
    return store_rows_from_registers(cx, to, at, acc);
  using Traits = warpgroup_chain_traits<Cfg>;
  constexpr int kSlots = Traits::result_slots;
  // Places within slots are computed here, not kept in registers.
  const int lane = unforeseen(cx.thread) % 32, row = lane % 16, half = lane / 16;
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
      hopper::store_box(to.map, slot, b * 64, at.x, at.y + (single ? cx.first_row : cx.first_row / to.box_x), at.z);
      hopper::close_stores();
    }
  }
}

/// Rows of c from `rows` on do not exist, but the copy engine brought what lies there (pages have unused slots): they
/// become 0. True if this lane saw an inf or a NaN in the others.
template <class T, int R, int C, along A>
MT_DEVICE bool clean_rows(smem_tile<T, R, C, A>& tile, int rows, bool look, int lane, int lanes) {
  using Tile = smem_tile<T, R, C, A>;
  constexpr int kChunks = C / 8;
  uint32_t found = 0;
#pragma unroll 2
  for (int i = (look ? 0 : rows * kChunks) + lane; i < R * kChunks; i += lanes) {
    unsigned char* const place = tile.data + Tile::offset(i / kChunks, i % kChunks);
    if (i >= rows * kChunks) {
      asm volatile("st.shared.v4.u32 [%0], {%1, %1, %1, %1};" ::"r"(shared_address(place)), "r"(0) : "memory");
    } else {
      found |= carries_of_unbounded<T>(load_shared16(place));
    }
  }
  return found != 0;
}

/// The copying warp: finds tiles and blocks, and tells the others.
template <class Cfg, class Body, class Memory, class A, class B, class C>
MT_DEVICE void copy_chain(const Body& body, Memory& memory, int total, int lane, A a, B b, C c) {
  // Every second round backwards: tiles get shorter along the way, so nobody always takes the longest of a round.
  const int programs = static_cast<int>(gridDim.x), program = static_cast<int>(blockIdx.x);
  for (int round = 0; round * programs < total; ++round) {
    const int index = round * programs + ((round & 1) != 0 ? programs - 1 - program : program);
    if (index >= total) continue;
    const auto t = body.tile(index);
    if (!t.exists) continue;
    // A block with what is to be done with it, or -1.
    const auto described = [&](int j) {
      if (j < 0) return -1;
      const bool partial = body.partial(t, j), cut = body.rows_of_block(t, j) < Cfg::bn;
      return j << chain_block::bits | (partial ? chain_block::partial : 0) | (cut ? chain_block::cut : 0);
    };
    int now = described(body.after(t, body.blocks(t))), previous = -1;
    const bool any = now >= 0;
    bool first = true;
    while (first || now >= 0 || previous >= 0) {
      // The order in which they are multiplied: b one block ahead of c.
      int next = -1;
      if (now >= 0) {
        next = described(body.after(t, now >> chain_block::bits));
        b.wait_empty();
        if (lane == 0) memory.block[b.at()] = now | (next < 0 ? chain_block::last : 0);
        chain_copies<Cfg> to_b{b.full(), lane};
        body.load_b(to_b, memory.b[b.at()], t, now >> chain_block::bits);
        b.next();
      }
      if (first) {  // after b, whose memory is free earlier
        first = false;
        a.wait_empty();
        if (lane == 0) {
          memory.tile[a.count % 2] = t;
          memory.tiles[a.count % 2] = any ? 2 : 1;
        }
        chain_copies<Cfg> to_a{a.full(), lane};
        if (any) {
          body.load_a(to_a, memory.a, t);
        } else if (lane == 0) {
          hopper::barrier_arrive(a.full());
        }
        a.next();
      }
      if (previous >= 0) {
        const chain_block block{previous};
        c.wait_empty();
        if (lane == 0) {
          memory.look[c.at()] = block.hides() ? previous : 0;
          memory.rows[c.at()] = body.rows_of_block(t, block.number());
          memory.unbounded[c.at()] = 0;
        }
        chain_copies<Cfg> to_c{c.full(), lane};
        body.load_c(to_c, memory.c[c.at()], t, block.number());
        c.next();
      }
      previous = now;
      now = next;
    }
  }
  a.wait_empty();
  c.wait_empty();
  if (lane == 0) {
    memory.tiles[a.count % 2] = 0;
    memory.look[c.at()] = -1;
    hopper::barrier_arrive(a.full());
    hopper::barrier_arrive(c.full());
  }
}
/// Warps that look at blocks of c before they are multiplied, where that is needed.
template <class Cfg, class Memory, class C>
MT_DEVICE void inspect_chain(Memory& memory, int number, int lane, C c) {
  constexpr int kWarps = warpgroup_chain_traits<Cfg>::inspectors;
  while (true) {
    c.wait_full();
    const chain_block block{load_word(memory.look[c.at()])};
    if (block.word < 0) return;
    if (block.hides()) {
      if (clean_rows(memory.c[c.at()], load_word(memory.rows[c.at()]), block.is(chain_block::partial),
                     number * 32 + lane, kWarps * 32))
        memory.unbounded[c.at()] = 1;
      hopper::fence_for_copies();  // the matrix unit and the copy engine come after these stores
      __syncwarp();
    }
    if (lane == 0) hopper::barrier_arrive(shared_address(&memory.inspected[c.at()]));
    c.release(lane);
  }
}

template <class Cfg, class Body>
MT_DEVICE void warpgroup_chain(Context& ctx, const Body& body, int total) {
  using T = typename Body::element;
  using Traits = warpgroup_chain_traits<Cfg>;
  using Memory = warpgroup_chain_memory<Cfg, T, tile_of_chain<Body>>;
  auto& memory = *reinterpret_cast<Memory*>((reinterpret_cast<uintptr_t>(ctx.scratch) + 1023) & ~uintptr_t{1023});
  const int thread = static_cast<int>(threadIdx.x), warpgroup = __shfl_sync(~0u, thread / 128, 0),
            warp = __shfl_sync(~0u, thread / 32, 0), lane = thread % 32;
  const uint32_t base = shared_address(&memory);
  chain_cursor<1, static_cast<int>(offsetof(Memory, a_at))> a(base);
  chain_cursor<Cfg::stages, static_cast<int>(offsetof(Memory, b_at))> b(base);
  chain_cursor<Cfg::stages, static_cast<int>(offsetof(Memory, c_at))> c(base);
  if (thread == 0) {
    a.init(Traits::consumers * 4);  // one arrival per warp
    b.init(Traits::consumers * 4);
    c.init(Traits::consumers * 4 + Traits::inspectors);
    for (auto& barrier : memory.inspected) hopper::barrier_init(shared_address(&barrier), Traits::inspectors);
    hopper::fence_barrier_init();
  }
  __syncthreads();

  if (warpgroup == 0) {
    hopper::give_registers<Traits::producer_registers>();
    if (warp == 0) {
      copy_chain<Cfg>(body, memory, total, lane, a, b, c);
    } else {
      inspect_chain<Cfg>(memory, warp - 1, lane, c);
    }
    return;
  }
  hopper::take_registers<Traits::consumer_registers>();
  const int number = warpgroup - 1;
  constexpr int kTurn = 1;  // named barriers of the warpgroups: the matrix unit is its own
  chain_consumer<Cfg, T> cx{number * 64 + warp % 4 * 16, thread % 128, memory.result};
  const auto own_number = [&] { return unforeseen(cx.first_row) / 64; };  // rather than in a register all the time
  // Where the operands of products lie: found before the turn, in registers that all lanes share.
  const uint32_t own_a =
      static_cast<uint32_t>(same_for_all(static_cast<int>(shared_address(memory.a.data) + number * 64 * 128)));
  const auto place_b = [&] { return static_cast<uint32_t>(same_for_all(shared_address(memory.b[b.at()].data))); };
  const auto place_c = [&] { return static_cast<uint32_t>(same_for_all(shared_address(memory.c[c.at()].data))); };
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
  // Told by the copying warp, the same for all lanes (and the compiler knows).
  const auto told = [&](const int& word) { return same_for_all(load_word(word)); };
  // The block before is multiplied with its c, this one with b and weighed meanwhile. Blocks that hide something wait for
  // both products, since masks want the registers; and in one path with a branch inside, the wait for the second product
  // would move before the weighing of all blocks.
  const auto overlapped = [&](chain_block block, auto& state, const auto& t, auto hides) {
    const auto finish_second = [&] {
      hopper::products_wait<0>();
      pin(o);
      c.release(lane);
    };
    const uint32_t at_b = place_b(), at_c = place_c();
    in_turn([&] {
      issue_first<Cfg::bm, Cfg::da>(cx, s, own_a, at_b);
      issue_second(cx, o, weights, at_c);
    });
    constexpr bool kMeanwhile = __is_same(decltype(hides), known<false>);
    if constexpr (!kMeanwhile) {
      finish_second();
    } else {
      hopper::products_wait<1>();
    }
    pin(s);
    b.release(lane);
    a.release_if(block.is(chain_block::last), lane);
    const auto rescale = [&] {
      if constexpr (!kMeanwhile) {
        return body.weigh(cx, state, s, t, block.number(), hides);
      } else {
        chain_meanwhile<Cfg, T, decltype(finish_second)> meanwhile{cx, finish_second};
        return body.weigh(meanwhile, state, s, t, block.number(), hides);
      }
    }();
    scale_rows(cx, o, rescale, scale);
    as_operand<T>(weights, s);
  };
  while (true) {
    a.wait_full();
    const int state_of_tile = told(memory.tiles[a.count % 2]);
    if (state_of_tile == 0) break;
    const auto& t = memory.tile[a.count % 2];
    clear(cx, o);
    auto state = body.begin(cx);
    bool more = state_of_tile > 1;
    if (!more) a.release(lane);
    while (more) {  // once, but for blocks that are multiplied one by one
      b.wait_full();
      chain_block block{told(memory.block[b.at()])};
      const uint32_t at_b = place_b();
      in_turn([&] { issue_first<Cfg::bm, Cfg::da>(cx, s, own_a, at_b); });
      hopper::products_wait<0>();
      pin(s);
      b.release(lane);
      a.release_if(block.is(chain_block::last), lane);
      scale_rows(cx, o, body.weigh(cx, state, s, t, block.number(), block.hides()), scale);
      as_operand<T>(weights, s);
      bool one_by_one;
      while (true) {
        one_by_one = false;
        if (block.hides()) {
          hopper::barrier_wait(shared_address(&memory.inspected[c.at()]), c.parity());
          one_by_one = told(memory.unbounded[c.at()]) != 0;
        } else {
          c.wait_full();
        }
        more = !block.is(chain_block::last);
        if (one_by_one || !more) break;
        b.wait_full();
        block.word = told(memory.block[b.at()]);
        if constexpr (Body::wants_registers) {
          overlapped(block, state, t, block.hides());
        } else if (block.hides()) {
          overlapped(block, state, t, known<true>{});
        } else {
          overlapped(block, state, t, known<false>{});
        }
      }
      if (one_by_one) {
        constexpr int kCols = Cfg::bn % 128 == 0 ? 128 : 64;  // of the weights at a time
        static_assert(Traits::result_slots * Traits::slot_bytes >= 16 * kCols * static_cast<int>(sizeof(T)));
        if (lane == 0) hopper::wait_stores_read<0>();
        product_of_seen<kCols>(cx, o, weights, memory.c[c.at()], reinterpret_cast<T*>(cx.slots()));
      } else {
        const uint32_t at_c = place_c();
        in_turn([&] { issue_second(cx, o, weights, at_c); });
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
