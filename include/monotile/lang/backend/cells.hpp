#pragma once
// Words on accumulators, the same for every matrix path. They stand on the path's `each_vector`, which gives the
// elements that a lane holds, a few neighbours of a row at a time, and on its `promote` and `rounding`.

#include <type_traits>

#include "monotile/lang/converted.hpp"
#include "monotile/lang/tile_config.hpp"

namespace monotile::lang::inline MONOTILE_TARGET_NAME {

/// f(a value of the element type `dtype`): fp32 or the storage type of the operands; beside codes and converted operands either type of 16 bits.
template <class Ctx, class F>
MT_FN void with_element_type(Ctx&, DType dtype, F f) {
  if (dtype == DType::f32) {
    f(float{});
  } else if constexpr (sizeof(typename Ctx::storage) == 1 || conversion_of<typename Ctx::storage>::wanted) {
    if (dtype == DType::bf16) {
      f(bfloat16_t{});
    } else {
      f(half_t{});
    }
  } else {
    f(typename Ctx::storage{});
  }
}

/// acc = f(acc), element by element.
template <class Ctx, class Acc, class F>
MT_FN void map_cells(Ctx& cx, Acc& acc, const tile_coord& t, F f) {
  each_vector(cx, acc, t, [&](auto& v, int, int) {
    MT_UNROLL
    for (float& x : v) x = f(x);
  });
}
/// acc = f(acc, batch, row, column), for elements that exist.
template <class Ctx, class Acc, class F>
MT_FN void map_cells_at(Ctx& cx, Acc& acc, const tile_coord& t, F f) {
  each_vector(cx, acc, t, [&](auto& v, int row, int col) {
    MT_UNROLL
    for (float& x : v) {
      if (row < cx.space.rows && col < cx.space.cols) x = f(x, t.batch, row, col);
      ++col;
    }
  });
}
/// acc *= scales of its row and column.
template <class Ctx, class Acc>
MT_FN void scale_cells(Ctx& cx, Acc& acc, const tile_coord& t, const cell_scales& s) {
  map_cells_at(cx, acc, t, [&](auto v, int, int row, int col) { return v * (s.row(row) * s.column(col)); });
}
/// acc += columns[column].
template <class Ctx, class Acc>
MT_FN void add_columns(Ctx& cx, Acc& acc, const tile_coord& t, const any_vector& columns) {
  with_element_type(cx, columns.dtype, [&](auto type) {
    const auto* data = static_cast<const decltype(type)*>(columns.data);
    each_vector(cx, acc, t, [&](auto& v, int, int col) {
      MT_UNROLL
      for (float& x : v) {
        if (col < cx.space.cols) x += promote(data[col]);
        ++col;
      }
    });
  });
}
/// acc = f(acc, cells[row, column]), of the same matrix of the batch.
template <class Ctx, class Acc, class F>
MT_FN void map_cells_with(Ctx& cx, Acc& acc, const tile_coord& t, const matrix_view& cells, F f) {
  with_element_type(cx, cells.dtype, [&](auto type) {
    const auto* data = static_cast<const decltype(type)*>(cells.data) + t.batch * cells.batch_stride;
    each_vector(cx, acc, t, [&](auto& v, int row, int col) {
      if (row >= cx.space.rows) return;
      const auto* from = data + row * cells.stride + col;
      MT_UNROLL
      for (float& x : v) {
        if (col < cx.space.cols) x = f(x, promote(*from));
        ++col, ++from;
      }
    });
  });
}
/// acc += cells[row, column] of the same matrix of the batch.
template <class Ctx, class Acc>
MT_FN void add_cells(Ctx& cx, Acc& acc, const tile_coord& t, const matrix_view& cells) {
  map_cells_with(cx, acc, t, cells, [](float x, float cell) { return x + cell; });
}

/// acc += rows[row].
template <class Ctx, class Acc>
MT_FN void add_rows(Ctx& cx, Acc& acc, const tile_coord& t, const any_vector& rows) {
  with_element_type(cx, rows.dtype, [&](auto type) {
    const auto* data = static_cast<const decltype(type)*>(rows.data);
    each_vector(cx, acc, t, [&](auto& v, int row, int) {
      if (row >= cx.space.rows) return;
      const float addend = promote(data[row]);
      MT_UNROLL
      for (float& x : v) x += addend;
    });
  });
}
/// acc += cells[column, row]: those of a matrix that lies across the tiles.
template <class Ctx, class Acc>
MT_FN void add_cells_across(Ctx& cx, Acc& acc, const tile_coord& t, const matrix_view& cells) {
  with_element_type(cx, cells.dtype, [&](auto type) {
    const auto* data = static_cast<const decltype(type)*>(cells.data) + t.batch * cells.batch_stride;
    each_vector(cx, acc, t, [&](auto& v, int row, int col) {
      if (row >= cx.space.rows) return;
      MT_UNROLL
      for (float& x : v) {
        if (col < cx.space.cols) x += promote(data[col * cells.stride + row]);
        ++col;
      }
    });
  });
}

/// Neighbours that are moved together. Rows start on 16 bytes and no more, however many there are.
template <class T, int N>
struct alignas(N * sizeof(T) < 16 ? N * sizeof(T) : 16) packed {
  T v[N];
};
/// A sum as an element of a result: rounded, or a whole number as it is.
template <class T, class S>
MT_FN T stored_sum(S v) {
  if constexpr (std::is_same_v<S, T>) {
    return v;
  } else {
    return rounding<T>::apply(v);
  }
}
/// Stores elements of type T from registers, whatever the alignment.
template <class T, class Ctx, class Acc>
MT_FN void store_elements_of(Ctx& cx, const matrix_view& c, const tile_coord& t, Acc& acc) {
  T* data = static_cast<T*>(c.data) + t.batch * c.batch_stride;
  each_vector(cx, acc, t, [&](auto& v, int row, int col) {
    constexpr int kVector = sizeof(v) / sizeof(float);
    if (row >= c.rows) return;
    T* to = data + row * c.stride + col;
    if (c.vectors && col + kVector <= c.cols) {
      packed<T, kVector> out;
      MT_UNROLL
      for (int e = 0; e < kVector; ++e) out.v[e] = stored_sum<T>(v[e]);
      *reinterpret_cast<packed<T, kVector>*>(to) = out;
    } else {
      MT_UNROLL
      for (int e = 0; e < kVector; ++e) {
        if (col + e < c.cols) to[e] = stored_sum<T>(v[e]);
      }
    }
  });
}
/// Rounds to the type of c and stores from registers.
template <class Ctx, class Acc>
MT_FN void store_from_registers(Ctx& cx, const matrix_view& c, const tile_coord& t, Acc& acc) {
  with_element_type(cx, c.dtype, [&](auto type) { store_elements_of<decltype(type)>(cx, c, t, acc); });
}

/// Stores acc across as elements of type T: c[column, row] = acc[row, column].
template <class T, class Ctx, class Acc>
MT_FN void store_elements_across(Ctx& cx, const matrix_view& c, const tile_coord& t, Acc& acc) {
  T* data = static_cast<T*>(c.data) + t.batch * c.batch_stride;
  each_vector(cx, acc, t, [&](auto& v, int row, int col) {
    if (row >= cx.space.rows) return;
    MT_UNROLL
    for (const auto x : v) {
      if (col < cx.space.cols) data[col * c.stride + row] = stored_sum<T>(x);
      ++col;
    }
  });
}
/// Rounds to the type of c and stores acc across.
template <class Ctx, class Acc>
MT_FN void store_across(Ctx& cx, const matrix_view& c, const tile_coord& t, Acc& acc) {
  with_element_type(cx, c.dtype, [&](auto type) { store_elements_across<decltype(type)>(cx, c, t, acc); });
}

template <class Acc>
inline constexpr bool integer_sums = false;
template <class Acc>
  requires std::is_same_v<typename Acc::sum, int32_t>
inline constexpr bool integer_sums<Acc> = true;

/// f(sums in fp32), which ends with a store to c. Whole numbers that c is to hold as they are are stored instead, with nothing added. `Across`: c lies
/// across the tiles. Machines whose sums say at run time what they are need no help.
template <bool Across, class Ctx, class Acc, class F>
MT_FN void finish_sums(Ctx& cx, Acc& acc, const tile_coord& t, const matrix_view& c, F f) {
  if constexpr (integer_sums<Acc>) {
    if (c.dtype == DType::i32) {
      if constexpr (Across) {
        store_elements_across<int32_t>(cx, c, t, acc);
      } else {
        store_elements_of<int32_t>(cx, c, t, acc);
      }
      return;
    }
    decltype(float_sums_of(acc)) sums;
    sums_to_float(sums, acc);
    f(sums);
  } else {
    f(acc);
  }
}

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME
