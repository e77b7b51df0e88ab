#pragma once
// Matrix tiles on CPU: a program is one tile of the result, as large as the shape and the threads suggest and no larger
// than its configuration says. Copies pack operands into the form that the target's instructions read (panels.hpp),
// products are loops of micro-kernels over them (micro_kernels.hpp). Operands may be of any dtype that has fp32 values,
// whatever the type of the tile: they are converted as they are packed.

#include <unistd.h>

#include <algorithm>

#include "monotile/lang/backend/cpu/launch.hpp"
#include "monotile/lang/backend/cpu/panels.hpp"
#include "monotile/lang/tile_config.hpp"

namespace monotile::lang::inline MONOTILE_TARGET_NAME {

inline constexpr bool kHasWarpgroups = false;
inline constexpr bool kHasRing = false, kHasMfma = false, kHasTf32 = false;

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME

#include "monotile/lang/backend/cells.hpp"

namespace monotile::lang::inline MONOTILE_TARGET_NAME {

/// Bytes of it that a core has, 1 MB where the system does not say.
inline size_t second_level_cache() {
  static const size_t bytes = [] {
    const long value = sysconf(_SC_LEVEL2_CACHE_SIZE);
    return value > 0 ? static_cast<size_t>(value) : size_t{1} << 20;
  }();
  return bytes;
}

constexpr int round_up(int v, int step) { return (v + step - 1) / step * step; }

/// Operand a (along m) is kept row by row, operand b (along n) in panels of kPanel rows.
template <class T, int Rows, int Cols, along Axis>
struct smem_tile {
  using element = T;
  using packed = typename packed_form<T>::type;
  static constexpr int per_word = kWordBytes / static_cast<int>(sizeof(packed)), most_words = Cols / per_word;
  static constexpr bool panels = Axis == along::n;
  /// Rows of just the length that fits, of a type that this target has instructions for.
  static constexpr bool suits =
      Cols * sizeof(packed) == kMostRowBytes && (std::is_same_v<T, float> || sizeof(T) == 1 || !std::is_same_v<packed, float>);
  static constexpr int bytes =
      panels ? round_up(Rows, kPanel) * most_words * kWordBytes : round_up(Rows, 32) * kRowBytes;
  int rows, words;  ///< that exist
  alignas(64) unsigned char at[bytes];
  static constexpr int panel_bytes = kPanel * most_words * kWordBytes;
  alignas(
      64) int32_t offsets[kOffsetA<packed> && panels ? round_up(Rows, kPanel) : 1];  ///< what offsets of a add up to
};

/// What a program knows while it runs.
template <class T>
struct tile_context {
  using storage = T;
  const tile_space& space;
  int m = INT32_MAX, n = INT32_MAX;  ///< rows of a and of b that are packed at a time
  /// What the tiles of b hold: they serve several tiles of a.
  struct held {
    const void *tile = nullptr, *data = nullptr;
    int batch = 0, row = 0, col = 0;
    bool operator==(const held&) const = default;
  };
  held panels[4] = {};
  int next = 0;
};

/// Sums, or the integers that become them: panel by panel, and there row by row.
template <class Cfg>
struct tile_acc {
  float* d;
  int rows, cols;
  int64_t panel_stride;
  bool fresh = true, integers = false;

  MT_FN float* panel(int n) const { return d + n / kPanel * panel_stride; }
};
/// f(row, column, values, how many) for pieces of rows of at most kPanel values.
template <class Cfg, class F>
MT_FN void each_piece(const tile_acc<Cfg>& acc, F f) {
  for (int n = 0; n < acc.cols; n += kPanel) {
    float* const sums = acc.panel(n);
    for (int m = 0; m < acc.rows; ++m) f(m, n, sums + m * kPanel, std::min(kPanel, acc.cols - n));
  }
}
/// Turns integer sums to fp32.
template <class Cfg>
MT_FN void settle(tile_acc<Cfg>& acc) {
  if (!acc.integers) return;
  acc.integers = false;
  each_piece(acc, [](int, int, float* sums, int) {
    for (int i = 0; i < kPanel; i += 8) {
      int8x32 v;
      std::memcpy(&v, sums + i, 32);
      store8(sums + i, __builtin_convertvector(v, float8));
    }
  });
}

template <class Cfg, class T, class F>
MT_FN void each_vector(tile_context<T>&, tile_acc<Cfg>& acc, const tile_coord& t, F f) {
  settle(acc);
  each_piece(acc, [&](int m, int n, float* sums, int) {
    for (int i = 0; i < kPanel; i += 8) {
      float v[8];
      std::memcpy(v, sums + i, sizeof v);
      f(v, t.m + m, t.n + n + i);
      std::memcpy(sums + i, v, sizeof v);
    }
  });
}

/// f(pointer to elements of a plain type).
template <class F>
MT_FN void with_plain(void* data, DType dtype, F f) {
  if (dtype == DType::f32) return f(static_cast<float*>(data));
  if (dtype == DType::bf16) return f(static_cast<bfloat16_t*>(data));
  f(static_cast<half_t*>(data));
}
template <class E>
MT_FN void add_elements(float* sums, const E* p, int n) {
  int i = 0;
  for (; i + 8 <= n; i += 8) store8(sums + i, load8(sums + i) + load8(p + i));
  for (; i < n; ++i) sums[i] += promote(p[i]);
}
template <class E>
MT_FN void store_elements(E* p, const float* sums, int n) {
  int i = 0;
  for (; i + 8 <= n; i += 8) store8(p + i, load8(sums + i));
  for (; i < n; ++i) p[i] = from_float<E>(sums[i]);
}

template <class Cfg, class T>
MT_FN void add_columns(tile_context<T>&, tile_acc<Cfg>& acc, const tile_coord& t, const any_vector& columns) {
  settle(acc);
  with_plain(const_cast<void*>(columns.data), columns.dtype, [&](const auto* data) {
    each_piece(acc, [&](int, int n, float* sums, int count) { add_elements(sums, data + t.n + n, count); });
  });
}
template <class Cfg, class T>
MT_FN void add_cells(tile_context<T>&, tile_acc<Cfg>& acc, const tile_coord& t, const matrix_view& cells) {
  settle(acc);
  with_plain(cells.data, cells.dtype, [&](const auto* data) {
    const auto* first = data + t.batch * cells.batch_stride + t.m * cells.stride + t.n;
    each_piece(acc,
               [&](int m, int n, float* sums, int count) { add_elements(sums, first + m * cells.stride + n, count); });
  });
}
/// acc = f(acc) and acc = f(acc, cells), eight at a time.
template <class Cfg, class T, class F>
MT_FN void map_cells(tile_context<T>&, tile_acc<Cfg>& acc, const tile_coord&, F f) {
  settle(acc);
  each_piece(acc, [&](int, int, float* sums, int) {
    for (int i = 0; i < kPanel; i += 8) store_pack(sums + i, pack<8>(f(load_pack<8>(sums + i))));
  });
}
template <class Cfg, class T, class F>
MT_FN void map_cells_with(tile_context<T>&, tile_acc<Cfg>& acc, const tile_coord& t, const matrix_view& cells, F f) {
  settle(acc);
  with_plain(cells.data, cells.dtype, [&](const auto* data) {
    const auto* first = data + t.batch * cells.batch_stride + t.m * cells.stride + t.n;
    each_piece(acc, [&](int m, int n, float* sums, int count) {
      const auto* const row = first + m * cells.stride + n;
      for (int i = 0; i < count; i += 8) {
        const pack<8> cell = i + 8 <= count ? load_pack<8>(row + i) : load_pack_tail<8>(row + i, count - i, 0.0f);
        store_pack(sums + i, pack<8>(f(load_pack<8>(sums + i), cell)));
      }
    });
  });
}
template <class Cfg, class T>
MT_FN void scale_cells(tile_context<T>&, tile_acc<Cfg>& acc, const tile_coord& t, const cell_scales& s) {
  settle(acc);
  each_piece(acc, [&](int m, int n, float* sums, int count) {
    const float of_row = s.row(t.m + m);
    for (int i = 0; i < count; ++i) sums[i] *= of_row * s.column(t.n + n + i);
  });
}
template <class Cfg, class T>
MT_FN void store(tile_context<T>&, const matrix_view& c, const tile_coord& t, tile_acc<Cfg>& acc) {
  const int64_t offset = t.batch * c.batch_stride + t.m * c.stride + t.n;
  if (c.dtype == DType::i32) {  // sums of integers as they are
    int32_t* first = static_cast<int32_t*>(c.data) + offset;
    return each_piece(acc, [&](int m, int n, const float* sums, int count) {
      std::memcpy(first + m * c.stride + n, sums, static_cast<size_t>(count) * 4);
    });
  }
  settle(acc);
  with_plain(c.data, c.dtype, [&](auto* data) {
    each_piece(acc, [&](int m, int n, const float* sums, int count) {
      store_elements(data + offset + m * c.stride + n, sums, count);
    });
  });
}

/// Columns [col, col + cols) of a row as words, filled up with 0 to a whole chunk.
template <class T>
MT_FN void row_to_words(unsigned char* to, const matrix_view& from, int64_t offset, int64_t row, int col, int cols) {
  using P = typename packed_form<T>::type;
  P* const words = reinterpret_cast<P*>(to);
  pack_row<T>(words, static_cast<const unsigned char*>(from.data) + bytes_of(from.dtype, offset + row * from.stride),
              from.dtype, col, cols);
  constexpr int kChunk = kChunkWords * kWordBytes / static_cast<int>(sizeof(P));
  for (int c = cols; c % kChunk != 0; ++c) words[c] = P{};
}

/// The same rows and columns where columns are stored side by side: straight to a panel, rows that do not exist 0.
template <class T>
MT_FN void columns_to_panel(unsigned char* panel, const matrix_view& from, int64_t offset, int row, int rows, int col,
                            int cols) {
  using P = typename packed_form<T>::type;
  constexpr int kPerWord = kWordBytes / static_cast<int>(sizeof(P));
  const auto* data = static_cast<const unsigned char*>(from.data);
  const int words = round_up((cols + kPerWord - 1) / kPerWord, kChunkWords);
  for (int w = 0; w < words; ++w) {
    P* const to = reinterpret_cast<P*>(panel + w * kPanel * kWordBytes);
    P lines[kPerWord][kPanel];
    for (int j = 0; j < kPerWord; ++j) {
      const int c = w * kPerWord + j;
      const int there = c < cols ? rows : 0;
      if (there != 0)
        pack_row<T>(lines[j], data + bytes_of(from.dtype, offset + (col + c) * from.stride), from.dtype, row, there);
      for (int r = there; r < kPanel; ++r) lines[j][r] = P{};
    }
    for (int r = 0; r < kPanel; ++r) {
      for (int j = 0; j < kPerWord; ++j) to[r * kPerWord + j] = lines[j][r];
    }
  }
}

/// Adds 128 to int8 codes.
MT_FN void add_offset(unsigned char* row, int words) {
  using integers = int32_t __attribute__((vector_size(sizeof(sum_vector))));
  for (int i = 0; i < words * kWordBytes; i += static_cast<int>(sizeof(sum_vector))) {
    integers v;
    std::memcpy(&v, row + i, sizeof v);
    v ^= static_cast<int32_t>(0x80808080u);
    std::memcpy(row + i, &v, sizeof v);
  }
}
/// What those offsets add to the sums of a panel.
template <class P>
MT_FN void sum_offsets(const unsigned char* panel, int words, int32_t* offsets) {
  static constexpr uint32_t kOffsets = 0x80808080u;
  for (int v = 0; v < kPanel; v += kLanesOfSum) {
    sum_vector sum{};
    for (int w = 0; w < words; ++w)
      sum = lane_product<P>::add(sum, lane_product<P>::spread(&kOffsets),
                                 load_words(panel + (w * kPanel + v) * kWordBytes));
    store_words(offsets + v, sum);
  }
}

/// Rows of a tile are short and lie far apart, so that the hardware sees no streams to follow: they are asked for some
/// rows before they are packed.
inline constexpr int kRowsAhead = 12;
MT_FN void prefetch_row(const matrix_view& from, int64_t offset, int64_t row, int col, int cols) {
  const char* p = static_cast<const char*>(from.data) + bytes_of(from.dtype, offset + row * from.stride + col);
  const int64_t bytes = bytes_of(from.dtype, cols);
  for (int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(p + i, 0, 2);
}

template <class T, int R, int C>
MT_FN void copy_async(tile_context<T>& cx, smem_tile<T, R, C, along::m>& to, const matrix_view& from, int batch,
                      int row, int col) {
  using Tile = smem_tile<T, R, C, along::m>;
  using P = typename Tile::packed;
  const int cols = std::min(C, from.cols - col);
  const int64_t offset = batch * from.batch_stride;
  to.rows = std::min({R, cx.m, from.rows - row});
  to.words = (cols + Tile::per_word - 1) / Tile::per_word;
  if (from.transposed) {
    alignas(64) unsigned char panel[Tile::most_words * kPanel * kWordBytes];
    for (int r = 0; r < to.rows; r += kPanel) {
      const int rows = std::min(kPanel, to.rows - r);
      columns_to_panel<T>(panel, from, offset, row + r, rows, col, cols);
      for (int i = 0; i < rows; ++i) {
        for (int w = 0; w < round_up(to.words, kChunkWords); ++w)
          std::memcpy(to.at + (r + i) * kRowBytes + w * kWordBytes, panel + (w * kPanel + i) * kWordBytes, kWordBytes);
      }
    }
  } else {
    for (int r = 0; r < to.rows; ++r) {
      if (r + kRowsAhead < to.rows) prefetch_row(from, offset, row + r + kRowsAhead, col, cols);
      row_to_words<T>(to.at + r * kRowBytes, from, offset, row + r, col, cols);
    }
  }
  if constexpr (kOffsetA<P>) {
    for (int r = 0; r < to.rows; ++r) add_offset(to.at + r * kRowBytes, to.words);
  }
}

template <class T, int R, int C>
MT_FN void copy_async(tile_context<T>& cx, smem_tile<T, R, C, along::n>& to, const matrix_view& from, int batch,
                      int row, int col) {
  using Tile = smem_tile<T, R, C, along::n>;
  using P = typename Tile::packed;
  const typename tile_context<T>::held wanted{&to, from.data, batch, row, col};
  for (const auto& held : cx.panels) {
    if (held == wanted) return;
  }
  for (auto& held : cx.panels) {
    if (held.tile == &to) held = {};
  }
  cx.panels[cx.next++ % 4] = wanted;
  const int cols = std::min(C, from.cols - col);
  const int64_t offset = batch * from.batch_stride;
  to.rows = std::min({R, cx.n, from.rows - row});
  to.words = (cols + Tile::per_word - 1) / Tile::per_word;
  const bool as_it_is = std::is_same_v<T, P> && from.dtype == dtype_of<T> && cols % (kChunkWords * Tile::per_word) == 0;
  alignas(64) unsigned char buffer[kGroup][kRowBytes];
  alignas(64) static constexpr float zeros[kMostRowBytes / 4] = {};
  for (int n = 0; n < to.rows; n += kPanel) {
    unsigned char* const panel = to.at + n / kPanel * Tile::panel_bytes;
    if (from.transposed) {
      columns_to_panel<T>(panel, from, offset, row + n, std::min(kPanel, to.rows - n), col, cols);
    } else {
      for (int group = 0; group < kPanel; group += kGroup) {
        const float* rows[kGroup];
        for (int i = 0; i < kGroup; ++i) {
          const int at = n + group + i;
          if (at >= to.rows) {
            rows[i] = zeros;
            continue;
          }
          if (at + kGroup < to.rows) prefetch_row(from, offset, row + at + kGroup, col, cols);
          if (as_it_is) {
            rows[i] = reinterpret_cast<const float*>(static_cast<const T*>(from.data) + offset +
                                                     (row + at) * from.stride + col);
          } else {
            row_to_words<T>(buffer[i], from, offset, row + at, col, cols);
            rows[i] = reinterpret_cast<const float*>(buffer[i]);
          }
        }
        transpose_group(rows, round_up(to.words, kChunkWords), reinterpret_cast<float*>(panel) + group);
      }
    }
    if constexpr (kOffsetA<P>) sum_offsets<P>(panel, to.words, to.offsets + n);
  }
}

template <class Cfg, class T, int M, int N, int K>
MT_FN void mma(tile_context<T>&, tile_acc<Cfg>& acc, const smem_tile<T, M, K, along::m>& a,
               const smem_tile<T, N, K, along::n>& b) {
  using Tile = smem_tile<T, N, K, along::n>;
  using P = typename Tile::packed;
  static_assert(Tile::most_words * kWordBytes <= kMostRowBytes && Tile::most_words % kChunkWords == 0,
                "whole chunks along k, no more than 1 KB");
#if defined(__AMX_TILE__)
  std::conditional_t<kTileRegisters<P>, tile_registers, int> shaped{};
  (void)shaped;
#endif
  acc.integers = std::is_same_v<typename packed_form<T>::sum, int32_t>;
  for (int n = 0; n < b.rows; n += kPanel) {
    float* const sums = acc.panel(n);
    multiply_panel<P>(a.rows, a.at, b.at + n / kPanel * Tile::panel_bytes, a.words, sums, acc.fresh);
    if constexpr (kOffsetA<P>) {
      for (int i = 0; i < a.rows * kPanel; i += kPanel) {
        for (int j = 0; j < kPanel; ++j) reinterpret_cast<int32_t*>(sums)[i + j] -= b.offsets[n + j];
      }
    }
  }
  acc.fresh = false;
}

/// Rows of a that are packed at a time: they stay in half of the second-level cache.
template <class Cfg, class T>
MT_FN int rows_of_a() {
  constexpr int kStep = kRowStep<typename packed_form<T>::type>;
  const auto fit = static_cast<int>(std::min<size_t>(second_level_cache() / 2 / kRowBytes, Cfg::bm));
  return std::max(fit / kStep, 1) * kStep;
}
/// Rows and columns of programs, shared out evenly in whole steps of micro-kernels and whole panels.
template <class T>
MT_FN void even_tiles(const tile_space& space, int& m, int& n) {
  m = round_up((space.rows + space.m - 1) / space.m, kRowStep<typename packed_form<T>::type>);
  n = round_up((space.cols + space.n - 1) / space.n, kPanel);
}

/// A program takes up to `group` tiles, one below the other, which share the panels of b: step by step along k, and for
/// each step tile by tile.
template <class Cfg, class Stage, class Load, class Compute, class Finish>
MT_FN void mainloop(Context& ctx, const tile_space& space, Load load, Compute compute, Finish finish) {
  using T = typename decltype(Stage::a)::element;
  constexpr int kRowsFinished = 16;  // a stretch of sums stays in the nearest cache through all words of an epilogue
  tile_context<T> cx{space};
  int m;
  even_tiles<T>(space, m, cx.n);
  const int per_matrix = space.m * space.n, batch = static_cast<int>(ctx.program / per_matrix);
  const int within = static_cast<int>(ctx.program - int64_t{batch} * per_matrix);
  const tile_coord first{batch, within % space.m * m, within / space.m * cx.n};
  const int rows = std::min(m, space.rows - first.m), cols = std::min(cx.n, space.cols - first.n);
  if (rows <= 0 || cols <= 0) return;
  const int tiles = (rows + rows_of_a<Cfg, T>() - 1) / rows_of_a<Cfg, T>();
  cx.m = round_up((rows + tiles - 1) / tiles, kRowStep<typename packed_form<T>::type>);
  // The last tile may reach into rows of the program below, which are multiplied as well and left out at the end.
  const int64_t panel_stride = int64_t{round_up(tiles * cx.m, 32)} * kPanel,
                floats = round_up(cols, kPanel) / kPanel * panel_stride;
  float* const sums = static_cast<float*>(ctx.allocate(static_cast<size_t>(floats) * sizeof(float)));
  auto* stage = static_cast<Stage*>(ctx.allocate(sizeof(Stage)));
  if (space.k == 0) std::memset(sums, 0, static_cast<size_t>(floats) * sizeof(float));
  bool integers = false;
  for (int k = 0; k < space.k; ++k) {
    for (int i = 0; i < rows; i += cx.m) {
      tile_acc<Cfg> acc{sums + i * kPanel, std::min(cx.m, rows - i), cols, panel_stride, k == 0};
      load(cx, *stage, tile_coord{first.batch, first.m + i, first.n}, k);
      compute(cx, acc, *stage);
      integers = acc.integers;
    }
  }
  for (int i = 0; i < rows; i += kRowsFinished) {
    tile_acc<Cfg> acc{sums + i * kPanel, std::min(kRowsFinished, rows - i), cols, panel_stride, false, integers};
    finish(cx, acc, tile_coord{first.batch, first.m + i, first.n});
  }
}

/// How many programs down and across: the least time of the busiest thread, by words multiplied and words packed.
template <class Cfg, class T>
void share_out(tile_space& space, int threads) {
  using P = typename packed_form<T>::type;
  constexpr double kPackA = 1.5, kPackB = 2;  // clocks per word, from memory
  constexpr int kMoreTiles = 6, kLeast = 64;
  constexpr int kMostCols = Cfg::bn / kPanel * kPanel;
  const int most_rows = rows_of_a<Cfg, T>() * Cfg::group;
  const int tall = (space.rows + most_rows - 1) / most_rows, wide = (space.cols + kMostCols - 1) / kMostCols;
  double best = 0;
  int best_m = tall, best_n = wide;
  for (int i = tall; i <= tall + kMoreTiles; ++i) {
    const int m = round_up((space.rows + i - 1) / i, kRowStep<P>);
    if (i > tall && m < kLeast) break;
    for (int j = wide; j <= wide + kMoreTiles; ++j) {
      const int n = round_up((space.cols + j - 1) / j, kPanel);
      if (j > wide && n < kLeast) break;
      const double rounds = static_cast<double>((int64_t{i} * j * space.batch + threads - 1) / threads);
      const double time = rounds * (static_cast<double>(m) * n / kWordsPerClock<P> + kPackA * m + kPackB * n);
      if (best == 0 || time < best) best = time, best_m = i, best_n = j;
    }
  }
  space.m = best_m;
  space.n = best_n;
}

template <class K, class Params>
void launch_tiles(Stream& stream, const Grid&, const Params& params) {
  Params p = params;
  share_out<typename K::Config, typename decltype(K::Stage::a)::element>(p.tiles, cpu_threads());
  launch<K>(stream, Grid{int64_t{p.tiles.m} * p.tiles.n * p.tiles.batch}, p);
}

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME
