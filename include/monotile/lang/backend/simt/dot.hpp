#pragma once
// Products of rows on machines with lanes: the lanes of a row of b share its columns, keep one partial sum per row of
// a, and add up at the end. The order of the sum depends on k alone.

#include "monotile/lang/backend/simt/tile.hpp"
#include "monotile/lang/block_rows.hpp"
#include "monotile/lang/quant.hpp"

namespace monotile::lang::inline MONOTILE_TARGET_NAME {

/// Rows of b (one per lane group) and rows [first_m, first_m + m) of a, m <= MT.
template <class L, int MT>
struct dot_block {
  place<L> at;
  int64_t first_m;
  int m;
};

template <class L, int MT>
struct dot_sums {
  row_value<float, L> of[MT];
};

/// Programs with the same rows of b are neighbours, so that these rows come from the cache after the first.
template <class L, int MT, class Shape>
requires(!__is_same(L, block_rows)) MT_FN dot_block<L, MT> dot_block_of(const Context& ctx, const Shape& shape) {
  dot_block<L, MT> block;
  const int64_t blocks = (shape.m + MT - 1) / MT;
  Context group = ctx;
  group.program = ctx.program / blocks;
  block.at = rows_of<L>(group, shape.n, shape.k);
  block.first_m = (ctx.program - group.program * blocks) * MT;
  block.m = static_cast<int>(shape.m - block.first_m < MT ? shape.m - block.first_m : MT);
  return block;
}

/// One tile of weights as fp32; cells that do not exist are 0.
template <class T, class L>
MT_FN tile<float, L> load_weights(Context& ctx, const view<T>& from, const place<L>& at) {
  return map([](auto v) { return v; }, load<cache::read_only>(ctx, from, at));
}
/// The same columns of row `row` of the activations, in every lane group.
template <class T, class L>
MT_FN void load_activations(float (&out)[L::elements], const view<T>& from, int64_t row, const place<L>& at, int l) {
  using U = typename bare<T>::type;
  U raw[L::elements];
  load_lane<cache::read_only, U, L>(raw, from.row(row), from.vectors, at, l, U{});
  MT_UNROLL
  for (int e = 0; e < L::elements; ++e) out[e] = promote(raw[e]);
}
/// The dots of the block's rows of a and b, in every lane of a row of b.
template <class L, int MT, class A, class W>
MT_FN dot_sums<L, MT> row_dots(Context& ctx, const dot_block<L, MT>& block, const A& a, const W& w) {
  constexpr int kAhead = 2;  // chunks of weights in flight
  dot_sums<L, MT> sums;
  MT_UNROLL
  for (int r = 0; r < MT; ++r) {
    for (int l = 0; l < kLanes; ++l) sums.of[r].v[l] = 0.0f;
  }
  const int64_t step = chunk_cols(block.at);
  for (int64_t c = 0; c < block.at.cols; c += kAhead * step) {
    tile<float, L> weights[kAhead];
    MT_UNROLL
    for (int i = 0; i < kAhead; ++i) weights[i] = load_weights(ctx, w, chunk_at(block.at, c + i * step));
    MT_UNROLL
    for (int r = 0; r < MT; ++r) {
      if (r >= block.m) continue;
      MT_UNROLL
      for (int i = 0; i < kAhead; ++i) {
        const place<L> at = chunk_at(block.at, c + i * step);
        for (int l = 0; l < kLanes; ++l) {
          float x[L::elements];
          load_activations(x, a, block.first_m + r, at, l);
          float sum = sums.of[r].v[l];
          MT_UNROLL
          for (int e = 0; e < L::elements; ++e) sum = fma_of(x[e], weights[i].v[l][e], sum);
          sums.of[r].v[l] = sum;
        }
      }
    }
  }
  MT_UNROLL
  for (int r = 0; r < MT; ++r) finish_rows<Sum>(ctx, sums.of[r]);
  return sums;
}

/// Eight activations from column `col` on: values, or codes and their scale.
struct eight_activations {
  float x[8];
  float scale;
};
template <class T>
MT_FN void load_eight(eight_activations& out, const view<T>& from, int64_t row, int64_t col) {
  using U = typename bare<T>::type;
  constexpr int kPer = 16 / static_cast<int>(sizeof(U));
  const U* const p = from.row(row) + col;
  if (from.vectors) {
    vector16 raw[8 / kPer];
    MT_UNROLL
    for (int i = 0; i < 8 / kPer; ++i) raw[i] = load16(p + i * kPer);
    MT_UNROLL
    for (int e = 0; e < 8; ++e) out.x[e] = promote(element_of<U>(raw[e / kPer], e % kPer));
  } else {
    MT_UNROLL
    for (int e = 0; e < 8; ++e) out.x[e] = promote(*MT_READ_AT(p + e));
  }
}
MT_FN void load_eight(eight_activations& out, const int8_rows& from, int64_t row, int64_t col) {
  const uint32_t* const p = reinterpret_cast<const uint32_t*>(from.codes(row) + col);
  const uint32_t words[2] = {p[0], p[1]};
  out.scale = from.scales(row)[col / 32];
  MT_UNROLL
  for (int e = 0; e < 8; ++e) out.x[e] = static_cast<float>(static_cast<int8_t>(words[e / 4] >> (8 * (e % 4)) & 255u));
}

/// Chunks from column `first` on; `Whole`: all of them exist. Blocks are multiplied as whole numbers: one multiplication by the scale for eight elements.
template <bool Whole, int Chunks, class L, int MT, class A, DType Q>
MT_FN void add_chunks(dot_sums<L, MT>& sums, const dot_block<L, MT>& block, const A& a, const quant_view<Q>& w, int64_t first) {
  static_assert(L::vector_elements == 8 && L::vectors == 1, "blocks are read by eights");
  codes8 codes[Chunks][kLanes];
  const int64_t step = chunk_cols(block.at);
  const auto col_of = [&](int i, int l) { return first + i * step + block.at.local_col(l, 0); };
  for (int l = 0; l < kLanes; ++l) {
    const uint8_t* const row = w.row(block.at.row[l]);  // of rows that do not exist the first one: nobody stores their sums
    MT_UNROLL
    for (int i = 0; i < Chunks; ++i) {
      if (Whole || col_of(i, l) < block.at.cols) {
        read_codes8<Q>(row, col_of(i, l), codes[i][l]);
      } else {
        codes[i][l] = {};
      }
    }
  }
  MT_UNROLL
  for (int r = 0; r < MT; ++r) {
    if (r >= block.m) continue;
    for (int l = 0; l < kLanes; ++l) {
      MT_TURN_OF(l);
      MT_UNROLL
      for (int i = 0; i < Chunks; ++i) {
        const codes8& b = codes[i][l];
        eight_activations v;
        if (Whole || col_of(i, l) < block.at.cols) {
          load_eight(v, a, block.first_m + r, col_of(i, l));
        } else {
          v = {};
        }
        float dot = 0.0f, total = 0.0f, scale = b.scale, minimum = b.minimum;
        MT_UNROLL
        for (int e = 0; e < 8; ++e) {
          dot = fma_of(v.x[e], b.code[e], dot);
          if constexpr (Q == DType::q4_k) total += v.x[e];
        }
        if constexpr (__is_same(A, int8_rows)) scale *= v.scale, minimum *= v.scale;
        float& sum = sums.of[r].v[l];
        sum = fma_of(scale, dot, sum);
        if constexpr (Q == DType::q4_k) sum = fma_of(-minimum, total, sum);
      }
    }
  }
}
template <class L, int MT, class A, DType Q>
MT_FN dot_sums<L, MT> row_dots(Context& ctx, const dot_block<L, MT>& block, const A& a, const quant_view<Q>& w) {
  constexpr int kAhead = 2;
  dot_sums<L, MT> sums;
  MT_UNROLL
  for (int r = 0; r < MT; ++r) {
    for (int l = 0; l < kLanes; ++l) sums.of[r].v[l] = 0.0f;
  }
  const int64_t step = chunk_cols(block.at) * kAhead;
  int64_t c = 0;
  MT_NO_UNROLL
  for (; c + step <= block.at.cols; c += step) add_chunks<true, kAhead>(sums, block, a, w, c);
  if (c < block.at.cols) add_chunks<false, kAhead>(sums, block, a, w, c);
  MT_UNROLL
  for (int r = 0; r < MT; ++r) finish_rows<Sum>(ctx, sums.of[r]);
  return sums;
}

// --- what follows a product: by the first lane of each row of b -----------------------------------------------------
MT_FN float element_at(const void* data, DType dtype, int64_t i) {
  if (dtype == DType::f32) return static_cast<const float*>(data)[i];
  if (dtype == DType::bf16) return promote(static_cast<const bfloat16_t*>(data)[i]);
  return promote(static_cast<const half_t*>(data)[i]);
}
MT_FN void set_element(void* data, DType dtype, int64_t i, float v) {
  if (dtype == DType::f32) {
    static_cast<float*>(data)[i] = v;
  } else if (dtype == DType::bf16) {
    static_cast<bfloat16_t*>(data)[i] = rounding<bfloat16_t>::apply(v);
  } else {
    static_cast<half_t*>(data)[i] = rounding<half_t>::apply(v);
  }
}
/// f(row of a, column of c, sum) for each dot of the block that exists, once.
template <class L, int MT, class F>
MT_FN void each_dot(const Context&, const dot_block<L, MT>& block, dot_sums<L, MT>& sums, F f) {
  for (int l = 0; l < kLanes; ++l) {
    if (!block.at.live[l] || block.at.lane[l] != 0) continue;
    MT_UNROLL
    for (int r = 0; r < MT; ++r) {
      if (r < block.m) f(block.first_m + r, block.at.row[l], sums.of[r].v[l]);
    }
  }
}
template <class Block, class Sums>
MT_FN void add_columns(Context& ctx, const Block& block, Sums& sums, const any_vector& columns) {
  each_dot(ctx, block, sums, [&](int64_t, int64_t col, float& sum) { sum += element_at(columns.data, columns.dtype, col); });
}
template <class Block, class Sums>
MT_FN void add_cells(Context& ctx, const Block& block, Sums& sums, const any_rows& cells) {
  each_dot(ctx, block, sums, [&](int64_t row, int64_t col, float& sum) {
    sum += element_at(cells.data, cells.dtype, row * cells.stride + col);
  });
}
template <class Block, class Sums>
MT_FN void store_cells(Context& ctx, const Block& block, const any_rows& to, Sums& sums) {
  each_dot(ctx, block, sums,
           [&](int64_t row, int64_t col, float& sum) { set_element(to.data, to.dtype, row * to.stride + col, sum); });
}

// --- int8 blocks ----------------------------------------------------------------------------------------------------
/// Rounds rows to int8 blocks: four lanes share a block of 32. A block that holds NaN or infinity gets the scale NaN,
/// so that it stays visible.
template <class T, class L>
MT_FN void store_int8_blocks(Context&, const int8_rows& to, const place<L>& at, const view<T>& from) {
  static_assert(L::vector_elements == 8 && L::vectors == 1 && L::lanes_per_row >= 4,
                "four neighbouring lanes hold one block");
  for (int64_t c = 0; c < at.cols; c += chunk_cols(at)) {
    const place<L> chunk = chunk_at(at, c);
    float x[kLanes][8];
    int32_t largest[kLanes],
        other[kLanes];  // bits of |x|: as integers they order like the values, and NaN is the largest
    for (int l = 0; l < kLanes; ++l) {
      load_activations(x[l], from, at.row[l], chunk, l);
      largest[l] = 0;
      MT_UNROLL
      for (int e = 0; e < 8; ++e)
        largest[l] =
            Max::combine(largest[l], static_cast<int32_t>(__builtin_bit_cast(uint32_t, x[l][e]) & 0x7fffffffu));
    }
    for (int mask = 1; mask < 4; mask *= 2) {
      shuffle_xor(other, largest, mask);
      for (int l = 0; l < kLanes; ++l) largest[l] = Max::combine(largest[l], other[l]);
    }
    for (int l = 0; l < kLanes; ++l) {
      const int local = chunk.local_col(l, 0);
      if (!chunk.live[l] || local >= chunk.limit) continue;
      const float most = __builtin_bit_cast(float, largest[l]);
      const float inverse = most > 0x1p-110f ? 127.0f / most : 0.0f;  // below, the quotient could be infinite
      int8_t* codes = to.codes(at.row[l]) + c + local;
      MT_UNROLL
      for (int e = 0; e < 8; ++e) {
        // adding 1.5 * 2^23 rounds to the nearest integer, halves to even
        const float code = (max_of(min_of(x[l][e] * inverse, 127.0f), -127.0f) + 12582912.0f) - 12582912.0f;
        codes[e] = static_cast<int8_t>(code);
      }
      if (local % 32 == 0) to.scales(at.row[l])[(c + local) / 32] = most / 127.0f + (most - most);
    }
  }
}

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME
