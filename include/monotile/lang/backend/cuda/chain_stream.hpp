#pragma once
// Chained products of few rows and many blocks on Hopper, at the speed of memory: a program per multiprocessor, in which
// two warps keep a ring of blocks on its way and the others take the blocks of a tile in turn, each with sums of its own
// that are joined at the tile's end. The copying warps run ahead over the ends of tiles. sm_90a only.

#include "monotile/lang/backend/cuda/chain_warpgroups.hpp"

namespace monotile::lang::inline MONOTILE_TARGET_NAME {

template <class Cfg>
struct stream_chain_traits {
  static constexpr int waves = Cfg::waves, copying = 2, threads = 32 * (waves + copying);
  static constexpr int tiles = 4;                                 ///< that are known at one time
  static constexpr int sum_cols = 32, sum_stride = sum_cols + 8;  ///< of sums that waves join; rows in different banks
  static_assert(Cfg::bm == 16 && Cfg::wave_rows == 16, "a wave has all rows");
  // A wave waits for block number n of a ring in which it has itself taken the one before in the same place: the parity of
  // a barrier tells only two phases apart.
  static_assert(Cfg::stages % waves == 0, "the places of a wave in the ring are its own within a tile");
};

/// What waves tell each other.
template <class Cfg>
struct stream_exchange {
  using Traits = stream_chain_traits<Cfg>;
  alignas(16) float sums[Traits::waves][16][Traits::sum_stride];
  float highest[Traits::waves][16], total[Traits::waves][16];
};

template <class Cfg, class T, class Tile>
struct alignas(1024) stream_chain_memory {
  using Traits = stream_chain_traits<Cfg>;
  smem_tile<T, Cfg::bm, Cfg::da, along::m> a[Traits::tiles];
  smem_tile<T, Cfg::bn, Cfg::da, along::n> b[Cfg::stages];
  smem_tile<T, Cfg::bn, Cfg::dc, along::n> c[Cfg::stages];
  stream_exchange<Cfg> exchange;
  alignas(8) chain_barriers<Traits::tiles> tile_at;
  chain_barriers<Cfg::stages> block_at;
  // Written by the warp that copies a and b before it hands them over.
  Tile tile[Traits::tiles];
  int blocks[Traits::tiles];  ///< of the tile; -1: there are no more tiles
  int block[Cfg::stages];     ///< its number
};

/// Places of a ring by the number of what lies there, counted from the start of the program.
template <int Stages>
struct stream_ring {
  uint32_t barriers;
  MT_DEVICE explicit stream_ring(const chain_barriers<Stages>& at) : barriers(shared_address(&at)) {}
  MT_DEVICE uint32_t full(uint32_t n) const { return barriers + 8 * (n % Stages); }
  MT_DEVICE uint32_t empty(uint32_t n) const { return full(n) + 8 * Stages; }
  MT_DEVICE void init(int fillers, int readers) const {
    for (uint32_t s = 0; s < Stages; ++s) {
      hopper::barrier_init(full(s), fillers);
      hopper::barrier_init(empty(s), readers);
    }
  }
  MT_DEVICE void wait_full(uint32_t n) const { hopper::barrier_wait(full(n), n / Stages & 1); }
  MT_DEVICE void wait_empty(uint32_t n) const { hopper::barrier_wait(empty(n), (n / Stages & 1) ^ 1); }
  /// What all lanes of a warp have read may be overwritten.
  MT_DEVICE void release(uint32_t n, int lane) const {
    __syncwarp();
    if (lane == 0) hopper::barrier_arrive(empty(n));
  }
};

/// A copying warp's view.
template <class Cfg>
struct stream_copies {
  uint32_t full;
  int lane;
};
/// Each lane looks up the place of its boxes; those that do not exist lie outside the view, where the copy engine reads
/// zeros. All bytes of a box count, whether they exist or not.
template <class Cfg, class T, int R, int C, along A, class Place>
MT_DEVICE void copy_boxes(stream_copies<Cfg>& cx, smem_tile<T, R, C, A>& to, const box_view& from, Place place) {
  using Tile = smem_tile<T, R, C, A>;
  static_assert(Tile::row_bytes == 128, "the copy engine and the reads agree on 128-byte panels");
  const int rows = from.box_x * from.box_y, all = A == along::m ? rows : R;
  if (cx.lane == 0) hopper::barrier_arrive_expect(cx.full, all * C * static_cast<int>(sizeof(T)));
  __syncwarp();
  MT_NO_UNROLL
  for (int i = cx.lane; i / Tile::panels * rows < all; i += 32) {
    const int box = i / Tile::panels, panel = i % Tile::panels;
    const box_at at = place(box);
    hopper::copy_box(shared_address(to.data) + panel * Tile::panel_bytes + box * rows * 128, from.map, cx.full,
                     panel * Tile::panel_cols, at.x, at.y, at.z);
  }
  __syncwarp();
}

/// visit(tile) for those of this program: all tiles in their order, cut into one stretch per program by the number of
/// blocks. The lanes of the warp go together.
template <class Body, class Visit>
MT_DEVICE void each_tile_of_program(const Body& body, int lane, Visit visit) {
  const int sequences = body.sequences(), groups = body.groups();
  const auto blocks_of = [&](const chain_share& s) {
    return static_cast<int64_t>(s.end - s.first) * groups * s.blocks;
  };
  chain_share mine{0, 0, 1};  // of sequence number `base` + lane
  const auto look_up = [&](int base) {
    mine = base + lane < sequences ? body.share(base + lane) : chain_share{0, 0, 1};
  };
  int64_t all = 0;
  for (int s = 0; s < sequences; s += 32) {
    look_up(s);
    all += blocks_of(mine);
  }
  MT_UNROLL
  for (int bit = 1; bit < 32; bit *= 2) all += __shfl_xor_sync(~0u, all, bit);
  const int64_t programs = gridDim.x, program = blockIdx.x, each = all / programs, rest = all - each * programs;
  const int64_t first = each * program + (program < rest ? program : rest);
  const int64_t end = first + each + (program < rest ? 1 : 0);
  if (first == end) return;
  // The sequence in which the stretch begins, and where that one begins.
  int base = 0, sequence = 0;
  int64_t position = 0;
  if (sequences > 32) look_up(0);
  while (true) {
    const int64_t own = blocks_of(mine);
    int64_t up_to = own;
    MT_UNROLL
    for (int distance = 1; distance < 32; distance *= 2) {
      const int64_t below = __shfl_up_sync(~0u, up_to, distance);
      if (lane >= distance) up_to += below;
    }
    const unsigned beyond = __ballot_sync(~0u, position + up_to > first);
    if (beyond != 0) {
      const int at = __ffs(static_cast<int>(beyond)) - 1;
      position += __shfl_sync(~0u, up_to - own, at);
      sequence = base + at;
      break;
    }
    position += __shfl_sync(~0u, up_to, 31);
    look_up(base += 32);
  }
  for (; position < end && sequence < sequences; ++sequence) {
    if (sequence == base + 32) look_up(base = sequence);
    const int at = sequence - base;
    const chain_share share{__shfl_sync(~0u, mine.first, at), __shfl_sync(~0u, mine.end, at),
                            __shfl_sync(~0u, mine.blocks, at)};
    const int splits = share.end - share.first, tiles = splits * groups;
    int i = position >= first ? 0 : static_cast<int>((first - position + share.blocks - 1) / share.blocks);
    if (i < tiles) {
      int group = i / splits, split = i - group * splits;
      for (; i < tiles && position + static_cast<int64_t>(i) * share.blocks < end; ++i) {
        visit(body.tile(sequence, group, share.first + split));
        if (++split == splits) {
          split = 0;
          ++group;
        }
      }
    }
    position += blocks_of(share);
  }
}

/// A copying warp: the first one has a and b and tells the others what there is, the second one has c.
template <class Cfg, class Body, class Memory>
MT_DEVICE void stream_copy(const Body& body, Memory& memory, bool leads, int lane) {
  const stream_ring<stream_chain_traits<Cfg>::tiles> tiles(memory.tile_at);
  const stream_ring<Cfg::stages> blocks(memory.block_at);
  uint32_t tile = 0, place = 0;
  each_tile_of_program(body, lane, [&](const auto& t) {
    const int first = body.first_block(t), end = body.blocks(t);
    // Which of 32 blocks are visited: a lane looks at each.
    const auto visited = [&](int base) { return __ballot_sync(~0u, base + lane < end && body.visits(t, base + lane)); };
    if (leads) {
      int count = 0;
      for (int base = first; base < end; base += 32) count += __popc(visited(base));
      const uint32_t at = tile % stream_chain_traits<Cfg>::tiles;
      tiles.wait_empty(tile);
      if (lane == 0) {
        memory.tile[at] = t;
        memory.blocks[at] = count;
      }
      stream_copies<Cfg> to_a{tiles.full(tile), lane};
      body.load_a(to_a, memory.a[at], t);
      ++tile;
    }
    for (int base = first; base < end; base += 32) {
      for (unsigned left = visited(base); left != 0; left &= left - 1) {
        const int block = base + __ffs(static_cast<int>(left)) - 1;
        blocks.wait_empty(place);
        stream_copies<Cfg> to{blocks.full(place), lane};
        if (leads) {
          if (lane == 0) memory.block[place % Cfg::stages] = block;
          body.load_b(to, memory.b[place % Cfg::stages], t, block);
        } else {
          body.load_c(to, memory.c[place % Cfg::stages], t, block);
        }
        ++place;
      }
    }
  });
  if (!leads) return;
  tiles.wait_empty(tile);
  if (lane == 0) {
    memory.blocks[tile % stream_chain_traits<Cfg>::tiles] = -1;
    hopper::barrier_arrive(tiles.full(tile));
  }
}

/// A multiplying wave's view: all rows, some of the blocks.
template <class Cfg, class T>
struct stream_wave : chain_context<Cfg, T> {
  stream_exchange<Cfg>& exchange;
  int wave, number;  ///< and the lane within it
  MT_DEVICE stream_wave(Context& ctx, stream_exchange<Cfg>& e)
      : chain_context<Cfg, T>{ctx, {}, 0}, exchange(e), wave(ctx.thread(0) / 32), number(ctx.thread(0) % 32) {}
  /// Waits for all waves.
  MT_DEVICE void together() const { hopper::named_barrier_sync(1, 32 * stream_chain_traits<Cfg>::waves); }
};
/// join(mine, another wave's) of a value per row, wave by wave in their order.
template <class Cfg, class T, int R, class Join>
MT_DEVICE row_values<mma_rows, R> join_rows(stream_wave<Cfg, T>& cx, float (&room)[Cfg::waves][16],
                                            const row_values<mma_rows, R>& values, Join join) {
  static_assert(R == 16);
  row_values<mma_rows, R> out;
  MT_UNROLL
  for (int s = 0; s < mma_rows::slots; ++s) {
    if (cx.number % 4 == 0) room[cx.wave][mma_rows::slot_row(cx.number, s)] = values.v[s][0];
  }
  cx.together();
  MT_UNROLL
  for (int s = 0; s < mma_rows::slots; ++s) {
    const int row = mma_rows::slot_row(cx.number, s);
    float v = room[0][row];
    MT_UNROLL
    for (int w = 1; w < Cfg::waves; ++w) v = join(v, room[w][row]);
    out.v[s][0] = v;
  }
  return out;
}
template <class Cfg, class T, int R>
MT_DEVICE row_values<mma_rows, R> max_of_waves(stream_wave<Cfg, T>& cx, const row_values<mma_rows, R>& values) {
  return join_rows(cx, cx.exchange.highest, values, [](float a, float b) { return max_of(a, b); });
}
template <class Cfg, class T, int R>
MT_DEVICE row_values<mma_rows, R> row_total(stream_wave<Cfg, T>& cx, const row_values<mma_rows, R>& parts) {
  return join_rows(cx, cx.exchange.total, row_total(static_cast<chain_context<Cfg, T>&>(cx), parts),
                   [](float a, float b) { return a + b; });
}
/// All waves have the same values: the first one visits.
template <class Cfg, class T, int R, class F>
MT_DEVICE void each_row(stream_wave<Cfg, T>& cx, const row_values<mma_rows, R>& values, F visit) {
  if (cx.wave == 0) each_row(static_cast<chain_context<Cfg, T>&>(cx), values, visit);
}
/// The sums of all waves, of a tile of one token; some columns at a time.
template <class Cfg, class T, int R, int D>
MT_DEVICE void store_sums(stream_wave<Cfg, T>& cx, const box_view& to, const box_at& at, row_acc<mma_rows, R, D>& acc) {
  using Traits = stream_chain_traits<Cfg>;
  constexpr int kCols = Traits::sum_cols, kVector = 4, kVectors = kCols / kVector;
  auto& room = cx.exchange.sums;
  float* const data = static_cast<float*>(to.data) + to.offset(at.x, at.y, at.z);
  MT_UNROLL
  for (int b = 0; b < D / kCols; ++b) {
    if (b * kCols >= to.cols) break;
    MT_UNROLL
    for (int j = 0; j < kCols / mma_rows::cols; ++j) {
      MT_UNROLL
      for (int e = 0; e < mma_rows::elements; e += 2) {
        const coordinate place = mma_rows::at(cx.number, e);
        if (place.row >= at.rows) continue;
        const auto& x = acc.d[0][b * (kCols / mma_rows::cols) + j];
        *reinterpret_cast<float2*>(&room[cx.wave][place.row][j * mma_rows::cols + place.col]) =
            make_float2(x[e][0], x[e + 1][0]);
      }
    }
    cx.together();
    for (int i = cx.wave * 32 + cx.number; i < at.rows * kVectors; i += 32 * Traits::waves) {
      const int row = i / kVectors, within = i % kVectors * kVector, col = b * kCols + within;
      float4 sum = *reinterpret_cast<const float4*>(&room[0][row][within]);
      MT_UNROLL
      for (int w = 1; w < Traits::waves; ++w) {
        const float4 v = *reinterpret_cast<const float4*>(&room[w][row][within]);
        sum = make_float4(sum.x + v.x, sum.y + v.y, sum.z + v.z, sum.w + v.w);
      }
      float* const place = data + row * to.stride_x + col;
      if (to.vectors && col + kVector <= to.cols) {
        *reinterpret_cast<float4*>(place) = sum;
      } else {
        const float v[kVector] = {sum.x, sum.y, sum.z, sum.w};
        MT_UNROLL
        for (int x = 0; x < kVector; ++x) {
          if (col + x < to.cols) place[x] = v[x];
        }
      }
    }
    cx.together();  // all have read
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
  const stream_ring<Cfg::stages> blocks(memory.block_at);
  const int warp = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 32, 0), lane = static_cast<int>(threadIdx.x) % 32;
  if (threadIdx.x == 0) {
    tiles.init(1, Traits::waves);
    blocks.init(Traits::copying, 1);
    hopper::fence_barrier_init();
    // What the copy engine is told about rows takes a trip to memory, too.
    body.copied_rows([](const box_view& v) { hopper::prefetch_map(v.map); });
  }
  __syncthreads();
  hopper::let_next_start();
  hopper::wait_for_previous();
  if (warp >= Traits::waves) {
    stream_copy<Cfg>(body, memory, warp == Traits::waves, lane);
    return;
  }
  stream_wave<Cfg, T> cx(ctx, memory.exchange);
  row_acc<mma_rows, 16, Cfg::dc> o;
  uint32_t first = 0;  // number of the tile's first block
  for (uint32_t tile = 0;; ++tile) {
    const uint32_t at = tile % Traits::tiles;
    tiles.wait_full(tile);
    const int count = same_for_all(load_word(memory.blocks[at]));
    if (count < 0) break;
    const auto t = memory.tile[at];
    clear(cx, o);
    auto state = body.begin(cx);
    for (int i = warp; i < count; i += Traits::waves) {
      const uint32_t n = first + i, place = n % Cfg::stages;
      blocks.wait_full(n);
      const int block = same_for_all(load_word(memory.block[place]));
      row_acc<mma_rows, 16, Cfg::bn> s;
      first_product(cx, s, memory.a[at], memory.b[place]);
      const bool hides = body.hides(t, block);
      const auto rescale = body.weigh(cx, state, s, t, block, hides);
      row_operand<mma_rows, 16, Cfg::bn> weights;
      as_operand<T>(weights, s);
      scale_rows(cx, o, rescale, [](float x, float r) { return x * r; });
      bool one_by_one = false;
      if (hides) {
        one_by_one = __any_sync(
            ~0u, clean_rows(memory.c[place], body.rows_of_block(t, block), body.partial(t, block), lane, 32));
        hopper::fence_for_copies();  // the copy engine comes after these stores
        __syncwarp();
      }
      if (one_by_one) {
        static_assert(sizeof memory.exchange.sums[0] >= sizeof(T) * 16 * Cfg::bn);
        product_of_seen<Cfg::bn>(cx, o, weights, memory.c[place], reinterpret_cast<T*>(memory.exchange.sums[warp]));
      } else {
        second_product(cx, o, weights, memory.c[place]);
      }
      blocks.release(n, lane);
    }
    first += static_cast<uint32_t>(count);
    scale_rows(cx, o, body.agree(cx, state), [](float x, float r) { return x * r; });
    tiles.release(tile, lane);
    body.finish(cx, state, o, t);
  }
}

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME
