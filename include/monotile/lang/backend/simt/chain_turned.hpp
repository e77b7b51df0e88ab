#pragma once
// Chained products of codes of 8 bits on Hopper, whose matrix unit takes them along k alone: two warps turn each block of c
// on its way, by 16-bit transposes and an exchange of bytes. Multiplying warpgroups have 64 rows of a tile each and go their
// own ways (taking turns cost 5 % on an H200); the second product of a block is under way with the first of the next one.
// What a block adds to the sums is a product of its own, which fp32 adds up: the unit's own sums of codes lose bits over
// long rows. For sm_90a and the emulated one.

#include "monotile/lang/backend/simt/chain_warpgroups.hpp"

namespace monotile::lang::inline MONOTILE_TARGET_NAME {

template <class Cfg, class T>
struct alignas(1024) turned_chain_rings {
  using Traits = warpgroup_chain_traits<Cfg>;
  smem_tile<T, Cfg::bm, Cfg::da, along::m> a;
  smem_tile<T, Cfg::bn, Cfg::da, along::n> b[Cfg::stages];
  smem_tile<T, Cfg::bn, Cfg::dc, along::n> c[Cfg::stages];
  smem_tile<T, Cfg::dc, Cfg::bn, along::n> turned[Cfg::stages];
  unsigned char result[Traits::consumers * 4 * Traits::result_slots * Traits::slot_bytes];
  alignas(8) chain_barriers<1> a_at;
  chain_barriers<Cfg::stages> b_at, c_at, turned_at;
  chain_tickets tickets;
  // Written by the copying warps before they hand over a, b, c, as in warpgroup_chain_memory.
  int tiles[2];
  int block[Cfg::stages], next[Cfg::stages], look[Cfg::stages], rows[Cfg::stages], unbounded[Cfg::stages];
  unsigned char found[Cfg::stages][4];  ///< 1: that turning warp saw a NaN in a block that some do not see
};
/// Apart, since only what is no base has places that are known.
template <class Cfg, class T, class Tile>
struct turned_chain_memory : turned_chain_rings<Cfg, T> {
  Tile tile[2];
};

/// Byte of a row of a turned block where key `k` is: the order in which the sums of scores lie in the words of an operand.
MT_FN constexpr int turned_place(int k) { return (k & ~15) | (k & 6) << 1 | (k & 8) >> 2 | (k & 1); }
/// A turned block as rows of keys.
template <class Tile>
struct turned_rows {
  using element = typename Tile::element;
  const unsigned char* data;
  static MT_FN int place(int row, int col) { return Tile::place(col, turned_place(row)); }
};

/// 32 keys of a block, turned: 8 x 8 transposes of pairs of columns, whose bytes are then told apart.
template <class C, class Turned>
MT_DEVICE void turn_keys(const C& c, Turned& turned, int first, int lane) {
  const uint32_t from = shared_address(c.data), to = shared_address(turned.data);
  constexpr int kAtOnce = 4;  // reads before the first write: they would wait for each other in the order in which they stand
  static_assert(C::cols / 16 % kAtOnce == 0);
  MT_NO_UNROLL
  for (int start = 0; start < C::cols / 16; start += kAtOnce) {
    uint32_t w[kAtOnce][4][1];
    MT_UNROLL
    for (int k = 0; k < kAtOnce; ++k) read_matrices<true>(w[k], from + C::offset(first + lane, start + k));
    MT_UNROLL
    for (int k = 0; k < kAtOnce; ++k) {
      // Matrices of even and of odd columns, for each half of the keys.
      const int column = (start + k) * 16 + lane % 8 * 2 + lane / 8 % 2;
      hopper::stmatrix4(to + Turned::offset(column, first / 16 + lane / 16),
                        hopper::pick_bytes(w[k][0][0], w[k][1][0], 0x6420),
                        hopper::pick_bytes(w[k][0][0], w[k][1][0], 0x7531),
                        hopper::pick_bytes(w[k][2][0], w[k][3][0], 0x6420),
                        hopper::pick_bytes(w[k][2][0], w[k][3][0], 0x7531));
    }
  }
}
/// Rows that do not exist become zeros; true if another one of these 32 holds a NaN.
template <class C>
MT_DEVICE bool clean_codes(C& c, int first, int rows, int lane) {
  constexpr int kChunks = C::cols / 16, kAtOnce = 4;
  static_assert(kChunks % kAtOnce == 0);
  const bool exists = first + lane < rows;
  uint32_t found = 0;
  MT_NO_UNROLL
  for (int start = 0; start < kChunks; start += kAtOnce) {
    vector16 codes[kAtOnce];
    MT_UNROLL
    for (int k = 0; k < kAtOnce; ++k) codes[k] = load_shared16(c.data + C::offset(first + lane, start + k));
    MT_UNROLL
    for (int k = 0; k < kAtOnce; ++k) {
      for (const uint32_t word : codes[k].word) found |= exists ? (word & 0x7f7f7f7fu) + 0x01010101u : 0;
      if (!exists) clear_shared16(c.data + C::offset(first + lane, start + k));
    }
  }
  return wave_any((found & 0x80808080u) != 0);
}
template <class Cfg, class Memory, class C, class Turned>
MT_DEVICE void turn_chain(Memory& memory, int number, int lane, C c, Turned turned) {
  constexpr int kKeys = Cfg::bn / warpgroup_chain_traits<Cfg>::inspectors;
  static_assert(kKeys % 32 == 0);
  while (true) {
    c.wait_full();
    const chain_block block{told_word(memory.look[c.at()], lane)};
    if (block.word < 0) return;
    const int rows = block.hides() ? told_word(memory.rows[c.at()], lane) : Cfg::bn;
    turned.wait_empty();
    bool found = false;
    MT_NO_UNROLL
    for (int first = number * kKeys; first < (number + 1) * kKeys; first += 32) {
      if (block.hides()) {
        found = clean_codes(memory.c[c.at()], first, rows, lane) || found;
        wave_sync();
      }
      turn_keys(memory.c[c.at()], memory.turned[c.at()], first, lane);
    }
    if (lane == 0) memory.found[c.at()][number] = found && block.is(chain_block::partial) ? 1 : 0;
    hopper::fence_for_copies();  // the matrix unit and the copy engine come after these stores
    wave_sync();
    if (lane == 0) hopper::barrier_arrive(turned.full());
    c.release(lane);
    turned.next();
  }
}

/// Weights as words of an operand.
template <class T, int N>
MT_DEVICE void as_codes(row_operand<mma_codes, 16, N>& out, const row_acc<mma_rows, 16, N>& acc) {
  MT_UNROLL
  for (int s = 0; s < N / mma_codes::step; ++s) {
    MT_UNROLL
    for (int w = 0; w < mma_codes::words; ++w) {
      const auto& left = acc.d[0][4 * s + w / 2 * 2];
      const auto& right = acc.d[0][4 * s + w / 2 * 2 + 1];
      const int e = w % 2 * 2;
      out.w[0][s][w][0] = hopper::pack_codes<T>(left[e][0], left[e + 1][0], right[e][0], right[e + 1][0]);
    }
  }
}

template <class Cfg, class Body>
MT_DEVICE void turned_chain(Context& ctx, const Body& body, int total) {
  using T = typename Body::element;
  using Traits = warpgroup_chain_traits<Cfg>;
  using Memory = turned_chain_memory<Cfg, T, tile_of_chain<Body>>;
  using Rings = turned_chain_rings<Cfg, T>;
  // By an offset, so that the compiler still knows that it is shared memory.
  auto& memory = *reinterpret_cast<Memory*>(ctx.scratch + (-shared_address(ctx.scratch) & 1023));
  const int thread = thread_number(), warpgroup = same_for_all(thread / 128), lane = thread % 32;
  const auto warp_of_group = [&] { return same_for_all(unforeseen(thread) % 128 / 32); };
  const uint32_t base = shared_address(&memory);
  chain_cursor<1, static_cast<int>(offsetof(Rings, a_at))> a(base);
  chain_cursor<Cfg::stages, static_cast<int>(offsetof(Rings, b_at))> b(base);
  chain_cursor<Cfg::stages, static_cast<int>(offsetof(Rings, c_at))> c(base);
  chain_cursor<Cfg::stages, static_cast<int>(offsetof(Rings, turned_at))> turned(base);
  if (thread == 0) {
    chain_tiles<Body>::init(memory.tickets);
    a.init(Traits::consumers * 4);  // one arrival per warp
    b.init(Traits::consumers * 4);
    c.init(Traits::inspectors);
    for (int s = 0; s < Cfg::stages; ++s) {
      hopper::barrier_init(shared_address(&memory.turned_at.full[s]), Traits::inspectors);
      hopper::barrier_init(shared_address(&memory.turned_at.empty[s]), Traits::consumers * 4);
    }
    hopper::fence_barrier_init();
  }
  ctx.barrier();

  if (warpgroup == 0) {
    hopper::give_registers<Traits::template producer_registers<Body>>();
    const int warp = warp_of_group();
    if (warp == 0) {
      copy_first_operands<Cfg>(body, memory, total, a, b);
    } else if (warp == 1) {
      copy_second_operand<Cfg>(body, memory, total, c);
    } else {
      turn_chain<Cfg>(memory, warp - 2, lane, c, turned);
    }
    return;
  }
  hopper::take_registers<Traits::template consumer_registers<Body>>();
  const int number = warpgroup - 1;
  chain_consumer<Cfg, typename Body::result> cx{number * 64 + warp_of_group() * 16, lane, memory.result};
  const uint32_t own_a = hopper::operand_word(base + static_cast<uint32_t>(offsetof(Rings, a)) + number * 64 * 128);
  const auto place = [&](size_t ring, size_t bytes, int at) {
    return static_cast<uint32_t>(
        same_for_all(hopper::operand_word(base + static_cast<uint32_t>(ring + static_cast<size_t>(at) * bytes))));
  };
  const auto at_of = [&](size_t ring, int number_of_barrier) {
    return base + static_cast<uint32_t>(ring) + 8 * static_cast<uint32_t>(number_of_barrier);
  };
  using row_block = typename chain_consumer<Cfg, typename Body::result>::rows;
  row_acc<mma_rows, 16, Cfg::bn> s;
  row_acc<mma_rows, 16, Cfg::dc> o, part;
  row_operand<mma_codes, 16, Cfg::bn> codes;
  row_block rescale{};
  chain_block block{0}, next{0};
  const auto issue_part = [&](uint32_t from) {
    hopper::products_begin();
    MT_UNROLL
    for (int k = 0; k < Cfg::bn / mma_codes::step; ++k) {
      hopper::warpgroup_product_of_codes<T, Cfg::dc>::issue(reinterpret_cast<float(&)[Cfg::dc / 2]>(part.d), codes.w[0][k],
                                                            hopper::operand_from(from, k * 32), k);
    }
    hopper::products_close();
  };
  const auto add_part = [&] {
    hopper::products_wait<0>();
    pin(part);
    each_element(o, [&](float& x, int i, int j, int e, int l) {
      x = x * rescale.v[slot_of<mma_rows>(i, e)][l] + part.d[i][j][e][l];
    });
  };
  // The first product of a block and its weights, alone.
  const auto first = [&](auto& state, const auto& t) {
    b.wait_full();
    next.word = told_word(memory.next[b.at()], lane);
    const uint32_t from = place(offsetof(Rings, b), sizeof(memory.b[0]), b.at());
    issue_first<Cfg::bm, Cfg::da, T>(cx, s, own_a, from);
    hopper::products_wait<0>();
    pin(s);
    b.release(lane);
    a.release_if(next.word < 0, lane);
    body.look(cx, state, t, block.hides());
    rescale = body.weigh(cx, state, s, t, block.number(), block.hides());
    as_codes<T>(codes, s);
  };
  // Its second product, alone: codes that some do not see are multiplied one by one, if one of them is a NaN.
  const auto second = [&] {
    turned.count = b.count - 1;
    turned.wait_full();
    bool one_by_one = false;
    if (block.is(chain_block::partial)) {
      const uint32_t found = lane == 0 ? memory.found[turned.at()][0] | memory.found[turned.at()][1] : 0;
      one_by_one = same_for_all(static_cast<int>(found)) != 0;
    }
    if (one_by_one) {
      scale_rows(cx, o, rescale, [](float x, float r) { return x * r; });
      row_operand<mma_rows, 16, Cfg::bn> weights;
      as_operand<half_t>(weights, s);
      static_assert(Traits::result_slots * Traits::slot_bytes >= 16 * 128 * static_cast<int>(sizeof(half_t)));
      if (lane == 0) hopper::wait_stores_read<0>();
      using Turned = smem_tile<T, Cfg::dc, Cfg::bn, along::n>;
      product_of_seen<128>(cx, o, weights, turned_rows<Turned>{memory.turned[turned.at()].data},
                           reinterpret_cast<half_t*>(cx.slots()));
      wave_sync();  // all have read, before the first lane hands c back
    } else {
      const uint32_t from = place(offsetof(Rings, turned), sizeof(memory.turned[0]), turned.at());
      issue_part(from);
      add_part();
    }
    turned.release_stage(lane);
  };
  // The second product of a block runs under the largest scores of the next one, whose first product came before it.
  const auto overlapped = [&](auto& state, const auto& t, auto number_in_ring) {
    constexpr int kPlace = decltype(number_in_ring)::value, kBehind = (kPlace + Cfg::stages - 1) % Cfg::stages;
    const auto operand_at = [&](size_t ring, size_t bytes, int at) {
      return hopper::operand_word(base + static_cast<uint32_t>(ring + static_cast<size_t>(at) * bytes));
    };
    turned.count = b.count - 1;
    const uint32_t parity = b.parity(), parity_behind = turned.parity();
    hopper::barrier_wait(at_of(offsetof(Rings, b_at), kPlace), parity);
    issue_first<Cfg::bm, Cfg::da, T>(cx, s, own_a, operand_at(offsetof(Rings, b), sizeof(memory.b[0]), kPlace));
    hopper::barrier_wait(at_of(offsetof(Rings, turned_at), kBehind), parity_behind);
    issue_part(operand_at(offsetof(Rings, turned), sizeof(memory.turned[0]), kBehind));
    next.word = told_word(memory.next[kPlace], lane);
    hopper::products_wait<1>();
    pin(s);
    if (lane == 0) hopper::barrier_arrive(at_of(offsetof(Rings, b_at), Cfg::stages + kPlace));
    a.release_if(next.word < 0, lane);
    const auto finish_second = [&] {
      add_part();
      if (lane == 0) hopper::barrier_arrive(at_of(offsetof(Rings, turned_at), Cfg::stages + kBehind));
    };
    chain_meanwhile<Cfg, typename Body::result, decltype(finish_second)> meanwhile{cx, finish_second};
    rescale = body.weigh(meanwhile, state, s, t, block.number(), known<false>{});
    as_codes<T>(codes, s);
    b.next();
  };
  while (true) {
    a.wait_full();
    const int state_of_tile = told_word(memory.tiles[a.count % 2], lane);
    if (state_of_tile == 0) break;
    const auto& t = memory.tile[a.count % 2];
    clear(cx, o);
    auto state = body.begin(cx, t);
    if (state_of_tile > 1) {
      b.wait_full();
      next.word = told_word(memory.block[b.at()], lane);
      do {
        block = next;
        first(state, t);
        static_assert(Cfg::stages == 2);
        while (next.is_plain() && !block.is(chain_block::partial)) {
          block = next;
          if (b.at() == 0) {
            overlapped(state, t, chain_place<0>{});
          } else {
            overlapped(state, t, chain_place<1>{});
          }
        }
        second();
      } while (next.word >= 0);
    } else {
      a.release(lane);
    }
    body.finish(cx, state, o, t);
  }
  if (lane == 0) hopper::wait_stores_read<0>();
}

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME
