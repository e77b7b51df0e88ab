#pragma once
// Rows of chained products in the registers of a wave: the words on them, for every machine with lanes. A context has
// `lane(l)` within the wave and `first_row`, the row of the tile that the wave starts with. The backend's chain_unit.hpp
// comes first.

#include "monotile/lang/backend/simt/chain_unit.hpp"
#include "monotile/lang/chain_config.hpp"
#include "monotile/lang/row_layout.hpp"

namespace monotile::lang::inline MONOTILE_TARGET_NAME {

/// The matrix unit, by a name that is looked up late: only one of its two kinds has each load.
template <class>
struct unit_at {
  using type = chain_unit;
};

/// Sums: Rows x Cols of a wave.
template <class Layout, int Rows, int Cols>
struct row_acc {
  using layout = Layout;
  static constexpr int rows = Rows, cols = Cols, tall = Rows / Layout::rows, wide = Cols / Layout::cols;
  static_assert(Rows % Layout::rows == 0 && Cols % Layout::cols == 0);
  float d[tall][wide][Layout::elements][kLanes];
};
/// A value per row. Lanes that share a row hold the same, or parts of a sum until `row_total`.
template <class Layout, int Rows>
struct row_values {
  using layout = Layout;
  static constexpr int slots = Rows / Layout::rows * Layout::slots;
  float v[slots][kLanes];
};
/// Sums rounded to 16 bits, as an operand of the next product.
template <class Layout, int Rows, int Cols>
struct row_operand {
  using layout = Layout;
  static constexpr int tall = Rows / Layout::rows, steps = Cols / Layout::step;
  uint32_t w[tall][steps][Layout::words][kLanes];
};

/// f(element, block of rows, block of columns, number within, lane).
template <class Layout, int R, int C, class F>
MT_FN void each_element(row_acc<Layout, R, C>& acc, F f) {
  using Acc = row_acc<Layout, R, C>;
  MT_UNROLL
  for (int i = 0; i < Acc::tall; ++i) {
    MT_UNROLL
    for (int j = 0; j < Acc::wide; ++j) {
      MT_UNROLL
      for (int e = 0; e < Layout::elements; ++e) {
        for (int l = 0; l < kLanes; ++l) f(acc.d[i][j][e][l], i, j, e, l);
      }
    }
  }
}
template <class Layout>
MT_FN constexpr int slot_of(int i, int e) {
  return i * Layout::slots + Layout::slot(e);
}
template <class Cx, class Layout, int R, int C>
MT_FN void clear(Cx&, row_acc<Layout, R, C>& acc) {
  each_element(acc, [](float& x, int, int, int, int) { x = 0.0f; });
}

/// acc = f(acc).
template <class Cx, class Layout, int R, int C, class F>
MT_FN void map_cells(Cx&, row_acc<Layout, R, C>& acc, F f) {
  each_element(acc, [&](float& x, int, int, int, int) { x = f(x); });
}
/// acc = f(acc, of_row(row of the tile), column).
template <class Cx, class Layout, int R, int C, class OfRow, class F>
MT_FN void map_cells_at(Cx& cx, row_acc<Layout, R, C>& acc, OfRow of_row, F f) {
  using Acc = row_acc<Layout, R, C>;
  for (int l = 0; l < kLanes; ++l) {
    const int lane = cx.lane(l);
    MT_UNROLL
    for (int i = 0; i < Acc::tall; ++i) {
      const int first = cx.first_row + i * Layout::rows;
      decltype(of_row(0)) rows[Layout::slots];
      MT_UNROLL
      for (int s = 0; s < Layout::slots; ++s) rows[s] = of_row(first + Layout::slot_row(lane, s));
      MT_UNROLL
      for (int j = 0; j < Acc::wide; ++j) {
        const int col = unforeseen(j * Layout::cols);  // what f loads is not loaded for all columns at a time
        MT_UNROLL
        for (int e = 0; e < Layout::elements; ++e)
          acc.d[i][j][e][l] = f(acc.d[i][j][e][l], rows[Layout::slot(e)], col + Layout::at(lane, e).col);
      }
    }
  }
}
/// acc = f(acc, what begin(row of the tile, first column of this lane, values of the row...) gives, columns further): where the rest of a
/// column's number is known when this is compiled. Layouts in which lanes differ in their first column alone.
template <class Cx, class Layout, int R, int C, class Begin, class F, class... Values>
MT_FN void map_cells_from(Cx& cx, row_acc<Layout, R, C>& acc, Begin begin, F f, const Values&... values) {
  using Acc = row_acc<Layout, R, C>;
  for (int l = 0; l < kLanes; ++l) {
    const int first = Layout::at(cx.lane(l), 0).col;
    MT_UNROLL
    for (int i = 0; i < Acc::tall; ++i) {
      decltype(begin(0, 0, values.v[0][0]...)) begun[Layout::slots];
      MT_UNROLL
      for (int s = 0; s < Layout::slots; ++s) {
        const int row = cx.first_row + i * Layout::rows + Layout::slot_row(cx.lane(l), s);
        begun[s] = begin(row, first, values.v[i * Layout::slots + s][l]...);
      }
      MT_UNROLL
      for (int j = 0; j < Acc::wide; ++j) {
        MT_UNROLL
        for (int e = 0; e < Layout::elements; ++e) {
          float& x = acc.d[i][j][e][l];
          x = f(x, begun[Layout::slot(e)], j * Layout::cols + Layout::at(0, e).col - Layout::at(0, 0).col);
        }
      }
    }
  }
}
/// acc = f(acc, value of the row).
template <class Cx, class Layout, int R, int C, class F>
MT_FN void scale_rows(Cx&, row_acc<Layout, R, C>& acc, const row_values<Layout, R>& values, F f) {
  each_element(acc, [&](float& x, int i, int, int e, int l) { x = f(x, values.v[slot_of<Layout>(i, e)][l]); });
}

template <class Cx, class Layout, int R>
MT_FN void fill_rows(Cx&, row_values<Layout, R>& values, float x) {
  MT_UNROLL
  for (auto& slot : values.v) {
    for (float& v : slot) v = x;
  }
}
/// f of row values, row by row.
template <class F, class Layout, int R, class... Rest>
MT_FN row_values<Layout, R> map_rows(F f, const row_values<Layout, R>& first, const Rest&... rest) {
  row_values<Layout, R> out;
  MT_UNROLL
  for (int s = 0; s < row_values<Layout, R>::slots; ++s) {
    for (int l = 0; l < kLanes; ++l) out.v[s][l] = f(first.v[s][l], rest.v[s][l]...);
  }
  return out;
}
/// f(row of the tile, row values...).
template <class Cx, class F, class Layout, int R, class... Rest>
MT_FN row_values<Layout, R> map_rows_at(Cx& cx, F f, const row_values<Layout, R>& first, const Rest&... rest) {
  row_values<Layout, R> out;
  MT_UNROLL
  for (int s = 0; s < row_values<Layout, R>::slots; ++s) {
    for (int l = 0; l < kLanes; ++l) {
      const int row = cx.first_row + s / Layout::slots * Layout::rows + Layout::slot_row(cx.lane(l), s % Layout::slots);
      out.v[s][l] = f(row, first.v[s][l], rest.v[s][l]...);
    }
  }
  return out;
}
/// visit(row of the tile, values...), once for each row.
template <class Cx, class Layout, int R, class F>
MT_FN void each_row(Cx& cx, const row_values<Layout, R>& a, const row_values<Layout, R>& b, F visit) {
  constexpr int kShared = Layout::last_bit * 2 - Layout::first_bit;  // the bits by which lanes of a row differ
  MT_UNROLL
  for (int s = 0; s < row_values<Layout, R>::slots; ++s) {
    for (int l = 0; l < kLanes; ++l) {
      const int lane = cx.lane(l);
      if ((lane & kShared) != 0) continue;
      visit(cx.first_row + s / Layout::slots * Layout::rows + Layout::slot_row(lane, s % Layout::slots), a.v[s][l],
            b.v[s][l]);
    }
  }
}
template <class Cx, class Layout, int R, class F>
MT_FN void each_row(Cx& cx, const row_values<Layout, R>& values, F visit) {
  each_row(cx, values, values, [&](int row, float v, float) { visit(row, v); });
}

/// f(first column of this lane, row values...), where lanes of a row may differ.
template <class Cx, class F, class Layout, int R, class... Rest>
MT_FN row_values<Layout, R> map_rows_from(Cx& cx, F f, const row_values<Layout, R>& first, const Rest&... rest) {
  row_values<Layout, R> out;
  MT_UNROLL
  for (int s = 0; s < row_values<Layout, R>::slots; ++s) {
    for (int l = 0; l < kLanes; ++l) out.v[s][l] = f(Layout::at(cx.lane(l), 0).col, first.v[s][l], rest.v[s][l]...);
  }
  return out;
}

/// The largest of what this lane holds of each row, and of `values`.
template <class Cx, class Layout, int R, int C>
MT_FN row_values<Layout, R> lane_max(Cx&, row_acc<Layout, R, C>& acc, const row_values<Layout, R>& values) {
  // Two or, in wide tiles, four running values per row: a shorter chain of dependent operations.
  constexpr int kChains = row_acc<Layout, R, C>::wide >= 16 ? 4 : 2;
  row_values<Layout, R> best[kChains];
  for (auto& chain : best) chain = values;
  each_element(acc, [&](float& x, int i, int j, int e, int l) {
    float& most = best[(j * 2 + e % 2) % kChains].v[slot_of<Layout>(i, e)][l];
    most = max_of(most, x);
  });
  const auto larger = [](float x, float y) { return max_of(x, y); };
  auto a = map_rows(larger, best[0], best[1]);
  if constexpr (kChains == 4) a = map_rows(larger, a, map_rows(larger, best[2], best[3]));
  return a;
}
/// The largest of the lanes of each row.
template <class Cx, class Layout, int R>
MT_FN row_values<Layout, R> largest_of_lanes(Cx&, row_values<Layout, R> a) {
  MT_UNROLL
  for (int bit = Layout::first_bit; bit <= Layout::last_bit; bit *= 2) {
    MT_UNROLL
    for (auto& slot : a.v) {
      float other[kLanes];
      shuffle_xor(other, slot, bit);
      for (int l = 0; l < kLanes; ++l) slot[l] = max_of(slot[l], other[l]);
    }
  }
  return a;
}
/// The largest of each row, and of `values`.
template <class Cx, class Layout, int R, int C>
MT_FN row_values<Layout, R> row_max(Cx& cx, row_acc<Layout, R, C>& acc, const row_values<Layout, R>& values) {
  return largest_of_lanes(cx, lane_max(cx, acc, values));
}
/// The sum of what this lane holds of each row; `row_total` adds up the lanes'.
template <class Cx, class Layout, int R, int C>
MT_FN row_values<Layout, R> row_sum(Cx& cx, row_acc<Layout, R, C>& acc) {
  row_values<Layout, R> a, b;
  fill_rows(cx, a, 0.0f);
  fill_rows(cx, b, 0.0f);
  each_element(acc, [&](float& x, int i, int, int e, int l) { (e % 2 == 0 ? a : b).v[slot_of<Layout>(i, e)][l] += x; });
  return map_rows([](float x, float y) { return computed_here(x + y); }, a, b);
}
template <class Cx, class Layout, int R>
MT_FN row_values<Layout, R> row_total(Cx&, row_values<Layout, R> parts) {
  MT_UNROLL
  for (auto& slot : parts.v) {
    MT_UNROLL
    for (int bit = Layout::first_bit; bit <= Layout::last_bit; bit *= 2) {
      float other[kLanes];
      shuffle_xor(other, slot, bit);
      for (int l = 0; l < kLanes; ++l) slot[l] += other[l];
    }
  }
  return parts;
}

/// Rounds sums to T, as an operand of the next product.
template <class T, class Layout, int R, int C>
MT_FN void as_operand(row_operand<Layout, R, C>& out, const row_acc<Layout, R, C>& acc) {
  using Operand = row_operand<Layout, R, C>;
  MT_UNROLL
  for (int i = 0; i < Operand::tall; ++i) {
    MT_UNROLL
    for (int s = 0; s < Operand::steps; ++s) {
      MT_UNROLL
      for (int w = 0; w < Layout::words; ++w) {
        for (int l = 0; l < kLanes; ++l) {
          const auto& block = acc.d[i][Layout::block_of(s, w)];
          out.w[i][s][w][l] = round_pair<T>(block[Layout::element_of(s, w)][l], block[Layout::element_of(s, w) + 1][l]);
        }
      }
    }
  }
}

/// Rounds and stores the rows of a box that exist, whatever the alignment.
template <class T, class Cx, class Layout, int R, int C>
MT_FN void store_rows_as(Cx& cx, const box_view& to, const box_at& at, row_acc<Layout, R, C>& acc) {
  using Acc = row_acc<Layout, R, C>;
  constexpr int kVector = Layout::neighbours;
  T* const data = static_cast<T*>(to.data);
  for (int l = 0; l < kLanes; ++l) {
    const int lane = cx.lane(l);
    MT_UNROLL
    for (int i = 0; i < Acc::tall; ++i) {
      MT_UNROLL
      for (int s = 0; s < Layout::slots; ++s) {
        const int row = cx.first_row + i * Layout::rows + Layout::slot_row(lane, s);
        if (row >= at.rows) continue;
        T* const place = data + to.offset(at.x + row % to.box_x, at.y + row / to.box_x, at.z);
        MT_UNROLL
        for (int j = 0; j < Acc::wide; ++j) {
          MT_UNROLL
          for (int e = 0; e < Layout::elements; e += kVector) {
            if (Layout::slot(e) != s) continue;
            const int col = j * Layout::cols + Layout::at(lane, e).col;
            if (to.vectors && col + kVector <= to.cols) {
              packed<T, kVector> v;
              MT_UNROLL
              for (int x = 0; x < kVector; ++x) v.v[x] = rounding<T>::apply(acc.d[i][j][e + x][l]);
              *reinterpret_cast<packed<T, kVector>*>(place + col) = v;
            } else {
              MT_UNROLL
              for (int x = 0; x < kVector; ++x) {
                if (col + x < to.cols) place[col + x] = rounding<T>::apply(acc.d[i][j][e + x][l]);
              }
            }
          }
        }
      }
    }
  }
}
template <class Cx, class Layout, int R, int C>
MT_FN void store_rows_from_registers(Cx& cx, const box_view& to, const box_at& at, row_acc<Layout, R, C>& acc) {
  store_rows_as<typename Cx::storage>(cx, to, at, acc);
}
/// The same without rounding: sums that are joined later, with what is known of their rows: keep(row, largest, total).
/// Where waves have parts of the same rows, they are joined first: share(largest of a part, largest of all) of each. `to`
/// has the columns of the whole tile.
template <class Cx, class Layout, int R, int C, class Share, class Keep>
MT_FN void store_sums(Cx& cx, const box_view& to, const box_at& at, row_acc<Layout, R, C>& acc,
                      const row_values<Layout, R>& largest, const row_values<Layout, R>& parts, Share, Keep keep) {
  const auto total = row_total(cx, parts);
  store_rows_as<float>(cx, to, at, acc);
  each_row(cx, largest, total, [&](int row, float m, float sum) {
    if (row < at.rows) keep(row, m, sum);
  });
}
/// Rows of such sums, for the words of tiles: whole vectors, so that there are no tails in the code. 0 unless `there`.
template <class L>
MT_FN tile<float, L> load_sums(Context&, const float* rows, int64_t stride, const place<L>& at, bool there) {
  tile<float, L> t{};
  for (int l = 0; l < kLanes; ++l) {
    if (at.live[l] && there) load_run<cache::normal>(t.v[l], 0, rows + at.row[l] * stride + at.local_col(l, 0), L::elements);
  }
  return t;
}

/// A lane's one vector of such rows once they are joined, rounded: whatever the alignment, in little code.
template <class T, class L>
MT_FN void store_joined(Context&, const view<T>& to, const place<L>& at, const tile<float, L>& t) {
  constexpr int E = L::elements;
  for (int l = 0; l < kLanes; ++l) {
    const int col = at.local_col(l, 0);
    if (!at.live[l] || col >= at.limit) continue;
    T* const place = to.row(at.row[l]) + col;
    packed<T, E> v;
    MT_UNROLL
    for (int e = 0; e < E; ++e) v.v[e] = rounding<T>::apply(t.v[l][e]);
    if (to.vectors && col + E <= at.limit) {
      *reinterpret_cast<packed<T, E>*>(place) = v;
    } else {
      MT_UNROLL
      for (int e = 0; e < E; ++e) {
        if (col + e < at.limit) place[e] = v.v[e];
      }
    }
  }
}

// --- values that some rows do not see ------------------------------------------------------------------------------
// A weight of 0 must take nothing from its row of the other operand, but to a matrix unit 0 times NaN is NaN. Where
// some weights are 0 on purpose the operand is therefore looked at first, and in the rare case multiplied one by one.

/// Not 0 if one of eight values is an inf or a NaN.
template <class T>
MT_FN uint32_t carries_of_unbounded(const vector16& v) {
  constexpr bool kShort = dtype_of<T> == DType::f16;
  constexpr uint32_t kExponent = kShort ? 0x7c007c00u : 0x7f807f80u, kCarry = kShort ? 0x04000400u : 0x00800080u;
  uint32_t found = 0;
  MT_UNROLL
  for (const uint32_t word : v.word) found |= (word & kExponent) + kCarry;
  return found & 0x80008000u;
}
/// Does this lane's share of a tile, one in `lanes`, hold an inf or a NaN?
template <class Tile>
MT_FN bool share_is_unbounded(const Tile& tile, int lane, int lanes) {
  uint32_t found = 0;
  MT_NO_UNROLL
  for (int chunk = lane; chunk < static_cast<int>(sizeof tile.data) / 16; chunk += lanes) {
    found |= carries_of_unbounded<typename Tile::element>(load_shared16(tile.data + chunk * 16));
  }
  return found != 0;
}
/// acc += weights c, one by one, from `room`: memory of this wave alone for Cols weights of Layout::rows rows. Lanes may
/// still read c and the room when the first one is done.
template <int Cols, class T, class Cx, class Layout, int R, int N, int D, class Tile>
MT_FN void product_of_seen(Cx& cx, row_acc<Layout, R, D>& acc, const row_operand<Layout, R, N>& weights, const Tile& c,
                           T* room) {
  using Acc = row_acc<Layout, R, D>;
  MT_UNROLL
  for (int i = 0; i < Acc::tall; ++i) {
    MT_UNROLL
    for (int first = 0; first < N; first += Cols) {
      wave_sync();
      MT_UNROLL
      for (int s = 0; s < Cols / Layout::step; ++s) {
        MT_UNROLL
        for (int w = 0; w < Layout::words; ++w) {
          for (int l = 0; l < kLanes; ++l) {
            const coordinate at = Layout::operand(cx.lane(l), 2 * w);
            *reinterpret_cast<uint32_t*>(room + at.row * Cols + s * Layout::step + at.col) =
                weights.w[i][first / Layout::step + s][w][l];
          }
        }
      }
      wave_sync();
      MT_NO_UNROLL
      for (int k = 0; k < Cols; ++k) {
        for (int l = 0; l < kLanes; ++l) {
          const int lane = cx.lane(l);
          float weight[Layout::slots];
          MT_UNROLL
          for (int s = 0; s < Layout::slots; ++s) weight[s] = promote(room[Layout::slot_row(lane, s) * Cols + k]);
          MT_UNROLL
          for (int j = 0; j < Acc::wide; ++j) {
            // Or the addresses of all columns would be kept in registers.
            const int row = unforeseen(first + k), here = unforeseen(lane);
            MT_UNROLL
            for (int e = 0; e < Layout::elements; ++e) {
              const int col = j * Layout::cols + Layout::at(here, e).col;
              const float x = weight[Layout::slot(e)];
              const auto* place = c.data + Tile::place(row, col);
              const float y = promote(*reinterpret_cast<const typename Tile::element*>(place));
              if (x != 0.0f) acc.d[i][j][e][l] += x * y;
            }
          }
        }
      }
    }
  }
}

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME
