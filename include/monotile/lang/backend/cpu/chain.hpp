#pragma once
// Chained products on CPU: a program is one tile, in order. Copies widen to fp32, and turn b, so that both products
// are sums of scaled rows; weights stay fp32. Row lengths and element types are known at run time.

#include "monotile/lang/backend/cpu/matrix.hpp"
#include "monotile/lang/chain_config.hpp"

namespace monotile::lang::inline MONOTILE_TARGET_NAME {

inline constexpr bool kHasChains = true;
inline constexpr int kChainStep = 16;  ///< columns that are multiplied at a time

/// fp32 on chip, `count` rows of `stride` floats; `across`: an operand's column after the other.
template <bool Across>
struct chain_tile {
  static constexpr bool across = Across;
  float* data;
  int count, stride;
};
/// Sums of a tile: `rows` are in use.
struct chain_acc {
  float* data;
  int rows, stride, cols;
  float* row(int r) const { return data + static_cast<ptrdiff_t>(r) * stride; }
};
template <int N>
struct chain_rows {
  float v[N];
};

template <class Cfg>
struct chain_context {
  template <int R>
  using rows_of = chain_rows<R>;
  using rows = chain_rows<Cfg::bm>;
};

/// 2^x; what is below 2^-126 becomes 0.
MT_FN float weight_exp2(float x) { return x < -126.0f ? 0.0f : std::exp2(x); }
template <int N>
MT_FN pack<N> weight_exp2(const pack<N>& x) {
  return fast_exp2(x);
}

// --- words -----------------------------------------------------------------------------------------------------------
template <class Cx>
MT_FN void clear(Cx&, chain_acc& acc) {
  for (int r = 0; r < acc.rows; ++r) std::memset(acc.row(r), 0, static_cast<size_t>(acc.stride) * sizeof(float));
}
template <class Cx, class F>
MT_FN void map_cells(Cx&, chain_acc& acc, F f) {
  for (int r = 0; r < acc.rows; ++r) {
    float* const x = acc.row(r);
    for (int c = 0; c < acc.stride; c += 8) store_pack(x + c, f(load_pack<8>(x + c)));
  }
}
template <class Cx, class OfRow, class F>
MT_FN void map_cells_at(Cx&, chain_acc& acc, OfRow of_row, F f) {
  for (int r = 0; r < acc.rows; ++r) {
    const auto row = of_row(r);
    float* const x = acc.row(r);
    for (int c = 0; c < acc.cols; ++c) x[c] = f(x[c], row, c);
  }
}
template <class Cx, int N, class F>
MT_FN void scale_rows(Cx&, chain_acc& acc, const chain_rows<N>& values, F f) {
  for (int r = 0; r < acc.rows; ++r) {
    float* const x = acc.row(r);
    const float value = values.v[r];
    for (int c = 0; c < acc.stride; c += 8) store_pack(x + c, f(load_pack<8>(x + c), value));
  }
}
template <class Cx, int N>
MT_FN void fill_rows(Cx&, chain_rows<N>& values, float x) {
  for (float& v : values.v) v = x;
}
template <class F, int N, class... Rest>
MT_FN chain_rows<N> map_rows(F f, const chain_rows<N>& first, const Rest&... rest) {
  chain_rows<N> out;
  for (int r = 0; r < N; ++r) out.v[r] = f(first.v[r], rest.v[r]...);
  return out;
}
template <class Cx, class F, int N, class... Rest>
MT_FN chain_rows<N> map_rows_at(Cx&, F f, const chain_rows<N>& first, const Rest&... rest) {
  chain_rows<N> out;
  for (int r = 0; r < N; ++r) out.v[r] = f(r, first.v[r], rest.v[r]...);
  return out;
}
template <class Cx, int N, class F>
MT_FN void each_row(Cx&, const chain_rows<N>& values, F visit) {
  for (int r = 0; r < N; ++r) visit(r, values.v[r]);
}
template <class Cx, int N>
MT_FN chain_rows<N> row_max(Cx&, chain_acc& acc, const chain_rows<N>& values) {
  chain_rows<N> out = values;
  for (int r = 0; r < acc.rows; ++r) {
    pack<8> best(values.v[r]);
    for (int c = 0; c < acc.cols; c += 8) best = max_of(best, load_pack<8>(acc.row(r) + c));
    out.v[r] = reduce_pack<Max>(best);
  }
  return out;
}
template <class Cx>
MT_FN auto row_sum(Cx&, chain_acc& acc) {
  typename Cx::rows out{};
  for (int r = 0; r < acc.rows; ++r) {
    pack<8> sum(0.0f);
    for (int c = 0; c < acc.cols; c += 8) sum = sum + load_pack<8>(acc.row(r) + c);
    out.v[r] = reduce_pack<Sum>(sum);
  }
  return out;
}
template <class Cx, int N>
MT_FN chain_rows<N> row_total(Cx&, const chain_rows<N>& parts) {
  return parts;
}

/// f(pointer of the element type).
template <class F>
MT_FN void with_rows_of(const box_view& v, F f) {
  if (v.dtype == DType::f16) return f(static_cast<half_t*>(v.data));
  if (v.dtype == DType::bf16) return f(static_cast<bfloat16_t*>(v.data));
  f(static_cast<float*>(v.data));
}
template <class Cx>
MT_FN void store_rows(Cx&, const box_view& to, const box_at& at, chain_acc& acc) {
  with_rows_of(to, [&](auto* data) {
    for (int r = 0; r < acc.rows && r < at.rows; ++r) {
      auto* const row = data + to.offset(at.x + r % to.box_x, at.y + r / to.box_x, at.z);
      int c = 0;
      for (; c + 8 <= to.cols; c += 8) store8(row + c, load8(acc.row(r) + c));
      for (; c < to.cols; ++c) row[c] = from_float<std::remove_pointer_t<decltype(row)>>(acc.row(r)[c]);
    }
  });
}

// --- copies ----------------------------------------------------------------------------------------------------------
template <class T>
MT_FN void widen_row(float* to, const T* from, int cols, int padded) {
  int c = 0;
  for (; c + 8 <= cols; c += 8) store8(to + c, load8(from + c));
  for (; c < cols; ++c) to[c] = promote(from[c]);
  for (; c < padded; ++c) to[c] = 0.0f;
}
MT_FN void turn_8x8(float* to, ptrdiff_t to_stride, const float* from, ptrdiff_t from_stride) {
  float8 a[8], b[8];
  for (int i = 0; i < 8; ++i) a[i] = load8(from + i * from_stride);
  for (int i = 0; i < 8; i += 2) {
    b[i] = __builtin_shufflevector(a[i], a[i + 1], 0, 8, 2, 10, 4, 12, 6, 14);
    b[i + 1] = __builtin_shufflevector(a[i], a[i + 1], 1, 9, 3, 11, 5, 13, 7, 15);
  }
  for (int i = 0; i < 8; i += 4) {
    for (int j = 0; j < 2; ++j) {
      a[i + j] = __builtin_shufflevector(b[i + j], b[i + j + 2], 0, 1, 8, 9, 4, 5, 12, 13);
      a[i + j + 2] = __builtin_shufflevector(b[i + j], b[i + j + 2], 2, 3, 10, 11, 6, 7, 14, 15);
    }
  }
  for (int j = 0; j < 4; ++j) {
    store8(to + j * to_stride, __builtin_shufflevector(a[j], a[j + 4], 0, 1, 2, 3, 8, 9, 10, 11));
    store8(to + (j + 4) * to_stride, __builtin_shufflevector(a[j], a[j + 4], 4, 5, 6, 7, 12, 13, 14, 15));
  }
}
/// Plain values, or codes.
template <class F>
MT_FN void with_stored_rows(const box_view& v, F f) {
  if (v.dtype == DType::f8_e4m3) return f(static_cast<e4m3_t*>(v.data));
  if (v.dtype == DType::f8_e5m2) return f(static_cast<e5m2_t*>(v.data));
  if (v.dtype == DType::i8) return f(static_cast<int8_t*>(v.data));
  with_rows_of(v, f);
}
template <class Cx, bool Across, class Place>
MT_FN void copy_boxes(Cx& cx, chain_tile<Across>& to, const box_view& from, Place place) {
  copy_boxes(cx, to, coded_view{from, {}}, place);
}
/// The rows of a tile, box by box: place(number of the box) says where it is. What does not exist becomes 0.
template <class Cx, bool Across, class Place>
MT_FN void copy_boxes(Cx&, chain_tile<Across>& to, const coded_view& view, Place place) {
  const box_view& from = view.rows;
  const int box = from.box_x * from.box_y, padded = (from.cols + 7) / 8 * 8;
  with_stored_rows(from, [&](const auto* data) {
    alignas(64) float turned[8][512];
    box_at at{};
    for (int r = 0; r < to.count; ++r) {
      const int within = r % box, y = within / from.box_x;
      if (within == 0) at = place(r / box);
      const bool exists = within < at.rows;
      const auto* const row = exists ? data + from.offset(at.x + within - y * from.box_x, at.y + y, at.z) : data;
      float* const wide = Across ? turned[r % 8] : to.data + static_cast<ptrdiff_t>(r) * to.stride;
      widen_row(wide, row, exists ? from.cols : 0, padded);
      if (view.scales.data != nullptr && exists) {
        const float scale = *view.scales.at(at.x + within - y * from.box_x, at.y + y, at.z);
        for (int c = 0; c < from.cols; ++c) wide[c] *= scale;
      }
      if constexpr (Across) {
        if (r % 8 != 7) continue;
        for (int c = 0; c < padded; c += 8)
          turn_8x8(to.data + static_cast<ptrdiff_t>(c) * to.stride + r - 7, to.stride, turned[0] + c, 512);
      }
    }
  });
}

// --- products --------------------------------------------------------------------------------------------------------
/// Rows [r, r + Rows) of out (+)= a b: sums over k in order, so that a row's bits do not depend on its neighbours.
template <int Rows>
__attribute__((noinline)) void rows_product(float* out, int out_stride, const float* a, int a_stride, const float* b,
                                            int b_stride, int cols, int k, bool keep) {
  for (int c = 0; c < cols; c += kChainStep) {
    float8 sum[Rows][2];
    for (int r = 0; r < Rows; ++r) {
      for (int h = 0; h < 2; ++h)
        sum[r][h] = keep ? load8(out + static_cast<ptrdiff_t>(r) * out_stride + c + 8 * h) : float8{};
    }
    const float* y = b + c;
    for (int i = 0; i < k; ++i, y += b_stride) {
      const float8 y0 = load8(y), y1 = load8(y + 8);
      for (int r = 0; r < Rows; ++r) {
        const float8 x = a[static_cast<ptrdiff_t>(r) * a_stride + i] - float8{};
        sum[r][0] += x * y0;
        sum[r][1] += x * y1;
      }
    }
    for (int r = 0; r < Rows; ++r) {
      for (int h = 0; h < 2; ++h) store8(out + static_cast<ptrdiff_t>(r) * out_stride + c + 8 * h, sum[r][h]);
    }
  }
}
/// out (+)= a b for all rows of out; b has k rows of out.stride floats.
inline void tile_product(const chain_acc& out, const float* a, int a_stride, const float* b, int b_stride, int k,
                         bool keep) {
  constexpr int kRows = 6;  // with two vectors of columns this fills 16 registers
  int r = 0;
  for (; r + kRows <= out.rows; r += kRows)
    rows_product<kRows>(out.row(r), out.stride, a + static_cast<ptrdiff_t>(r) * a_stride, a_stride, b, b_stride,
                        out.stride, k, keep);
  for (; r + 2 <= out.rows; r += 2)
    rows_product<2>(out.row(r), out.stride, a + static_cast<ptrdiff_t>(r) * a_stride, a_stride, b, b_stride, out.stride,
                    k, keep);
  if (r < out.rows)
    rows_product<1>(out.row(r), out.stride, a + static_cast<ptrdiff_t>(r) * a_stride, a_stride, b, b_stride, out.stride,
                    k, keep);
}
/// out += weights c, where a weight of 0 takes nothing from its row, be that inf or NaN. The same sums in the same order.
inline void product_of_seen(const chain_acc& out, const chain_acc& weights, const float* c, int c_stride) {
  for (int r = 0; r < out.rows; ++r) {
    float* const to = out.row(r);
    for (int k = 0; k < weights.cols; ++k) {
      const float w = weights.row(r)[k];
      if (w == 0.0f) continue;
      const float* const y = c + static_cast<ptrdiff_t>(k) * c_stride;
      const float8 x = w - float8{};
      for (int i = 0; i < out.stride; i += 8) {
        float8 sum = load8(to + i);
        sum += x * load8(y + i);
        store8(to + i, sum);
      }
    }
  }
}

template <class Cfg, class Body>
MT_FN void chain_loop(Context& ctx, const Body& body) {
  const auto t = body.tile(ctx.program);
  if (!t.exists) return;
  const auto take = [&](int rows, int cols) {
    return static_cast<float*>(ctx.allocate(sizeof(float) * static_cast<size_t>(rows * cols)));
  };
  const auto whole = [](int n) { return (n + kChainStep - 1) / kChainStep * kChainStep; };
  const int rows = body.rows(t), da = whole(body.cols_a()), dc = whole(body.cols_c());
  chain_tile<false> a{take(Cfg::bm, da), rows, da};
  chain_tile<true> b{take(da, Cfg::bn), Cfg::bn, Cfg::bn};
  chain_tile<false> c{take(Cfg::bn, dc), Cfg::bn, dc};
  chain_acc s{take(Cfg::bm, Cfg::bn), rows, Cfg::bn, Cfg::bn}, o{take(Cfg::bm, dc), rows, dc, dc};
  // Columns that copies do not write multiply nothing, but must not be NaN.
  std::memset(b.data, 0, sizeof(float) * static_cast<size_t>(da * Cfg::bn));
  std::memset(c.data, 0, sizeof(float) * static_cast<size_t>(dc * Cfg::bn));
  chain_context<Cfg> cx;
  clear(cx, o);
  auto state = body.begin(cx, t);
  int j = body.after(t, body.blocks(t));
  if (j >= 0) body.load_a(cx, a, t);
  for (; j >= 0; j = body.after(t, j)) {
    body.load_b(cx, b, t, j);
    tile_product(s, a.data, a.stride, b.data, b.stride, (body.cols_a() + 7) / 8 * 8, false);
    const auto rescale = body.weigh(cx, state, s, t, j, body.hides(t, j));
    scale_rows(cx, o, rescale, [](auto x, float r) { return x * r; });
    body.load_c(cx, c, t, j);
    if (body.partial(t, j)) {
      product_of_seen(o, s, c.data, c.stride);
    } else {
      tile_product(o, s.data, s.stride, c.data, c.stride, Cfg::bn, true);
    }
  }
  body.finish(cx, state, o, t);
}

template <class K, class Params>
void launch_chain(Stream& stream, const Grid&, const Params& params) {
  launch<K>(stream, Grid{params.total}, params);
}

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME
