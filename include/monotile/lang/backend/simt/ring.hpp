#pragma once
// The ring: every wave of a program copies its share of a stage ahead of use and multiplies a square of the tile.
// Serves mma.sync with cp.async (sm_80). The staged schedule is for machines whose copies go through registers (CDNA, MFMA). The emulated
// GPUs run them with the fragments, swizzles and waits of the chips.

#include "monotile/lang/backend/cells.hpp"
#include "monotile/lang/backend/simt/tile.hpp"
#include "monotile/lang/fragment.hpp"

#if defined(__CUDACC__)
#define MT_COPY_UNROLL _Pragma("unroll 1")
#else
#define MT_COPY_UNROLL MT_UNROLL  // copies on their way lie in registers, which no index can reach
#endif

namespace monotile::lang::inline MONOTILE_TARGET_NAME {

/// A tile in shared memory: panels of at most 128 bytes' width, swizzled; aligned as the copy engines want it.
template <class T, int Rows, int Cols, along Axis>
struct alignas(1024) smem_tile {
  using element = T;
  static constexpr int rows = Rows, cols = Cols, bytes = Rows * Cols * static_cast<int>(sizeof(T));
  static constexpr along axis = Axis;
  static constexpr int row_bytes = Cols * sizeof(T) < 128 ? Cols * static_cast<int>(sizeof(T)) : 128;
  static constexpr int panel_cols = row_bytes / static_cast<int>(sizeof(T)), panels = Cols / panel_cols;
  static constexpr int panel_bytes = Rows * row_bytes, panel_chunks = row_bytes / 16;
  static_assert(Cols % panel_cols == 0 && Rows % 8 == 0, "whole panels and whole groups of eight rows");
  /// Byte offset of a 16-byte chunk.
  static MT_FN constexpr int offset(int row, int chunk) {
    return chunk / panel_chunks * panel_bytes + swizzle<row_bytes>::offset(row, chunk % panel_chunks);
  }
  /// Of an element, where nothing is exchanged within chunks (mfma_half).
  static MT_FN constexpr int place(int row, int col) {
    constexpr int kVector = 16 / static_cast<int>(sizeof(T));
    return offset(row, col / kVector) + col % kVector * static_cast<int>(sizeof(T));
  }
  unsigned char data[bytes];
};

inline constexpr int kWaveTile = 64;  ///< a wave multiplies 64 x 64 of the tile

template <class Cfg>
inline constexpr int ring_waves = Cfg::bm / kWaveTile*(Cfg::bn / kWaveTile);

template <class Cfg, class T>
struct ring_context {
  using storage = T;
  Context& program;
  const tile_space& space;
  copy_queue copies;
  int first_m, first_n;  ///< of this wave's square within the tile

  static constexpr int threads = ring_waves<Cfg> * kWave;
  MT_FN int lane(int l) const { return program.thread(l) % kWave; }
};

template <class Cfg>
struct ring_acc {
  using atom = matrix_unit::atom;
  static constexpr int tall = kWaveTile / atom::m, wide = kWaveTile / atom::n;
  float d[tall][wide][atom::c_elements][kLanes];
};

/// f(values, row, column of the first) for the elements that each lane holds.
template <class Cfg, class T, class F>
MT_FN void each_vector(ring_context<Cfg, T>& cx, ring_acc<Cfg>& acc, const tile_coord& t, F f) {
  using Acc = ring_acc<Cfg>;
  using Atom = typename Acc::atom;
  constexpr int kVector = Atom::c_vector;
  for (int l = 0; l < kLanes; ++l) {
    MT_UNROLL
    for (int i = 0; i < Acc::tall; ++i) {
      MT_UNROLL
      for (int e = 0; e < Atom::c_elements; e += kVector) {
        MT_UNROLL
        for (int j = 0; j < Acc::wide; ++j) {
          const coordinate at = Atom::c(cx.lane(l), e);
          float v[kVector];
          MT_UNROLL
          for (int x = 0; x < kVector; ++x) v[x] = acc.d[i][j][e + x][l];
          f(v, t.m + cx.first_m + i * Atom::m + at.row, t.n + cx.first_n + j * Atom::n + at.col);
          MT_UNROLL
          for (int x = 0; x < kVector; ++x) acc.d[i][j][e + x][l] = v[x];
        }
      }
    }
  }
}

/// Rows [row, row + Rows) and columns [col, col + Cols) of a matrix; cells that do not exist become 0.
template <class Cfg, class T, int R, int C, along A>
MT_FN void copy_async(ring_context<Cfg, T>& cx, smem_tile<T, R, C, A>& to, const matrix_view& from, int batch, int row,
                      int col) {
  using Tile = smem_tile<T, R, C, A>;
  constexpr int kVector = 16 / static_cast<int>(sizeof(T)), kChunks = C / kVector;
  static_assert(R * kChunks % ring_context<Cfg, T>::threads == 0, "every lane copies the same number of chunks");
  constexpr int kRounds = R * kChunks / ring_context<Cfg, T>::threads;
  constexpr int kSlot =
      Tile::axis == along::m ? 0 : copy_queue::most / 2;  // where copies wait in registers, if they do
  const T* matrix = static_cast<const T*>(from.data) + batch * from.batch_stride;
  const auto chunk = [&](int i, int l, auto copy) {
    const int number = cx.program.thread(l) + i * ring_context<Cfg, T>::threads;
    const int r = number / kChunks, at = number % kChunks, c = col + at * kVector;
    const int left = row + r < from.rows ? from.cols - c : 0, exist = left < 0 ? 0 : left < kVector ? left : kVector;
    copy(to.data + Tile::offset(r, at), exist > 0 ? matrix + (row + r) * from.stride + c : matrix, exist, r, kSlot + i);
  };
  if (from.transposed) {
    MT_COPY_UNROLL
    for (int i = 0; i < kRounds; ++i) {
      for (int l = 0; l < kLanes; ++l) {
        const int number = cx.program.thread(l) + i * ring_context<Cfg, T>::threads;
        const int r = number / kChunks, at = number % kChunks, c = col + at * kVector;
        packed<T, kVector> v{};
        MT_UNROLL
        for (int e = 0; e < kVector; ++e) {
          if (row + r < from.rows && c + e < from.cols) v.v[e] = matrix[(c + e) * from.stride + row + r];
        }
        cx.copies.put(to.data + Tile::offset(r, at), __builtin_bit_cast(vector16, v), r, kSlot + i);
      }
    }
  } else if (from.vectors && row + R <= from.rows && col + C <= from.cols) {
    const T* const first = matrix + row * from.stride + col;
    MT_UNROLL
    for (int i = 0; i < kRounds; ++i) {
      for (int l = 0; l < kLanes; ++l) {
        const int number = cx.program.thread(l) + i * ring_context<Cfg, T>::threads;
        const int r = number / kChunks, at = number % kChunks;
        cx.copies.add(to.data + Tile::offset(r, at), first + r * from.stride + at * kVector, 16, cx.lane(l), r,
                      kSlot + i);
      }
    }
  } else if (from.vectors) {
    MT_COPY_UNROLL
    for (int i = 0; i < kRounds; ++i) {
      for (int l = 0; l < kLanes; ++l) {
        chunk(i, l, [&](unsigned char* place, const T* source, int exist, int r, int slot) {
          cx.copies.add(place, source, exist * static_cast<int>(sizeof(T)), cx.lane(l), r, slot);
        });
      }
    }
  } else {
    MT_COPY_UNROLL
    for (int i = 0; i < kRounds; ++i) {
      for (int l = 0; l < kLanes; ++l) {
        chunk(i, l, [&](unsigned char* place, const T* source, int exist, int r, int slot) {
          packed<T, kVector> v{};
          MT_UNROLL
          for (int e = 0; e < kVector; ++e) {
            if (e < exist) v.v[e] = source[e];
          }
          cx.copies.put(place, __builtin_bit_cast(vector16, v), r, slot);
        });
      }
    }
  }
}

/// Two codes of each word, as fp16.
template <class T, int Words>
MT_FN void widen_codes(uint32_t (&halves)[Words][kLanes], const uint32_t (&codes)[Words][kLanes], int pair) {
  MT_UNROLL
  for (int w = 0; w < Words; ++w) {
    for (int l = 0; l < kLanes; ++l) halves[w][l] = halves_of_codes<T>(codes[w][l], pair);
  }
}

/// acc += a b^T of 8-bit floats, which fp16 holds exactly. Fragments are read as if they were of 16 bits: a lane then has codes of four
/// neighbours along k in each word, and gives the instruction two of each word at a time. Which k a register stands for differs from the
/// instruction's own order, alike for both operands.
template <class Cfg, class T, int M, int N, int K, along A1, along A2>
  requires(sizeof(T) == 1)
MT_FN void mma(ring_context<Cfg, T>& cx, ring_acc<Cfg>& acc, const smem_tile<T, M, K, A1>& a,
               const smem_tile<T, N, K, A2>& b) {
  using Unit = matrix_unit;
  using Acc = ring_acc<Cfg>;
  constexpr int kSteps = K / 2 / Unit::atom::k, kAtOnce = Unit::b_at_once;
  MT_NO_UNROLL
  for (int step = 0; step < kSteps; ++step) {
    uint32_t rows[Acc::tall][2][Unit::a_words][kLanes];
    MT_UNROLL
    for (int i = 0; i < Acc::tall; ++i) {
      uint32_t codes[Unit::a_words][kLanes];
      Unit::load_a(cx, codes, a, cx.first_m + i * Unit::atom::m, step * Unit::atom::k);
      MT_UNROLL
      for (int pair = 0; pair < 2; ++pair) widen_codes<T>(rows[i][pair], codes, pair);
    }
    MT_UNROLL
    for (int j = 0; j < Acc::wide; j += kAtOnce) {
      uint32_t codes[kAtOnce][Unit::b_words][kLanes];
      Unit::load_b(cx, codes, b, cx.first_n + j * Unit::atom::n, step * Unit::atom::k);
      MT_UNROLL
      for (int h = 0; h < kAtOnce; ++h) {
        MT_UNROLL
        for (int pair = 0; pair < 2; ++pair) {
          uint32_t cols[Unit::b_words][kLanes];
          widen_codes<T>(cols, codes[h], pair);
          MT_UNROLL
          for (int i = 0; i < Acc::tall; ++i) Unit::template multiply<half_t>(acc.d[i][j + h], rows[i][pair], cols);
        }
      }
    }
  }
}

/// acc += a b^T. The fragments of the next step along k are read while the products of this one run.
template <class Cfg, class T, int M, int N, int K, along A1, along A2>
  requires(sizeof(T) > 1)
MT_FN void mma(ring_context<Cfg, T>& cx, ring_acc<Cfg>& acc, const smem_tile<T, M, K, A1>& a,
               const smem_tile<T, N, K, A2>& b) {
  using Unit = matrix_unit;
  using Acc = ring_acc<Cfg>;
  constexpr int kSteps = K / Unit::atom::k, kAtOnce = Unit::b_at_once;
  uint32_t x[2][Acc::tall][Unit::a_words][kLanes], y[2][Acc::wide / kAtOnce][kAtOnce][Unit::b_words][kLanes];
  const auto read = [&](int step) {
    MT_UNROLL
    for (int i = 0; i < Acc::tall; ++i)
      Unit::load_a(cx, x[step % 2][i], a, cx.first_m + i * Unit::atom::m, step * Unit::atom::k);
    MT_UNROLL
    for (int j = 0; j < Acc::wide / kAtOnce; ++j)
      Unit::load_b(cx, y[step % 2][j], b, cx.first_n + j * kAtOnce * Unit::atom::n, step * Unit::atom::k);
  };
  read(0);
  MT_UNROLL
  for (int step = 0; step < kSteps; ++step) {
    if (step + 1 < kSteps) read(step + 1);
    MT_UNROLL
    for (int i = 0; i < Acc::tall; ++i) {
      MT_UNROLL
      for (int j = 0; j < Acc::wide; ++j) {
        Unit::template multiply<T>(acc.d[i][j], x[step % 2][i], y[step % 2][j / kAtOnce][j % kAtOnce]);
      }
    }
  }
}

template <class Cfg, class T>
MT_FN void store(ring_context<Cfg, T>& cx, const matrix_view& c, const tile_coord& t, ring_acc<Cfg>& acc) {
  store_from_registers(cx, c, t, acc);
}

/// This wave's place in the program.
template <class Cfg, class Stage>
MT_FN auto ring_context_of(Context& ctx, const tile_space& space) {
  const int wave = ctx.thread(0) / kWave, wide = Cfg::bn / kWaveTile;
  return ring_context<Cfg, typename decltype(Stage::a)::element>{
      ctx, space, {}, wave / wide * kWaveTile, wave % wide * kWaveTile};
}
template <class Cfg, class T>
MT_FN void clear(ring_context<Cfg, T>& cx, ring_acc<Cfg>& acc, const tile_coord& t) {
  each_vector(cx, acc, t, [](auto& v, int, int) {
    MT_UNROLL
    for (float& x : v) x = 0.0f;
  });
}

template <class Cfg, class Stage>
inline constexpr size_t ring_scratch_bytes = sizeof(Stage) * Cfg::stages + 1024;

/// One tile per program. At most `stages - 1` stages are being filled while one is multiplied.
template <class Cfg, class Stage, class Load, class Compute, class Finish>
MT_FN void ring_mainloop(Context& ctx, const tile_space& space, Load load, Compute compute, Finish finish) {
  Stage* stage = reinterpret_cast<Stage*>((reinterpret_cast<uintptr_t>(ctx.scratch) + 1023) & ~uintptr_t{1023});
  auto cx = ring_context_of<Cfg, Stage>(ctx, space);
  const tile_coord t = tile_at<Cfg>(space, static_cast<int>(ctx.program));
  ring_acc<Cfg> acc;
  clear(cx, acc, t);
  MT_UNROLL
  for (int s = 0; s < Cfg::stages - 1; ++s) {
    if (s < space.k) load(cx, stage[s], t, s);
    cx.copies.close_group();
  }
  int read = 0, write = Cfg::stages - 1;
  for (int k = 0; k < space.k; ++k) {
    cx.copies.template wait<Cfg::stages - 2>();
    ctx.barrier();  // this stage is there for all waves, and all have left the one that is filled next
    if (k + Cfg::stages - 1 < space.k) load(cx, stage[write], t, k + Cfg::stages - 1);
    cx.copies.close_group();
    compute(cx, acc, stage[read]);
    if (++read == Cfg::stages) read = 0;
    if (++write == Cfg::stages) write = 0;
  }
  finish(cx, acc, t);
}

/// Chunks of a tile that each lane copies.
template <class Cfg, class Tile>
inline constexpr int staged_rounds = Tile::bytes / 16 / (ring_waves<Cfg> * kWave);

/// One tile per program and one stage: while a step is multiplied, the next one is on its way to registers.
template <class Cfg, class Stage, class Load, class Compute, class Finish>
MT_FN void staged_mainloop(Context& ctx, const tile_space& space, Load load, Compute compute, Finish finish) {
  // Not by way of an integer, which would hide from the compiler that this is shared memory.
  Stage& stage = *reinterpret_cast<Stage*>(ctx.scratch + (-reinterpret_cast<uintptr_t>(ctx.scratch) & uintptr_t{1023}));
  auto cx = ring_context_of<Cfg, Stage>(ctx, space);
  const tile_coord t = tile_at<Cfg>(space, static_cast<int>(ctx.program));
  ring_acc<Cfg> acc;
  clear(cx, acc, t);
  if (space.k > 0) load(cx, stage, t, 0);
  for (int k = 0; k < space.k; ++k) {
    cx.copies.template settle<staged_rounds<Cfg, decltype(Stage::a)>, staged_rounds<Cfg, decltype(Stage::b)>>();
    ctx.barrier();  // the step is there for all waves
    if (k + 1 < space.k) load(cx, stage, t, k + 1);
    compute(cx, acc, stage);
    ctx.barrier();  // all have read it
  }
  finish(cx, acc, t);
}

/// K for as many lanes as its configuration has: bounds the registers of a lane.
template <class K>
struct ring_kernel : K {
  static constexpr int max_threads = ring_waves<typename K::Config> * kWave;
};
/// Launches a kernel of the ring: a program per tile.
template <class K, class Params>
void launch_ring(Stream& stream, const Grid&, const Params& params) {
  using Cfg = typename K::Config;
  const Grid grid{tile_count<Cfg>(params.tiles), ring_waves<Cfg> * kWave, ring_scratch_bytes<Cfg, typename K::Stage>};
  launch<ring_kernel<K>>(stream, grid, params);
}

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME
