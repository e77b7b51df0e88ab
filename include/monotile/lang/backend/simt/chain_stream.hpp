#pragma once
// Chained products of few rows and many blocks on Hopper, at the speed of memory: programs that stay, in which two warps
// keep a ring of blocks on its way and the others have a part of each block, with sums of their own that are joined at the
// tile's end. The copying warps run ahead over the ends of tiles, and take the next tile from a queue: multiprocessors get
// unequal shares of the memory's speed. Who stores the last of the tiles that belong together joins them. For sm_90a and
// the emulated one.

#include "monotile/lang/backend/simt/chain_warpgroups.hpp"

namespace monotile::lang::inline MONOTILE_TARGET_NAME {

template <class Cfg>
struct stream_chain_traits {
  static constexpr int waves = Cfg::waves, copying = 2, threads = 32 * (waves + copying);
  static constexpr int part = Cfg::bn / waves;  ///< rows of a block for one wave
  static constexpr int tiles = 2;  ///< that are known at one time
  /// Of the sums that waves join at a time; rows lie in different banks.
  static constexpr int sum_rows = (Cfg::programs > 1 ? 256 : 512) / Cfg::dc, sum_stride = Cfg::dc + 8;
  static_assert(Cfg::bm == 16 && Cfg::wave_rows == 16, "a wave has all rows");
  static_assert(part % 16 == 0, "rows of whole matrix instructions");
};

/// What waves tell each other.
template <class Cfg>
struct stream_exchange {
  using Traits = stream_chain_traits<Cfg>;
  alignas(16) float sums[Traits::waves][Traits::sum_rows][Traits::sum_stride];
  float largest[Traits::waves][16], total[Traits::waves][16];
  int last;  ///< 1: all that belongs together is stored
};

template <class Cfg, class T, class Tile>
struct alignas(1024) stream_chain_memory {
  using Traits = stream_chain_traits<Cfg>;
  smem_tile<T, Cfg::bm, Cfg::da, along::m> a[Traits::tiles];
  smem_tile<T, Cfg::bn, Cfg::da, along::n> b[Cfg::stages];
  smem_tile<T, Cfg::bn, Cfg::dc, along::n> c[Cfg::stages];
  stream_exchange<Cfg> exchange;
  alignas(8) chain_barriers<Traits::tiles> tile_at, told_at;  ///< told: `tile` is written, a is still on its way
  chain_barriers<Cfg::stages> b_at, c_at;
  // Written by the warp that copies a and b before it hands them over.
  Tile tile[Traits::tiles];
  int blocks[Traits::tiles];   ///< of the tile; -1: there are no more tiles
  int block[2 * Cfg::stages + 1];  ///< its number, known before its place in the ring is free; the last one is no block's
};

/// Places of a ring by the number of what lies there, counted from the start of the program.
template <int Stages>
struct stream_ring {
  uint32_t barriers;
  bool each_lane;  ///< of a reading warp arrives: where lanes write, they are ordered with lanes. The copy engine waits for a warp's first one
  MT_DEVICE explicit stream_ring(const chain_barriers<Stages>& at, bool each = false)
      : barriers(shared_address(&at)), each_lane(each) {}
  MT_DEVICE uint32_t full(uint32_t n) const { return barriers + 8 * (n % Stages); }
  MT_DEVICE uint32_t empty(uint32_t n) const { return full(n) + 8 * Stages; }
  MT_DEVICE void init(int fillers, int readers) const {
    for (uint32_t s = 0; s < Stages; ++s) {
      hopper::barrier_init(full(s), fillers);
      hopper::barrier_init(empty(s), each_lane ? 32 * readers : readers);
    }
  }
  MT_DEVICE uint32_t parity(uint32_t n) const { return n / Stages & 1; }
  MT_DEVICE void wait_full(uint32_t n) const { hopper::barrier_wait(full(n), parity(n)); }
  MT_DEVICE void wait_empty(uint32_t n) const { hopper::barrier_wait(empty(n), parity(n) ^ 1); }
  /// What all lanes of a warp have read may be overwritten.
  MT_DEVICE void release(uint32_t n, int lane) const {
    wave_sync();
    if (lane == 0 || each_lane) hopper::barrier_arrive(empty(n));
  }
};

/// A copying warp's view. The places of the next boxes are looked up together, a lane each; then all lanes agree on one
/// after the other, since the copy engine takes its orders from registers that lanes share.
template <class Cfg>
struct stream_copies {
  uint32_t full, empty, parity;  ///< barriers of what is being filled, and the phase in which it is free
  int lane, block;
  int first_box;  ///< number of lane 0's, counted from the first block; < 0: nothing was looked up
  box_at at;
  const unsigned char* row;  ///< the first one of the box, where lanes copy
  static constexpr int kNowhere = -1 << 20;
  /// Boxes of fewer rows are copied by the lanes: the copy engine takes about as long for one row as for sixteen.
  static constexpr int kLeastRows = 16;
  static MT_DEVICE bool lanes_copy(const box_view& from) { return from.box_x * from.box_y < kLeastRows; }
  static constexpr int arrivals = 33;  ///< at `full`: one when all orders are given, and where lanes copy theirs
  /// The lane that has the first of `count` boxes, which are looked up if they were not: look_up(first).
  template <class LookUp>
  MT_DEVICE int owner(int first, int count, LookUp look_up) {
    const int own = first - first_box;
    if (own >= 0 && own + count <= 32) return own;
    look_up();
    first_box = first;
    return 0;
  }
  template <class Ring>
  MT_DEVICE void fill(const Ring& ring, uint32_t n) {
    full = ring.full(n);
    empty = ring.empty(n);
    parity = ring.parity(n) ^ 1;
  }
};
/// By the lanes, each with the same 16 bytes of some rows.
template <class Cfg, class T, int R, int C, along A, class Place>
MT_DEVICE void copy_by_lanes(stream_copies<Cfg>& cx, smem_tile<T, R, C, A>& to, const box_view& from, Place place) {
  using Tile = smem_tile<T, R, C, A>;
  constexpr int kChunks = C / 8, kRows = 32 / kChunks;
  static_assert(kChunks <= 32);
  const int shift = lowest_bit(static_cast<uint32_t>(from.box_x)), boxes = R >> shift, count = boxes < 32 ? boxes : 32;
  const int chunk = cx.lane % kChunks, missing = from.cols - chunk * 8;
  const int bytes = (missing < 0 ? 0 : missing < 8 ? missing : 8) * static_cast<int>(sizeof(T));
  const int64_t stride = from.stride_x * static_cast<int64_t>(sizeof(T));
  MT_NO_UNROLL
  for (int first = 0; first < boxes; first += 32) {
    const int own = cx.owner(cx.block * boxes + first, count, [&] {
      cx.at = place(first + cx.lane);
      cx.row = static_cast<const unsigned char*>(from.data);
      if (cx.at.rows > 0) cx.row += from.offset(cx.at.x, cx.at.y, cx.at.z) * static_cast<int64_t>(sizeof(T));
    });
    if (first == 0) hopper::barrier_wait(cx.empty, cx.parity);
    MT_UNROLL_BY(4)
    for (int i = 0; i < count << shift; i += kRows) {
      const int r = i + cx.lane / kChunks, box = r >> shift, within = r - (box << shift);
      const auto row = from_lane(reinterpret_cast<unsigned long long>(cx.row), own + box);
      const int rows = from_lane(cx.at.rows, own + box);
      const auto* const data = reinterpret_cast<const unsigned char*>(row) + within * stride + chunk * 16;
      copy_queue{}.add(to.data + Tile::offset((first << shift) + r, chunk), data, within < rows ? bytes : 0, 0, 0, 0);
    }
  }
  hopper::barrier_arrive_after_copies(cx.full);
  if (hopper::elect_one()) hopper::barrier_arrive(cx.full);
}
/// Boxes that do not exist lie outside the view, where the copy engine reads zeros. All bytes of a box count, whether
/// they exist or not.
template <class Cfg, class T, int R, int C, along A, class Place>
MT_DEVICE void copy_boxes(stream_copies<Cfg>& cx, smem_tile<T, R, C, A>& to, const box_view& from, Place place) {
  using Tile = smem_tile<T, R, C, A>;
  const int rows = from.box_x * from.box_y;
  const uint32_t data = shared_address(to.data);
  if constexpr (A == along::m) {
    const box_at at = place(0);
    if (hopper::elect_one()) {
      hopper::barrier_arrive_expect(cx.full, rows * C * static_cast<int>(sizeof(T)));
      copy_panels<Tile>(data, 0, from, cx.full, at.x, at.y, at.z);
    }
  } else if (stream_copies<Cfg>::lanes_copy(from)) {
    copy_by_lanes(cx, to, from, place);
  } else {
    constexpr int kAtOnce = 4;
    const int boxes = R >> lowest_bit(static_cast<uint32_t>(rows));  // a divisor of R, which is a power of two
    const int count = boxes < 32 ? boxes : 32;
    MT_NO_UNROLL
    for (int first = 0; first < boxes; first += 32) {
      const int own = cx.owner(cx.block * boxes + first, count, [&] { cx.at = place(first + cx.lane); });
      if (first == 0) {
        hopper::barrier_wait(cx.empty, cx.parity);
        if (hopper::elect_one()) {
          hopper::barrier_arrive(cx.full, stream_copies<Cfg>::arrivals - 1);
          hopper::barrier_arrive_expect(cx.full, Tile::bytes);
        }
      }
      MT_NO_UNROLL
      for (int i = 0; i < count; i += kAtOnce) {
        int x[kAtOnce], y[kAtOnce], z[kAtOnce];
        MT_UNROLL
        for (int k = 0; k < kAtOnce; ++k) {
          x[k] = from_lane(cx.at.x, own + i + k);
          y[k] = from_lane(cx.at.y, own + i + k);
          z[k] = from_lane(cx.at.z, own + i + k);
        }
        if (hopper::elect_one()) {
          MT_UNROLL
          for (int k = 0; k < kAtOnce; ++k) {
            if (i + k < count)
              copy_panels<Tile>(data, (first + i + k) * rows, from, cx.full, x[k], y[k], z[k]);
          }
        }
      }
    }
  }
  wave_sync();
}

template <class Body>
MT_DEVICE int32_t* counts_of(const Body& body) {
  using Counts = typename Body::Counts;
  return body.counts() != nullptr ? body.counts() : kept_counts<Counts> + body.slot() * Counts::slot_size;
}
/// Reads tables past the first-level cache, so that what was read early is read again.
struct stream_reader {
  bool reports;  ///< false: for hints
  MT_DEVICE int operator()(const int32_t* entry) const { return hopper::load_now(entry); }
};

/// The tiles that a copying warp takes: all of all sequences are numbered, sequence by sequence and within it split by split,
/// so that neighbours copy neighbouring rows. A program has its first tile by its own number and others by tickets. Numbers
/// of a program grow, so that each lane keeps a sequence and they move on together. Which tiles a program has does not change
/// what becomes of them.
template <class Body>
struct stream_queue {
  const Body& body;
  int lane;
  int32_t* counts;
  stream_reader read;
  int number = program_number();  ///< of the next tile, in lane 0, where it may be on its way
  bool asked = true;
  int base = -32, position = 0;  ///< the first sequence that lanes keep, and the number of its first tile
  tile_of_chain<Body> mine{};    ///< what tiles of sequence `base` + lane have in common
  int up_to = 0;                 ///< tiles of it and of those of the lanes before

  /// Some time before `next`, but not early: what is taken late goes to who is free.
  MT_DEVICE void ask() {
    if (!asked && lane == 0) number = program_count() + hopper::next_ticket(counts + Body::Counts::ticket);
    asked = true;
  }
  /// False: there are no more tiles.
  MT_DEVICE bool next(tile_of_chain<Body>& t) {
    const int n = from_lane(number, 0), groups = body.groups();
    asked = false;
    uint32_t beyond;
    while ((beyond = wave_ballot(n < position + up_to)) == 0) {
      position += from_lane(up_to, 31);
      base += 32;
      if (base >= body.sequences()) return false;
      if (base + lane < body.sequences()) {
        mine = body.tiles(base + lane, read);
      } else {
        mine.splits = 0;
      }
      up_to = mine.splits * groups;
      MT_UNROLL
      for (int distance = 1; distance < 32; distance *= 2) {
        const int below = from_below(up_to, distance);
        if (lane >= distance) up_to += below;
      }
    }
    const int at = lowest_bit(beyond);
    t = all_from_lane(mine, at);
    const int within = n - position - from_lane(up_to, at) + t.splits * groups, split = within / groups;
    t = body.part(t, within - split * groups, t.first_split + split);
    return true;
  }
  /// Is what was found early still so? Tables are asked once more, together; nothing is computed again.
  MT_DEVICE bool stands() {
    read.reports = true;
    return base == 0 && !wave_any(lane < body.sequences() && !body.stands(lane, mine, read));
  }
  /// What was found so far counts for nothing.
  MT_DEVICE void begin_again() {
    asked = true;
    number = program_number();
    base = -32;
    position = up_to = 0;
  }
  /// After the last tile.
  MT_DEVICE void leave() const {
    if (lane != 0 || hopper::arrive_at_count(counts + Body::Counts::finished) < program_count() - 1) return;
    counts[Body::Counts::ticket] = 0;
    counts[Body::Counts::finished] = 0;
  }
};

/// Lines of the first rows of a tile into the cache that all share: rows of `from` with `Panels` lines each.
template <int Panels, class Body>
MT_DEVICE void foresee_rows(const Body& body, const tile_of_chain<Body>& t, const box_view& from, int lane) {
  constexpr int kRows = 32 / Panels, kLine = 128;
  const int shift = lowest_bit(static_cast<uint32_t>(from.box_x)), wanted = t.keys.end - t.keys.first;
  const int boxes = (wanted < body.foreseen() ? wanted : body.foreseen()) >> shift, line = lane % Panels;
  const int64_t stride = from.stride_x * static_cast<int64_t>(sizeof(typename Body::element));
  const bool exists = line * kLine < from.cols * static_cast<int>(sizeof(typename Body::element));
  MT_NO_UNROLL
  for (int first = 0; first < boxes; first += 32) {
    const int count = boxes - first < 32 ? boxes - first : 32;
    const box_at at = body.cache_box(t, from, t.keys.first + ((first + lane) << shift), stream_reader{false});
    const auto* box = static_cast<const unsigned char*>(from.data);
    if (at.rows > 0) box += from.offset(at.x, at.y, at.z) * static_cast<int64_t>(sizeof(typename Body::element));
    MT_UNROLL_BY(4)
    for (int i = 0; i < count << shift; i += kRows) {
      const int r = i + lane / Panels, number = r >> shift & 31, within = r & ((1 << shift) - 1);
      const auto start = from_lane(reinterpret_cast<unsigned long long>(box), number);
      if (within < from_lane(at.rows, number) && r < count << shift && exists)
        hopper::prefetch_line(reinterpret_cast<const unsigned char*>(start) + within * stride + line * kLine);
    }
  }
}

/// The blocks of a tile that are visited, one after the other. The lanes of the warp go together, each looks at one of 32.
template <class Body>
struct stream_blocks {
  int base = 0, end = 0;
  uint32_t left = 0;
  MT_DEVICE void look(const Body& body, const tile_of_chain<Body>& t, int lane) {
    left = wave_ballot(base + lane < end && body.visits(t, base + lane));
  }
  MT_DEVICE void begin(const Body& body, const tile_of_chain<Body>& t) {
    left = 0;
    base = body.first_block(t) - 32;
    end = body.blocks(t);
  }
  /// How many there are.
  MT_DEVICE int count(const Body& body, const tile_of_chain<Body>& t, int lane) {
    int n = 0;
    for (begin(body, t); base + 32 < end;) {
      base += 32;
      look(body, t, lane);
      n += bits_set(left);
    }
    begin(body, t);
    return n;
  }
  MT_DEVICE int next(const Body& body, const tile_of_chain<Body>& t, int lane) {
    while (left == 0) {
      base += 32;
      look(body, t, lane);
    }
    const int block = base + lowest_bit(left);
    left &= left - 1;
    return block;
  }
};

/// The copying warp that has a and b, and tells the others what there is. The next tile is looked up while the blocks before
/// the last one are on their way. There is one place for each thing: little code is sooner there.
template <class Cfg, class Body, class Memory>
MT_DEVICE void stream_copy_first(const Body& body, Memory& memory, int lane) {
  using Traits = stream_chain_traits<Cfg>;
  const stream_ring<Traits::tiles> tiles(memory.tile_at), told(memory.told_at);
  const stream_ring<Cfg::stages> ring(memory.b_at);
  stream_queue<Body> queue{body, lane, counts_of(body), {false}};
  stream_blocks<Body> blocks;
  stream_copies<Cfg> to{0, 0, 0, lane, 0, stream_copies<Cfg>::kNowhere, {}, nullptr};
  tile_of_chain<Body> t, following;
  // Early, if at all, the first tile is looked up and its rows are asked for, by the code that looks up the others. When the
  // kernel before is done, one trip to the tables says whether that was right.
  bool more = true, early = body.foreseen() > 0;
  if (!early) hopper::wait_for_previous();
  queue.read.reports = !early;
  int left = 0;
  for (uint32_t tile = 0, n = 0;;) {
    if (left <= 2) queue.ask();
    if (left <= 1) more = queue.next(following);
    if (early) {
      if (more) {
        foresee_rows<Cfg::da / 64>(body, following, body.p.k, lane);
        foresee_rows<Cfg::dc / 64>(body, following, body.p.v, lane);
      }
      hopper::wait_for_previous();
      early = false;
      if (!queue.stands()) {
        queue.begin_again();
        continue;
      }
    }
    if (left > 0) {
      to.block = blocks.next(body, t, lane);
      to.fill(ring, n);
      if (hopper::elect_one()) memory.block[n % (2 * Cfg::stages)] = to.block;
      body.load_b(to, memory.b[n % Cfg::stages], t, to.block);
      ++n;
      if (--left > 0) continue;
    }
    const uint32_t at = tile % Traits::tiles;
    if (more) {
      t = following;
      left = blocks.count(body, t, lane);
    }
    tiles.wait_empty(tile);
    if (hopper::elect_one()) {
      memory.tile[at] = t;
      memory.blocks[at] = more ? left : -1;
      hopper::barrier_arrive(told.full(tile));
      if (!more) hopper::barrier_arrive(tiles.full(tile));
    }
    if (!more) return queue.leave();
    to.fill(tiles, tile);
    body.load_a(to, memory.a[at], t);
    to.first_box = stream_copies<Cfg>::kNowhere;
    ++tile;
  }
}
/// The one that has c.
template <class Cfg, class Body, class Memory>
MT_DEVICE void stream_copy_second(const Body& body, Memory& memory, int lane) {
  using Traits = stream_chain_traits<Cfg>;
  const stream_ring<Traits::tiles> tiles(memory.tile_at), told(memory.told_at);
  const stream_ring<Cfg::stages> ring(memory.c_at);
  stream_copies<Cfg> to{0, 0, 0, lane, 0, stream_copies<Cfg>::kNowhere, {}, nullptr};
  uint32_t n = 0;
  for (uint32_t tile = 0;; ++tile) {
    const uint32_t at = tile % Traits::tiles;
    told.wait_full(tile);
    const int count = told_word(memory.blocks[at], lane);
    if (count < 0) return;
    const auto t = all_from_lane(memory.tile[at], 0, lane == 0);
    tiles.release(tile, lane);
    to.first_box = stream_copies<Cfg>::kNowhere;
    stream_blocks<Body> blocks;
    blocks.begin(body, t);
    for (int left = count; left > 0; --left, ++n) {
      to.block = blocks.next(body, t, lane);
      to.fill(ring, n);
      body.load_c(to, memory.c[n % Cfg::stages], t, to.block);
    }
  }
}

/// Rows of a tile from `first` on.
template <class Tile>
struct rows_from {
  using element = typename Tile::element;
  unsigned char* data;
  MT_DEVICE rows_from(Tile& tile, int first) : data(tile.data + first * Tile::row_bytes) {}
  static MT_DEVICE int offset(int row, int chunk) { return Tile::offset(row, chunk); }
  static MT_DEVICE int place(int row, int col) { return Tile::place(row, col); }
};
/// clean_rows, of a part of `R` rows.
template <int R, class T, class Tile>
MT_DEVICE bool clean_part(const rows_from<Tile>& part, int rows, bool look, int lane) {
  constexpr int kChunks = Tile::cols / 8;
  uint32_t found = 0;
  MT_UNROLL_BY(2)
  for (int i = lane; i < R * kChunks; i += 32) {
    unsigned char* const place = part.data + Tile::offset(i / kChunks, i % kChunks);
    if (i >= rows * kChunks) {
      clear_shared16(place);
    } else if (look) {
      found |= carries_of_unbounded<T>(load_shared16(place));
    }
  }
  return wave_any(found != 0);
}

/// A multiplying wave's view: all rows of a, a part of each block.
template <class Cfg, class T>
struct stream_wave : chain_context<Cfg, T> {
  stream_exchange<Cfg>& exchange;
  int wave, number;              ///< and the lane within it
  uint32_t along_rows, along_k;  ///< where in a tile this lane's rows start for products
  MT_DEVICE stream_wave(Context& ctx, stream_exchange<Cfg>& e)
      : chain_context<Cfg, T>{ctx, {}, 0},
        exchange(e),
        wave(ctx.thread(0) / 32),
        number(ctx.thread(0) % 32),
        along_rows(swizzle<128>::offset(number % 16, number / 16)),
        along_k(swizzle<128>::offset(number % 8 + number / 16 * 8, number / 8 % 2)) {}
  static constexpr int threads = 32 * stream_chain_traits<Cfg>::waves;
  /// Waits for all waves.
  MT_DEVICE void together() const { hopper::named_barrier_sync(1, threads); }
  /// What the waves stored can be read by other programs, of which `parts` do the same: true in the one that comes last,
  /// which can read what all of them stored, and sets the count back. All waves come here, and none is left behind in what
  /// they did before.
  MT_DEVICE bool last_of(int32_t* arrivals, int parts) const {
    together();
    if (parts == 1) return true;
    if (wave == 0 && number == 0) {
      const bool last = hopper::arrive_at_count(arrivals) == parts - 1;
      if (last) *arrivals = 0;
      exchange.last = last ? 1 : 0;
    }
    together();
    return load_word(exchange.last) != 0;
  }
};
/// Columns are those of the whole block.
template <class Cfg, class T, class Layout, int R, int C, class OfRow, class F>
MT_DEVICE void map_cells_at(stream_wave<Cfg, T>& cx, row_acc<Layout, R, C>& acc, OfRow of_row, F f) {
  const int before = cx.wave * stream_chain_traits<Cfg>::part;
  map_cells_at(static_cast<chain_context<Cfg, T>&>(cx), acc, of_row,
               [&](float x, const auto& row, int col) { return f(x, row, before + col); });
}
/// 16 rows x 16 columns number k of a tile, by the place of this lane's row in the first of them: panels start on 1024
/// bytes and rows on 128, so that columns within a panel differ by an exclusive or.
template <class Tile, bool Across>
MT_DEVICE void read_square(uint32_t (&r)[4][1], uint32_t place, int rows, int k) {
  read_matrices<Across>(r, (place ^ (k % 4 * 32)) + k / 4 * Tile::panel_bytes + rows * 128);
}
/// Rows of a, for all blocks of a tile, if there are registers for them.
template <class Cfg>
struct stream_rows {
  static constexpr bool kept = Cfg::da <= 128;
  static constexpr int steps = Cfg::da / 16;
  uint32_t place, w[kept ? steps : 1][4][1];
};
template <class Cfg, class T, class A>
MT_DEVICE void read_rows(const stream_wave<Cfg, T>& cx, stream_rows<Cfg>& rows, const A& a) {
  rows.place = shared_address(a.data) + cx.along_rows;
  if constexpr (stream_rows<Cfg>::kept) {
    MT_UNROLL
    for (int k = 0; k < stream_rows<Cfg>::steps; ++k) read_square<A, false>(rows.w[k], rows.place, 0, k);
  }
}
/// s = a b^T: two sums each, half the length of the chain of dependent instructions.
template <class Cfg, class T, class A, int N, class B>
MT_DEVICE void first_product(stream_wave<Cfg, T>& cx, row_acc<mma_rows, 16, N>& s, const stream_rows<Cfg>& rows,
                             const A&, const rows_from<B>& b) {
  using Unit = typename unit_at<mma_rows>::type;
  const uint32_t place = shared_address(b.data) + cx.along_k;
  row_acc<mma_rows, 16, N> odd;
  clear(cx, s);
  clear(cx, odd);
  MT_UNROLL
  for (int k = 0; k < stream_rows<Cfg>::steps; ++k) {
    uint32_t x[4][1];
    if constexpr (stream_rows<Cfg>::kept) {
      MT_UNROLL
      for (int w = 0; w < 4; ++w) x[w][0] = rows.w[k][w][0];
    } else {
      read_square<A, false>(x, rows.place, 0, k);
    }
    MT_UNROLL
    for (int j = 0; j < N / 16; ++j) {
      uint32_t y[4][1];
      read_square<B, false>(y, place, j * 16, k);
      auto& sums = (k % 2 == 0 ? s : odd).d[0];
      Unit::template multiply<T>(sums[2 * j], x, reinterpret_cast<uint32_t(&)[2][1]>(y[0]));
      Unit::template multiply<T>(sums[2 * j + 1], x, reinterpret_cast<uint32_t(&)[2][1]>(y[2]));
    }
  }
  each_element(s, [&](float& v, int i, int j, int e, int l) { v += odd.d[i][j][e][l]; });
}
/// o += weights c.
template <class Cfg, class T, int N, int D, class C>
MT_DEVICE void second_product(stream_wave<Cfg, T>& cx, row_acc<mma_rows, 16, D>& o,
                              const row_operand<mma_rows, 16, N>& weights, const rows_from<C>& c) {
  using Unit = typename unit_at<mma_rows>::type;
  const uint32_t place = shared_address(c.data) + cx.along_rows;
  MT_UNROLL
  for (int k = 0; k < N / 16; ++k) {
    MT_UNROLL
    for (int j = 0; j < D / 16; ++j) {
      uint32_t y[4][1];
      read_square<C, true>(y, place, k * 16, j);
      Unit::template multiply<T>(o.d[0][2 * j], weights.w[0][k], reinterpret_cast<uint32_t(&)[2][1]>(y[0]));
      Unit::template multiply<T>(o.d[0][2 * j + 1], weights.w[0][k], reinterpret_cast<uint32_t(&)[2][1]>(y[2]));
    }
  }
}
/// The sums of all waves, of a tile of one token; some rows at a time, wave by wave in their order. All waves have left the
/// room before they come here.
template <class Cfg, class T, int R, int D, class Share, class Keep>
MT_DEVICE void store_sums(stream_wave<Cfg, T>& cx, const box_view& to, const box_at& at, row_acc<mma_rows, R, D>& acc,
                          const row_values<mma_rows, R>& largest, const row_values<mma_rows, R>& parts, Share share,
                          Keep keep) {
  using Traits = stream_chain_traits<Cfg>;
  static_assert(R == 16);
  constexpr int kVector = 4, kVectors = D / kVector;
  auto& room = cx.exchange;
  float* const data = static_cast<float*>(to.data) + to.offset(at.x, at.y, at.z);
  const auto total = row_total(static_cast<chain_context<Cfg, T>&>(cx), parts);
  if (cx.number % 4 == 0) {
    MT_UNROLL
    for (int s = 0; s < mma_rows::slots; ++s) {
      const int row = mma_rows::slot_row(cx.number, s);
      room.largest[cx.wave][row] = largest.v[s][0];
      room.total[cx.wave][row] = total.v[s][0];
    }
  }
  MT_NO_UNROLL
  for (int first = 0; first < at.rows; first += Traits::sum_rows) {
    if (first > 0) cx.together();  // all have read
    MT_UNROLL
    for (int e = 0; e < mma_rows::elements; e += 2) {
      const coordinate place = mma_rows::at(cx.number, e);
      const int row = place.row - first;
      if (row < 0 || row >= Traits::sum_rows) continue;
      MT_UNROLL
      for (int j = 0; j < D / mma_rows::cols; ++j) {
        const auto& x = acc.d[0][j];
        *reinterpret_cast<float2*>(&room.sums[cx.wave][row][j * mma_rows::cols + place.col]) =
            make_float2(x[e][0], x[e + 1][0]);
      }
    }
    cx.together();
    const int rows = at.rows - first < Traits::sum_rows ? at.rows - first : Traits::sum_rows;
    MT_NO_UNROLL
    for (int i = cx.wave * 32 + cx.number; i < rows * kVectors; i += cx.threads) {
      const int row = i / kVectors, col = i % kVectors * kVector;
      float most = room.largest[0][first + row];
      MT_UNROLL
      for (int w = 1; w < Traits::waves; ++w) most = max_of(most, room.largest[w][first + row]);
      float4 sum = make_float4(0, 0, 0, 0);
      float weights = 0;
      MT_UNROLL
      for (int w = 0; w < Traits::waves; ++w) {
        const float4 v = *reinterpret_cast<const float4*>(&room.sums[w][row][col]);
        const float f = share(room.largest[w][first + row], most);
        sum = make_float4(sum.x + v.x * f, sum.y + v.y * f, sum.z + v.z * f, sum.w + v.w * f);
        weights += room.total[w][first + row] * f;
      }
      *reinterpret_cast<float4*>(data + (first + row) * to.stride_x + col) = sum;
      if (col == 0) keep(first + row, most, weights);
    }
  }
}

template <class Cfg, class Body>
MT_DEVICE void stream_chain(Context& ctx, const Body& body) {
  using T = typename Body::element;
  using Traits = stream_chain_traits<Cfg>;
  using Memory = stream_chain_memory<Cfg, T, tile_of_chain<Body>>;
  // Not by way of an integer, which would hide from the compiler that this is shared memory.
  auto& memory =
      *reinterpret_cast<Memory*>(ctx.scratch + (-reinterpret_cast<uintptr_t>(ctx.scratch) & uintptr_t{1023}));
  const stream_ring<Traits::tiles> tiles(memory.tile_at);
  const stream_ring<Cfg::stages> b(memory.b_at, stream_copies<Cfg>::lanes_copy(body.p.k));
  const stream_ring<Cfg::stages> c(memory.c_at, stream_copies<Cfg>::lanes_copy(body.p.v));
  const int warp = same_for_all(thread_number() / 32), lane = thread_number() % 32;
  if (thread_number() == 0) {
    tiles.init(1, Traits::waves + 1);  // and the warp that copies c
    stream_ring<Traits::tiles>(memory.told_at).init(1, 1);
    b.init(stream_copies<Cfg>::arrivals, Traits::waves);
    c.init(stream_copies<Cfg>::arrivals, Traits::waves);
    memory.block[2 * Cfg::stages] = 0;
    hopper::fence_barrier_init();
    // What the copy engine is told about rows takes a trip to memory, too.
    body.copied_rows([](const box_view& v) { hopper::prefetch_map(v.map); });
    // And so do lengths, tables and counts: a line of each by each program, into the cache that all share. Nothing is read yet.
    const auto bring_near = [](const int32_t* values, int64_t count) {
      const int64_t first = int64_t{32} * program_number();
      if (values != nullptr && first < count) hopper::prefetch_line(values + first);
    };
    body.looked_up(bring_near);
    bring_near(counts_of(body), Body::Counts::first_arrival + int64_t{body.sequences()} * body.groups());
  }
  ctx.barrier();
  if (warp == Traits::waves) return stream_copy_first<Cfg>(body, memory, lane);
  hopper::wait_for_previous();
  // Not sooner: kernels that ask for rows early would do so for more than the cache holds.
  hopper::let_next_start();
  if (warp > Traits::waves) return stream_copy_second<Cfg>(body, memory, lane);
  constexpr int kPart = Traits::part;
  stream_wave<Cfg, T> cx(ctx, memory.exchange);
  row_acc<mma_rows, 16, Cfg::dc> o;
  uint32_t n = 0;  // number of the block
  for (uint32_t tile = 0;; ++tile) {
    const uint32_t at = tile % Traits::tiles;
    tiles.wait_full(tile);
    const int count = told_word(memory.blocks[at], lane);
    if (count < 0) break;
    const auto t = all_from_lane(memory.tile[at], 0, lane == 0);
    stream_rows<Cfg> rows;
    read_rows(cx, rows, memory.a[at]);
    clear(cx, o);
    auto state = body.begin(cx, t);
    for (int i = 0; i < count; ++i, ++n) {
      const uint32_t place = n % Cfg::stages;
      b.wait_full(n);
      // By the lane that hands the place back, as told_word does, which would spill here: the others read a word that nobody writes.
      const int block = same_for_all(load_word(memory.block[lane == 0 ? n % (2 * Cfg::stages) : 2 * Cfg::stages]));
      row_acc<mma_rows, 16, kPart> s;
      first_product(cx, s, rows, memory.a[at], rows_from(memory.b[place], warp * kPart));
      b.release(n, lane);
      const bool hides = body.hides(t, block);
      const auto rescale = body.weigh(cx, state, s, t, block, hides);
      row_operand<mma_rows, 16, kPart> weights;
      as_operand<T>(weights, s);
      scale_rows(cx, o, rescale, [](float x, float r) { return x * r; });
      c.wait_full(n);
      const rows_from part(memory.c[place], warp * kPart);
      bool one_by_one = false;
      if (hides) {
        one_by_one =
            clean_part<kPart, T>(part, body.rows_of_block(t, block) - warp * kPart, body.partial(t, block), lane);
        hopper::fence_for_copies();  // the copy engine comes after these stores
        wave_sync();
      }
      if (one_by_one) {
        static_assert(sizeof memory.exchange.sums[0] >= sizeof(T) * 16 * kPart);
        product_of_seen<kPart>(cx, o, weights, part, reinterpret_cast<T*>(memory.exchange.sums[warp]));
        wave_sync();  // all have read, before the first lane hands c back
      } else {
        second_product(cx, o, weights, part);
      }
      c.release(n, lane);
    }
    tiles.release(tile, lane);
    body.finish(cx, state, o, t);
    if (cx.last_of(counts_of(body) + body.arrival(t), t.splits)) {
      Context waves = ctx;
      waves.threads = cx.threads;
      body.join(waves, t);
    }
  }
}

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME
