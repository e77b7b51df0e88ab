#pragma once
// Chained products on Hopper: a persistent grid in which one warpgroup keeps the copy engine busy and the others, 64
// rows of the tile each, multiply in turns. While one has the matrix unit the others turn scores into weights; and the
// second product of a block runs under the weighing of the next one. For sm_90a and the emulated one: the backend's
// chain_unit.hpp comes first.

#include <cstddef>

#include "monotile/lang/backend/simt/chain.hpp"

namespace monotile::lang::inline MONOTILE_TARGET_NAME {

template <class Cfg>
struct warpgroup_chain_traits {
  static constexpr int consumers = Cfg::bm / 64, threads = 128 * (1 + consumers);
  /// Registers per lane: shared out evenly at launch, then the copying warpgroup gives most of its own away.
  template <class Body>
  static constexpr bool wants_more = Cfg::dc > 64 && Body::wants_registers;
  template <class Body>
  static constexpr int producer_registers = consumers == 3     ? 32
                                            : wants_more<Body> ? 24
                                                               : 40;
  template <class Body>
  static constexpr int consumer_registers = consumers == 3     ? 160
                                            : wants_more<Body> ? 240
                                                               : 232;
  static constexpr int inspectors = 2;  ///< warps; two others of their warpgroup copy
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
  static constexpr int partial = 1, cut = 2, bits = 2;  ///< cut: rows of it do not exist
  MT_DEVICE int number() const { return word >> bits; }
  MT_DEVICE bool is(int what) const { return (word & what) != 0; }
  MT_DEVICE bool hides() const { return is(partial | cut); }
  /// Is there a block, and does it hide nothing? One test, since the word for none has all bits.
  MT_DEVICE bool is_plain() const { return (word & (partial | cut)) == 0; }
};
/// Numbers of tiles that one copying warp has drawn, for the other one.
struct chain_tickets {
  static constexpr int kept = 2;
  alignas(8) chain_barriers<kept> at;
  int number[kept];
};
template <class Body>
const Body& some_body();  // for its type
template <class Body>
using tile_of_chain = decltype(some_body<Body>().tile(0));

template <class Cfg, class T, class Tile>
struct alignas(1024) warpgroup_chain_memory {
  using Traits = warpgroup_chain_traits<Cfg>;
  smem_tile<T, Cfg::bm, Cfg::da, along::m> a;
  smem_tile<T, Cfg::bn, Cfg::da, along::n> b[Cfg::stages];
  smem_tile<T, Cfg::bn, Cfg::dc, along::n> c[Cfg::stages];
  unsigned char result[warpgroup_chain_traits<Cfg>::consumers * 4 * warpgroup_chain_traits<Cfg>::result_slots *
                       warpgroup_chain_traits<Cfg>::slot_bytes];
  alignas(8) chain_barriers<1> a_at;
  chain_barriers<Cfg::stages> b_at, c_at;
  chain_tickets tickets;
  uint64_t inspected[Cfg::stages];
  // Written by the copying warps before they hand over a, b, c.
  Tile tile[2];            ///< of two, since a tile is finished after its a is released
  int tiles[2];            ///< 0: there are no more; 1: the tile sees no block; 2: it does
  int block[Cfg::stages];  ///< chain_block of b; read for the first one of a tile
  int next[Cfg::stages];   ///< and of the b after it in this tile: known while this one is multiplied
  int look[Cfg::stages];   ///< chain_block of c if it is to be inspected; 0: it is not; -1: there are no more blocks
  int rows[Cfg::stages];   ///< of c that exist
  int unbounded[Cfg::stages];  ///< 0, or a byte for each inspecting warp that saw an inf or NaN in c.
};

/// A word that the copying warp wrote, for all lanes of a warp. Only the lane that hands the place back reads it.
MT_DEVICE int told_word(const int& word, int lane) { return same_for_all(lane == 0 ? load_word(word) : 0); }

/// A copying warp's view. All its lanes compute the same, which registers shared by lanes can hold, and one gives the
/// orders: the copy engine takes them one by one.
template <class Cfg>
struct chain_copies {
  uint32_t full;  ///< barrier of what is being filled
};
/// A multiplying warp's view: 16 of the 64 rows of its warpgroup.
template <class Cfg, class T>
struct chain_consumer {
  static constexpr bool knows_columns = true;  ///< map_cells_from
  using storage = T;
  template <int R>
  using rows_of = row_values<mma_rows, R>;
  using rows = rows_of<16>;
  int first_row;
  int own_lane;
  unsigned char* results;  ///< slots of all warps
  MT_DEVICE int lane(int) const { return own_lane; }
  MT_DEVICE unsigned char* slots() const {
    using Traits = warpgroup_chain_traits<Cfg>;
    return results + first_row / 16 * (Traits::result_slots * Traits::slot_bytes);
  }
};

/// The same while the second product of the block before is under way: `finish` waits for it.
template <class Cfg, class T, class Finish>
struct chain_meanwhile : chain_consumer<Cfg, T> {
  Finish finish;
  bool finished = false;
};
/// What is under way is waited for: before branches, which wait in any case.
template <class Cfg, class T>
MT_DEVICE void settle(chain_consumer<Cfg, T>&) {}
template <class Cfg, class T, class Finish>
MT_DEVICE void settle(chain_meanwhile<Cfg, T, Finish>& cx) {
  if (!cx.finished) cx.finish();  // known when this is compiled
  cx.finished = true;
}
/// Largest scores are found under the second product, which is waited for before they become weights. Where ptxas is told
/// to wait later, it waits here all the same: the wait has no operands, so it moves up across arithmetic.
template <class Cfg, class T, class Finish, class Layout, int R, int C, class F>
MT_DEVICE void scale_rows(chain_meanwhile<Cfg, T, Finish>& cx, row_acc<Layout, R, C>& acc,
                          const row_values<Layout, R>& values, F f) {
  settle(cx);
  scale_rows(static_cast<chain_consumer<Cfg, T>&>(cx), acc, values, f);
}

/// Is a sum of this wave larger than `limit`, whatever its sign? NaN is not.
template <class Cfg, class T, int C>
MT_DEVICE bool any_beyond(chain_consumer<Cfg, T>&, row_acc<mma_rows, 16, C>& acc, float limit) {
  float most[4] = {};
  each_element(acc, [&](float& x, int, int j, int e, int) {
    float& m = most[j % 2 * 2 + e % 2];
    m = max_of(m, abs_of(x));
  });
  return wave_any(max_of(max_of(most[0], most[1]), max_of(most[2], most[3])) > limit);
}

/// x becomes `hidden` where its column is not within a span of its row: [first, end), numbers as bits, counted from column
/// `start` of what the spans are of. Which columns of a lane are is one word for a row: a test of one bit for an element.
template <class Cfg, class T, int C>
MT_DEVICE void keep_spans(chain_consumer<Cfg, T>& cx, row_acc<mma_rows, 16, C>& acc, const row_values<mma_rows, 16>& first,
                          const row_values<mma_rows, 16>& end, int start, float hidden) {
  constexpr int kEach = 2, kColumns = C / mma_rows::cols * kEach;  // neighbours, and all of a lane
  static_assert(kColumns <= 32 && mma_rows::elements == 2 * kEach);
  const int own = start + mma_rows::at(cx.own_lane, 0).col;
  const auto below = [&](float bits) {  // columns of this lane before a number
    const int further = __builtin_bit_cast(int, bits) - own, limit = further < 0 ? 0 : further < C ? further : C;
    const int rest = limit % mma_rows::cols, count = limit / mma_rows::cols * kEach + (rest < kEach ? rest : kEach);
    return static_cast<uint32_t>((uint64_t{1} << count) - 1);
  };
  uint32_t seen[mma_rows::slots];
  MT_UNROLL
  for (int s = 0; s < mma_rows::slots; ++s) seen[s] = below(end.v[s][0]) & ~below(first.v[s][0]);
  each_element(acc, [&](float& x, int, int j, int e, int) {
    x = (seen[mma_rows::slot(e)] & 1u << (j * kEach + e % kEach)) != 0 ? x : hidden;
  });
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
  MT_DEVICE void release_stage(int lane) const {
    if (lane == 0) hopper::barrier_arrive(empty());
  }
  MT_DEVICE void release(int lane) {
    release_stage(lane);
    next();
  }
  MT_DEVICE void release_if(bool so, int lane) {  // without a branch
    if (so & (lane == 0)) hopper::barrier_arrive(empty());
    count += so ? 1 : 0;
  }
};

/// A place in a ring that is known when a kernel is compiled; -1: it is not.
template <int Place>
struct chain_place {
  static constexpr int value = Place;
};

/// One box to row `row` of a tile, panel by panel: by one lane.
template <class Tile>
MT_DEVICE void copy_panels(uint32_t tile, int row, const box_view& from, uint32_t full, int x, int y, int z) {
  static_assert(Tile::row_bytes == 128, "the copy engine and what reads the tile agree on 128-byte panels");
  MT_UNROLL
  for (int panel = 0; panel < Tile::panels; ++panel)
    hopper::copy_box(tile + panel * Tile::panel_bytes + row * 128, from.map, full, panel * Tile::panel_cols, x, y, z);
}
/// Boxes that do not exist lie outside the view, where the copy engine reads zeros.
template <class Cfg, class T, int R, int C, along A, class Place>
MT_DEVICE void copy_boxes(chain_copies<Cfg>& cx, smem_tile<T, R, C, A>& to, const box_view& from, Place place) {
  using Tile = smem_tile<T, R, C, A>;
  const int rows = from.box_x * from.box_y;
  const uint32_t data = shared_address(to.data);
  const auto copy = [&](int box, const box_at& at) {
    copy_panels<Tile>(data, box * rows, from, cx.full, at.x, at.y, at.z);
  };
  if (A == along::m || rows >= R) {
    const box_at at = place(0);
    if (hopper::elect_one()) {
      hopper::barrier_arrive_expect(cx.full, rows * C * static_cast<int>(sizeof(T)));
      copy(0, at);
    }
    return;
  }
  if (hopper::elect_one()) hopper::barrier_arrive_expect(cx.full, Tile::bytes);
  constexpr int kAtOnce = 2;  // places are looked up in tables: that many look-ups are under way together
  const int boxes = R >> lowest_bit(static_cast<uint32_t>(rows));  // a divisor of R, which is a power of two
  MT_NO_UNROLL
  for (int first = 0; first < boxes; first += kAtOnce) {
    box_at at[kAtOnce];
    MT_UNROLL
    for (int i = 0; i < kAtOnce; ++i) at[i] = place(first + i < boxes ? first + i : first);
    if (hopper::elect_one()) {
      MT_UNROLL
      for (int i = 0; i < kAtOnce; ++i) {
        if (first + i < boxes) copy(first + i, at[i]);
      }
    }
  }
}

/// s = a b^T, issued: a tile of M rows and one of N, by the words of their operands.
template <int M, int K, class T, class Cx, int N>
MT_DEVICE void issue_first(Cx&, row_acc<mma_rows, 16, N>& s, uint32_t a, uint32_t b) {
  constexpr int kStep = 32;  // bytes of k per instruction
  hopper::products_begin();
  MT_UNROLL
  for (int k = 0; k < K * static_cast<int>(sizeof(T)) / kStep; ++k) {
    const int panel = k / 4, within = k % 4 * kStep;
    hopper::warpgroup_product<T, N>::issue(reinterpret_cast<float(&)[N / 2]>(s.d),
                                           hopper::operand_from(a, panel * M * 128 + within),
                                           hopper::operand_from(b, panel * N * 128 + within), k);
  }
  hopper::products_close();
}
/// o += weights c, issued.
template <class Cfg, class T, int N, int D>
MT_DEVICE void issue_second(chain_consumer<Cfg, T>&, row_acc<mma_rows, 16, D>& o,
                            const row_operand<mma_rows, 16, N>& weights, uint32_t c) {
  hopper::products_begin();
  MT_UNROLL
  for (int k = 0; k < N / 16; ++k) {
    hopper::warpgroup_product_of_registers<T, D>::issue(reinterpret_cast<float(&)[D / 2]>(o.d), weights.w[0][k],
                                                        hopper::operand_from(c, k * 16 * 128));
  }
  hopper::products_close();
}
template <int N>
MT_DEVICE void pin(row_acc<mma_rows, 16, N>& acc) {
  hopper::pin(reinterpret_cast<float(&)[N / 2]>(acc.d));
}

/// Do rows leave by whole blocks of 16 x 64? If not they are stored.
template <class Cfg, class T, int D>
MT_DEVICE bool leaves_by_blocks(chain_consumer<Cfg, T>& cx, const box_view& to, const box_at& at,
                                row_acc<mma_rows, 16, D>& acc) {
  const bool single = to.box_x == 1;  // without divisions
  if (to.vectors && to.cols % 8 == 0 && (single || 16 % to.box_x == 0) && cx.first_row + 16 <= at.rows) return true;
  chain_consumer<Cfg, T> here = cx;  // or the columns of this lane would be kept in registers
  here.own_lane = unforeseen(cx.own_lane);
  store_rows_from_registers(here, to, at, acc);
  return false;
}
/// By way of a slot of the warp and the copy engine. word(columns / 8, half of the rows): two neighbours, rounded.
template <int D, class Cfg, class T, class Word>
MT_DEVICE void leave_by_blocks(chain_consumer<Cfg, T>& cx, const box_view& to, const box_at& at, Word word) {
  const bool single = to.box_x == 1;
  using Traits = warpgroup_chain_traits<Cfg>;
  constexpr int kSlots = Traits::result_slots;
  // Places within slots are computed here, not kept in registers.
  const int lane = unforeseen(cx.own_lane), row = lane % 16, half = lane / 16;
  MT_UNROLL
  for (int first = 0; first < D / 64; first += kSlots) {  // as many blocks as there are slots at a time
    if (first * 64 >= to.cols) break;
    if (lane == 0) hopper::wait_stores_read<0>();
    wave_sync();
    MT_UNROLL
    for (int b = first; b < first + kSlots && b < D / 64; ++b) {
      const uint32_t slot = shared_address(cx.slots()) + b % kSlots * Traits::slot_bytes;
      MT_UNROLL
      for (int j = 0; j < 4; ++j) {
        const int left = b * 8 + 2 * j;
        hopper::stmatrix4(slot + swizzle<128>::offset(row, 2 * j + half), word(left, 0), word(left, 1), word(left + 1, 0),
                          word(left + 1, 1));
      }
    }
    hopper::fence_for_copies();
    wave_sync();
    if (lane != 0) continue;
    MT_UNROLL
    for (int b = first; b < first + kSlots && b < D / 64; ++b) {
      const uint32_t slot = shared_address(cx.slots()) + b % kSlots * Traits::slot_bytes;
      if (b * 64 < to.cols)  // the others lie outside
        hopper::store_box(to.map, slot, b * 64, at.x, at.y + (single ? cx.first_row : cx.first_row / to.box_x), at.z);
    }
    hopper::close_stores();
  }
}

template <class T, int D>
MT_DEVICE uint32_t rounded_pair(const row_acc<mma_rows, 16, D>& acc, int block, int half) {
  const auto& cells = acc.d[0][block];
  return round_pair<T>(cells[2 * half][0], cells[2 * half + 1][0]);
}
template <class Cfg, class T, int D>
MT_DEVICE void store_rows(chain_consumer<Cfg, T>& cx, const box_view& to, const box_at& at,
                          row_acc<mma_rows, 16, D>& acc) {
  if (!leaves_by_blocks(cx, to, at, acc)) return;
  leave_by_blocks<D>(cx, to, at, [&](int block, int half) { return rounded_pair<T>(acc, block, half); });
}
/// Rows of c from `rows` on do not exist, but the copy engine brought what lies there (pages have unused slots): they
/// become 0. True if this lane saw an inf or a NaN in the others.
template <int Lanes, class T, int R, int C, along A>
MT_DEVICE bool clean_rows(smem_tile<T, R, C, A>& tile, int rows, bool look, int lane) {
  using Tile = smem_tile<T, R, C, A>;
  constexpr int kChunks = C / 8, kRows = 8, kPer = kRows * kChunks / Lanes;  // chunks of a lane in eight rows
  static_assert(Tile::row_bytes == 128 && kRows * kChunks % Lanes == 0 && R % kRows == 0);
  uint32_t found[2] = {};
  const auto note = [&](const vector16& v) {
    MT_UNROLL
    for (int i = 0; i < 4; ++i) hopper::note_unbounded<T>(found[i % 2], v.word[i]);
  };
  if (look) {
    // A lane's rows differ in bits that its first one has not, so that one place gives the others; the next eight rows lie
    // 1 KB further.
    constexpr int kStep = Lanes / kChunks;
    static_assert((kStep & (kStep - 1)) == 0);
    const int first = static_cast<int>(Tile::offset(lane / kChunks, lane % kChunks));
    const auto chunk = [&](int group, int k) {  // places are computed where they are needed, not kept in registers
      const int place = unforeseen(first) ^ k * kStep * 16;
      return load_shared16(tile.data + (place + k * kStep * 128 + group * (kRows * 128)));
    };
    constexpr int kAtOnce = kPer < 4 ? 4 / kPer : 1;  // loads that are under way together: one warp has nothing else to hide them
    const int whole = rows / kRows;
    MT_NO_UNROLL
    for (int g = 0; g < whole; g += kAtOnce) {
      vector16 v[kAtOnce][kPer];
      MT_UNROLL
      for (int i = 0; i < kAtOnce; ++i) {
        const int group = g + i < whole ? g + i : g;
        MT_UNROLL
        for (int k = 0; k < kPer; ++k) v[i][k] = chunk(group, k);
      }
      MT_UNROLL
      for (int i = 0; i < kAtOnce; ++i) {
        MT_UNROLL
        for (int k = 0; k < kPer; ++k) note(v[i][k]);
      }
    }
    MT_UNROLL
    for (int k = 0; k < kPer; ++k) {
      if (unforeseen(lane) / kChunks + k * kStep < rows % kRows) note(chunk(whole, k));
    }
  }
  MT_NO_UNROLL
  for (int i = rows * kChunks + lane; i < R * kChunks; i += Lanes)
    clear_shared16(tile.data + Tile::offset(i / kChunks, i % kChunks));
  return (found[0] | found[1]) != 0;
}

/// Counts that a kernel keeps between launches: zeros, for whoever counts to the end leaves them so. A copy for each file.
template <class Counts>
MT_KEPT int32_t kept_counts[Counts::slots * Counts::slot_size];

/// The numbers of this program's tiles, in the order in which all its warps go through them. By tickets where programs share
/// a queue: who is done first takes the next one. One warp draws them, towards the end of a tile, and tells the other that
/// copies. Without a queue in rounds, every second one backwards: tiles get shorter along the way, so nobody always takes the
/// longest of a round.
template <class Body>
struct chain_tiles {
  using Counts = typename Body::Counts;
  const Body& body;
  chain_tickets& tickets;
  int total;
  int number = program_number();  ///< of the next one, in lane 0, where it may be on its way
  uint32_t count = 0;             ///< of numbers told or heard; without a queue, of rounds

  static MT_DEVICE void init(const chain_tickets& tickets) {
    for (int i = 0; i < chain_tickets::kept; ++i) {
      hopper::barrier_init(shared_address(&tickets.at.full[i]), 1);
      hopper::barrier_init(shared_address(&tickets.at.empty[i]), 1);
    }
  }
  MT_DEVICE bool shared() const { return body.queue() >= 0; }
  MT_DEVICE int32_t* counts() const { return kept_counts<Counts> + body.queue() * Counts::slot_size; }
  MT_DEVICE int place() const { return static_cast<int>(count % chain_tickets::kept); }
  MT_DEVICE uint32_t parity() const { return count / chain_tickets::kept & 1; }
  /// Once before each `draw` but the first one, and not early: what is taken late goes to who is free.
  MT_DEVICE void ask() {
    if (shared() && thread_number() % 32 == 0)
      number = program_count() + hopper::next_ticket(counts() + Counts::ticket);
  }
  MT_DEVICE int in_rounds() {
    const int programs = program_count(), program = program_number(), round = static_cast<int>(count++);
    return round * programs + ((round & 1) != 0 ? programs - 1 - program : program);
  }
  /// For the warp that draws. `total` or more: there are no more, now and later.
  MT_DEVICE int draw() {
    if (!shared()) return in_rounds();
    const int n = same_for_all(number);
    hopper::barrier_wait(shared_address(&tickets.at.empty[place()]), parity() ^ 1);
    if (hopper::elect_one()) {
      tickets.number[place()] = n;
      hopper::barrier_arrive(shared_address(&tickets.at.full[place()]));
    }
    wave_sync();
    ++count;
    return n;
  }
  /// The same for the other one.
  MT_DEVICE int hear() {
    if (!shared()) return in_rounds();
    hopper::barrier_wait(shared_address(&tickets.at.full[place()]), parity());
    const int lane = thread_number() % 32, n = told_word(tickets.number[place()], lane);
    if (lane == 0) hopper::barrier_arrive(shared_address(&tickets.at.empty[place()]));
    ++count;
    return n;
  }
  /// After the last `draw`.
  MT_DEVICE void leave() const {
    if (!shared() || thread_number() % 32 != 0) return;
    int32_t* const c = counts();
    if (hopper::arrive_at_count(c + Counts::finished) < program_count() - 1) return;
    c[Counts::ticket] = 0;
    c[Counts::finished] = 0;
  }
};
/// A struct of another lane, word by word. `reads`: only that one has it.
template <class V>
MT_DEVICE V all_from_lane(const V& v, int lane, bool reads = true) {
  static_assert(sizeof(V) % sizeof(int) == 0);
  struct words {
    int w[sizeof(V) / sizeof(int)];
  };
  words all{};
  if (reads) all = __builtin_bit_cast(words, v);
  MT_UNROLL
  for (int& w : all.w) w = from_lane(w, lane);
  return __builtin_bit_cast(V, all);
}

/// The block that is visited after number `j`, with what is to be done with it; -1: none.
template <class Body, class Tile>
MT_DEVICE int block_after(const Body& body, const Tile& t, int j) {
  j = body.after(t, j);
  if (j < 0) return -1;
  const bool partial = body.partial(t, j), cut = body.rows_of_block(t, j) < Body::Config::bn;
  return j << chain_block::bits | (partial ? chain_block::partial : 0) | (cut ? chain_block::cut : 0);
}
/// f(tile, its first block), for a copying warp. `next`: gives the number of its next tile; `none`: after a tile that has no
/// block, or does not exist.
template <class Body, class Next, class None, class F>
MT_DEVICE void each_copied(const Body& body, int total, Next next, None none, F f) {
  while (true) {
    const int index = next();
    if (index >= total) return;
    const auto t = body.tile(index);
    const int first = t.exists ? block_after(body, t, body.blocks(t)) : -1;
    if (first < 0) none();
    if (t.exists) f(t, first);
  }
}
/// Copies a and b, and tells the others which tiles and blocks there are. What it does for a block is to take less time
/// than the products of one.
template <class Cfg, class Body, class Memory, class A, class B>
MT_DEVICE void copy_first_operands(const Body& body, Memory& memory, int total, A a, B b) {
  chain_tiles<Body> tiles{body, memory.tickets, total};
  const auto ask = [&] { tiles.ask(); };
  const auto copy_b = [&](const auto& t, int now) {
    const int next = block_after(body, t, now >> chain_block::bits);
    if (next < 0) ask();  // the ticket comes while the place is waited for
    b.wait_empty();
    if (hopper::elect_one()) memory.block[b.at()] = now, memory.next[b.at()] = next;
    wave_sync();
    chain_copies<Cfg> to_b{b.full()};
    body.load_b(to_b, memory.b[b.at()], t, now >> chain_block::bits);
    b.next();
    return next;
  };
  const auto copy_a = [&](const auto& t, bool any) {
    a.wait_empty();
    if (hopper::elect_one()) memory.tile[a.count % 2] = t, memory.tiles[a.count % 2] = any ? 2 : 1;
    wave_sync();
    chain_copies<Cfg> to_a{a.full()};
    if (any) {
      body.load_a(to_a, memory.a, t);
    } else if (hopper::elect_one()) {
      hopper::barrier_arrive(a.full());
    }
    a.next();
  };
  each_copied(
      body, total, [&] { return tiles.draw(); }, ask, [&](const auto& t, int now) {
        const bool any = now >= 0;
        for (bool first = true; first || now >= 0; first = false) {
          if (now >= 0) now = copy_b(t, now);
          if (first) copy_a(t, any);  // after the first b, whose memory is free earlier
        }
      });
  tiles.leave();
  a.wait_empty();
  if (!hopper::elect_one()) return;
  memory.tiles[a.count % 2] = 0;
  hopper::barrier_arrive(a.full());
}
/// Copies c, and tells what is to be looked at. Another warp, which finds the blocks for itself.
template <class Cfg, class Body, class Memory, class C>
MT_DEVICE void copy_second_operand(const Body& body, Memory& memory, int total, C c) {
  chain_tiles<Body> tiles{body, memory.tickets, total};
  const auto hear = [&] { return tiles.hear(); };
  each_copied(body, total, hear, [] {}, [&](const auto& t, int now) {
    while (now >= 0) {
      const chain_block block{now};
      now = block_after(body, t, block.number());
      c.wait_empty();
      if (hopper::elect_one()) {
        memory.look[c.at()] = block.hides() ? block.word : 0;
        memory.rows[c.at()] = body.rows_of_block(t, block.number());
        memory.unbounded[c.at()] = 0;
      }
      wave_sync();
      chain_copies<Cfg> to_c{c.full()};
      body.load_c(to_c, memory.c[c.at()], t, block.number());
      c.next();
    }
  });
  c.wait_empty();
  if (!hopper::elect_one()) return;
  memory.look[c.at()] = -1;
  hopper::barrier_arrive(c.full());
}
/// Warps that look at blocks of c before they are multiplied, where that is needed: weights of 0 may be meant there.
template <class Cfg, class Memory, class C>
MT_DEVICE void inspect_chain(Memory& memory, int number, int lane, C c) {
  constexpr int kWarps = warpgroup_chain_traits<Cfg>::inspectors;
  static_assert(kWarps <= sizeof(int), "a byte for each warp");
  while (true) {
    c.wait_full();
    const chain_block block{told_word(memory.look[c.at()], lane)};
    if (block.word < 0) return;
    if (block.hides()) {
      const bool found = clean_rows<kWarps * 32>(memory.c[c.at()], told_word(memory.rows[c.at()], lane),
                                                 block.is(chain_block::partial), number * 32 + lane);
      if (wave_any(found) && lane == 0) reinterpret_cast<unsigned char*>(&memory.unbounded[c.at()])[number] = 1;
      hopper::fence_for_copies();  // the matrix unit and the copy engine come after these stores
      wave_sync();
    }
    if (lane == 0) hopper::barrier_arrive(shared_address(&memory.inspected[c.at()]));
    c.release(lane);
  }
}

/// What a multiplying warpgroup does with the blocks that it is told of. DA, DC: the columns of tiles that exist.
template <class Cfg, int DA, int DC, class Body, class Memory, class A, class B, class C>
MT_DEVICE void multiply_in_turns(const Body& body, Memory& memory, int number, int warp, int lane, A a, B b, C c) {
  using T = typename Body::element;
  using Traits = warpgroup_chain_traits<Cfg>;
  const uint32_t base = shared_address(&memory);
  constexpr int kTurn = 1;  // named barriers of the warpgroups: the matrix unit is its own
  chain_consumer<Cfg, T> cx{number * 64 + warp * 16, lane, memory.result};
  // c is one block behind b: a count of its own would take a register.
  const auto behind = [&] {
    auto cursor = c;
    cursor.count = b.count - 1;
    return cursor;
  };
  // The operands of products. Those of the next ones are found early, so that little stands between the weights and the
  // turn; there they go to registers that all lanes share.
  const uint32_t own_a = hopper::operand_word(base + static_cast<uint32_t>(offsetof(Memory, a)) + number * 64 * 128);
  uint32_t at_b = 0, at_c = 0;
  const auto find_places = [&](uint32_t number_of_b) {
    const auto place = [&](size_t ring, size_t bytes, uint32_t count, uint32_t panel) {
      const auto offset = static_cast<uint32_t>(ring + count % Cfg::stages * bytes);
      return hopper::operand_word(base + offset, panel);
    };
    at_b = place(offsetof(Memory, b), sizeof(memory.b[0]), number_of_b, 16);
    at_c = place(offsetof(Memory, c), sizeof(memory.c[0]), number_of_b - 1, Cfg::bn * 128);
  };
  const auto in_turn = [&](auto issue) {  // numbers of barriers are computed here, not kept in registers
    hopper::named_barrier_sync(kTurn + static_cast<int>(static_cast<uint32_t>(unforeseen(cx.first_row)) / 64), 256);
    issue();
    const uint32_t after = static_cast<uint32_t>(unforeseen(cx.first_row)) / 64 + 1;
    hopper::named_barrier_arrive(kTurn + (after == Traits::consumers ? 0 : static_cast<int>(after)), 256);
  };
  if (number == Traits::consumers - 1) hopper::named_barrier_arrive(kTurn, 256);
  row_acc<mma_rows, 16, Cfg::bn> s;
  row_acc<mma_rows, 16, DC> o;
  row_operand<mma_rows, 16, Cfg::bn> weights;
  const auto scale = [](float x, float r) { return x * r; };
  const auto told = [&](const int& word) { return told_word(word, lane); };
  // `next`: the block after the one that is multiplied with its b, known before it is needed.
  chain_block next{0};
  // b is handed back, and moves on when the weights are there. Where scores change, that is late, since they want the
  // register of `next`.
  constexpr bool kLate = Body::wants_registers;
  // What rows see is looked up under the first product of a tile, where registers are left.
  constexpr bool kEarly = Body::looks_early;
  // Read while the first product runs: what is handed back does not wait for it then.
  const auto look_ahead = [&] { next.word = told(memory.next[b.at()]); };
  const auto first_done = [&] {
    if constexpr (kLate) {
      b.count = unforeseen(static_cast<int>(b.count));  // or the place would be kept meanwhile
      look_ahead();
    }
    b.release_stage(lane);
    a.release_if(next.word < 0, lane);
    if constexpr (!kLate) find_places(b.count + 1);
  };
  // The block before is multiplied with its c, `block` with b and weighed meanwhile. Blocks that hide something wait for
  // both products, since masks want the registers; and in one path with a branch inside, the wait for the second product
  // would move before the weighing of all blocks. `place`: of b in its ring, where that is known when this is compiled;
  // then operands and barriers have addresses that all lanes share, and what is copied is waited for within the turn.
  const auto overlapped = [&](chain_block block, auto& state, const auto& t, auto hides, auto place) {
    constexpr bool kMeanwhile = __is_same(decltype(hides), known<false>);
    constexpr int kPlace = decltype(place)::value, kBehind = (kPlace + Cfg::stages - 1) % Cfg::stages;
    constexpr bool kPlaced = kPlace >= 0;
    const auto at_of = [&](size_t ring, int number_of_barrier) {
      return base + static_cast<uint32_t>(ring) + 8 * static_cast<uint32_t>(number_of_barrier);
    };
    const auto finish_second = [&] {
      hopper::products_wait<0>();
      pin(o);
      if constexpr (kPlaced) {
        if (lane == 0) hopper::barrier_arrive(at_of(offsetof(Memory, c_at), Cfg::stages + kBehind));
      } else {
        behind().release_stage(lane);
      }
    };
    if constexpr (kPlaced) {
      const uint32_t from_b = hopper::operand_word(
          base + static_cast<uint32_t>(offsetof(Memory, b) + kPlace * sizeof(memory.b[0])), 16);
      const uint32_t from_c = hopper::operand_word(
          base + static_cast<uint32_t>(offsetof(Memory, c) + kBehind * sizeof(memory.c[0])), Cfg::bn * 128);
      const uint32_t parity_b = b.parity(), parity_c = behind().parity();
      in_turn([&] {
        hopper::barrier_wait(at_of(offsetof(Memory, b_at), kPlace), parity_b);
        issue_first<Cfg::bm, DA, T>(cx, s, own_a, from_b);
        hopper::barrier_wait(at_of(offsetof(Memory, c_at), kBehind), parity_c);
        issue_second(cx, o, weights, from_c);
      });
      next.word = told(memory.next[kPlace]);
    } else {
      if constexpr (kLate) find_places(b.count);
      const auto from_b = static_cast<uint32_t>(same_for_all(at_b)), from_c = static_cast<uint32_t>(same_for_all(at_c));
      in_turn([&] {
        issue_first<Cfg::bm, DA, T>(cx, s, own_a, from_b);
        issue_second(cx, o, weights, from_c);
      });
      if constexpr (!kLate) look_ahead();
    }
    if constexpr (!kMeanwhile) {
      finish_second();
    } else {
      hopper::products_wait<1>();
    }
    pin(s);
    if constexpr (kPlaced) {
      if (lane == 0) hopper::barrier_arrive(at_of(offsetof(Memory, b_at), Cfg::stages + kPlace));
      a.release_if(next.word < 0, lane);
    } else if constexpr (!kLate) {
      first_done();
    }
    const auto rescale = [&] {
      if constexpr (!kMeanwhile) {
        body.look(cx, state, t, true);  // behind the product, whose operand is in registers
        return body.weigh(cx, state, s, t, block.number(), hides);
      } else {
        chain_meanwhile<Cfg, T, decltype(finish_second)> meanwhile{cx, finish_second};
        const auto rescaled = body.weigh(meanwhile, state, s, t, block.number(), hides);
        if (!meanwhile.finished) finish_second();  // known when this is compiled
        return rescaled;
      }
    }();
    scale_rows(cx, o, rescale, scale);
    as_operand<T>(weights, s);
    if constexpr (kLate) first_done();
    b.next();
  };
  while (true) {
    clear(cx, o);
    pin(o);  // here, while the next tile is waited for, and not where it is needed
    a.wait_full();
    const int state_of_tile = told(memory.tiles[a.count % 2]);
    if (state_of_tile == 0) break;
    const auto& t = memory.tile[a.count % 2];
    auto state = body.begin(cx, t);
    bool more = state_of_tile > 1;
    if (more) {
      b.wait_full();
      next.word = told(memory.block[b.at()]);
    } else {
      a.release(lane);
    }
    bool fresh = true;  // sums are zeros
    while (more) {  // once, but for blocks that are multiplied one by one
      chain_block block = next;
      b.wait_full();
      find_places(b.count);
      const auto from_b = static_cast<uint32_t>(same_for_all(at_b));
      in_turn([&] { issue_first<Cfg::bm, DA, T>(cx, s, own_a, from_b); });
      if constexpr (!kLate) look_ahead();
      if constexpr (kEarly) body.look(cx, state, t, block.hides());
      hopper::products_wait<0>();
      pin(s);
      if constexpr (!kLate) first_done();
      if constexpr (!kEarly) body.look(cx, state, t, block.hides());
      const auto rescale = body.weigh(cx, state, s, t, block.number(), block.hides());
      if (!fresh) scale_rows(cx, o, rescale, scale);
      fresh = false;
      as_operand<T>(weights, s);
      if constexpr (kLate) first_done();
      b.next();
      bool one_by_one = false;
      const auto inspected = [&] {
        behind().wait_full();  // or the barrier might still be in a phase that looks the same
        hopper::barrier_wait(shared_address(&memory.inspected[behind().at()]), behind().parity());
        one_by_one = told(memory.unbounded[behind().at()]) != 0;
        return !one_by_one;
      };
      const auto ready = [&] {  // c of this block and b of the next one are there
        if (block.hides()) {
          if (!inspected()) return false;
          b.wait_full();
        } else if (!hopper::barriers_ready(b.full(), b.parity(), behind().full(), behind().parity())) {
          b.wait_full();
          behind().wait_full();
        }
        return true;
      };
      while (true) {
        if constexpr (!Body::wants_registers) {
          static_assert(Cfg::stages == 2);
          while (next.is_plain()) {
            if (block.hides() && !inspected()) break;
            block = next;
            if (b.at() == 0) {
              overlapped(block, state, t, known<false>{}, chain_place<0>{});
            } else {
              overlapped(block, state, t, known<false>{}, chain_place<1>{});
            }
          }
          find_places(b.count);
          if (one_by_one) break;
        }
        if (next.word < 0 || !ready()) break;
        block = next;
        if constexpr (Body::wants_registers) {
          overlapped(block, state, t, block.hides(), chain_place<-1>{});
        } else {
          overlapped(block, state, t, known<true>{}, chain_place<-1>{});
        }
      }
      more = next.word >= 0;
      if (!more) {
        if (block.hides()) {
          inspected();
        } else {
          behind().wait_full();
        }
      }
      if (one_by_one) {
        constexpr int kCols = Cfg::bn % 128 == 0 ? 128 : 64;  // of the weights at a time
        static_assert(Traits::result_slots * Traits::slot_bytes >= 16 * kCols * static_cast<int>(sizeof(T)));
        if (lane == 0) hopper::wait_stores_read<0>();
        product_of_seen<kCols>(cx, o, weights, memory.c[behind().at()], reinterpret_cast<T*>(cx.slots()));
        wave_sync();  // all have read, before the first lane hands c back
        clear(cx, s);  // or what the next product overwrites would be kept until here
      } else {
        if constexpr (kLate) find_places(b.count);
        const auto from_c = static_cast<uint32_t>(same_for_all(at_c));
        in_turn([&] { issue_second(cx, o, weights, from_c); });
        hopper::products_wait<0>();
        pin(o);
      }
      behind().release_stage(lane);
    }
    body.finish(cx, state, o, t);
  }
  if (lane == 0) hopper::wait_stores_read<0>();
}

template <class Cfg, class Body>
MT_DEVICE void warpgroup_chain(Context& ctx, const Body& body, int total) {
  using T = typename Body::element;
  using Traits = warpgroup_chain_traits<Cfg>;
  using Memory = warpgroup_chain_memory<Cfg, T, tile_of_chain<Body>>;
  // By an offset, so that the compiler still knows that it is shared memory.
  auto& memory = *reinterpret_cast<Memory*>(ctx.scratch + (-shared_address(ctx.scratch) & 1023));
  const int thread = thread_number(), warpgroup = same_for_all(thread / 128), lane = thread % 32;
  const auto warp_of_group = [&] { return same_for_all(unforeseen(thread) % 128 / 32); };
  const uint32_t base = shared_address(&memory);
  chain_cursor<1, static_cast<int>(offsetof(Memory, a_at))> a(base);
  chain_cursor<Cfg::stages, static_cast<int>(offsetof(Memory, b_at))> b(base);
  chain_cursor<Cfg::stages, static_cast<int>(offsetof(Memory, c_at))> c(base);
  if (thread == 0) {
    chain_tiles<Body>::init(memory.tickets);
    a.init(Traits::consumers * 4);  // one arrival per warp
    b.init(Traits::consumers * 4);
    c.init(Traits::consumers * 4 + Traits::inspectors);
    for (auto& barrier : memory.inspected) hopper::barrier_init(shared_address(&barrier), Traits::inspectors);
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
      inspect_chain<Cfg>(memory, warp - 2, lane, c);
    }
    return;
  }
  hopper::take_registers<Traits::template consumer_registers<Body>>();
  body.each_way([&](const auto& one) {
    const auto multiply = [&](auto columns) {
      constexpr int kSpared = decltype(columns)::value;
      // Or what follows from the number of a lane would be found once for all ways, and kept.
      multiply_in_turns<Cfg, Cfg::da - kSpared, Cfg::dc - kSpared>(one, memory, warpgroup - 1, warp_of_group(),
                                                                   unforeseen(lane), a, b, c);
    };
    if constexpr (Cfg::da == 256 && Cfg::dc == 256 && !Body::wants_registers) {
      // A quarter of the products is none for the head dimensions up to 192.
      if (body.cols_a() <= 192 && body.cols_c() <= 192) return multiply(chain_place<64>{});
    }
    multiply(chain_place<0>{});
  });
}

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME
