#pragma once
// The ring: every wave of a program copies its share of a stage ahead of use and multiplies a square of the tile.
// Serves mma.sync with cp.async (sm_80). The staged schedule is for machines whose copies go through registers (CDNA, MFMA). The emulated
// GPUs run them with the fragments, swizzles and waits of the chips.

#include <type_traits>

#include "monotile/lang/backend/cells.hpp"
#include "monotile/lang/backend/simt/tile.hpp"
#include "monotile/lang/converted.hpp"
#include "monotile/lang/fragment.hpp"
#include "monotile/lang/quant.hpp"

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

/// What products of operands of type T are added up in: exactly, where they are whole numbers.
template <class T>
using sum_of = std::conditional_t<std::is_same_v<T, int8_t>, int32_t, float>;

/// What multiplies operands of type T: matrix instructions, those of int8 or tf32, or lanes.
template <class T>
struct unit_for {
  using type = matrix_unit;
};
template <>
struct unit_for<int8_t> {
  using type = int8_unit;
};
template <>
struct unit_for<converted<float>> {
  using type = float_unit;
};
template <>
struct unit_for<converted<tf32_t>> {
  using type = tf32_unit;
};
template <class T>
using unit_of = typename unit_for<T>::type;
template <class T>
inline constexpr bool by_lanes = false;
template <>
inline constexpr bool by_lanes<converted<float>> = true;
/// 8-bit floats become fp16 on their way to the instructions.
template <class T>
inline constexpr bool as_halves = sizeof(T) == 1 && !std::is_same_v<T, int8_t>;

template <class Cfg, class T, class S = sum_of<T>>
struct ring_acc {
  using atom = typename unit_of<T>::atom;
  using sum = S;
  static constexpr int tall = kWaveTile / atom::m, wide = kWaveTile / atom::n;
  S d[tall][wide][atom::c_elements][kLanes];
};
/// Integer sums in fp32.
template <class Cfg, class T>
MT_FN void sums_to_float(ring_acc<Cfg, T, float>& to, const ring_acc<Cfg, T, int32_t>& from) {
  using Acc = ring_acc<Cfg, T, float>;
  MT_UNROLL
  for (int i = 0; i < Acc::tall; ++i) {
    MT_UNROLL
    for (int j = 0; j < Acc::wide; ++j) {
      MT_UNROLL
      for (int e = 0; e < Acc::atom::c_elements; ++e) {
        for (int l = 0; l < kLanes; ++l) to.d[i][j][e][l] = static_cast<float>(from.d[i][j][e][l]);
      }
    }
  }
}
template <class Cfg, class T>
ring_acc<Cfg, T, float> float_sums_of(const ring_acc<Cfg, T, int32_t>&);  // the type alone

/// f(values, row, column of the first) for the elements that each lane holds.
template <class Cfg, class T, class S, class F>
MT_FN void each_vector(ring_context<Cfg, T>& cx, ring_acc<Cfg, T, S>& acc, const tile_coord& t, F f) {
  using Acc = ring_acc<Cfg, T, S>;
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
          S v[kVector];
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

/// A tile all of whose cells exist, from `first` on: a lane has the same chunk of every n-th row, so one place and one addition a copy.
template <class Cfg, class T, class U, int R, int C, along A>
MT_FN void copy_whole(ring_context<Cfg, T>& cx, smem_tile<T, R, C, A>& to, const U* first, int64_t stride) {
  using Tile = smem_tile<T, R, C, A>;
  constexpr int kVector = 16 / static_cast<int>(sizeof(U)), kChunks = C / kVector, kRows = ring_context<Cfg, T>::threads / kChunks;
  constexpr int kSlot = A == along::m ? 0 : copy_queue::most / 2;  // where copies wait in registers, if they do
  static_assert(ring_context<Cfg, T>::threads % kChunks == 0 && R % kRows == 0 && kRows % 8 == 0, "swizzles repeat every eight rows");
  const U* from[kLanes];
  unsigned char* place[kLanes];
  for (int l = 0; l < kLanes; ++l) {
    const int thread = cx.program.thread(l), r = thread / kChunks, at = thread % kChunks;
    from[l] = first + r * stride + at * kVector;
    place[l] = to.data + Tile::offset(r, at);
  }
  MT_UNROLL
  for (int i = 0; i < R / kRows; ++i) {
    for (int l = 0; l < kLanes; ++l) {
      cx.copies.add(place[l] + i * kRows * Tile::row_bytes, from[l], 16, cx.lane(l), cx.program.thread(l) / kChunks + i * kRows, kSlot + i);
      from[l] += kRows * stride;
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
        const int r = number % R, at = number / R, c = col + at * kVector;  // neighbours read neighbours
        packed<T, kVector> v{};
        MT_UNROLL
        for (int e = 0; e < kVector; ++e) {
          if (row + r < from.rows && c + e < from.cols) v.v[e] = matrix[(c + e) * from.stride + row + r];
        }
        cx.copies.put(to.data + Tile::offset(r, at), __builtin_bit_cast(vector16, v), r, kSlot + i);
      }
    }
  } else if (from.vectors && row + R <= from.rows && col + C <= from.cols) {
    copy_whole(cx, to, matrix + row * from.stride + col, from.stride);
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

/// f(dtype as a constant): of a plain type, or of any that weights may have.
template <bool Blocks, class F>
MT_FN void with_source(DType dtype, F f) {
  if constexpr (Blocks) {
    if (dtype == DType::q4_0) return f(std::integral_constant<DType, DType::q4_0>{});
    if (dtype == DType::q5_0) return f(std::integral_constant<DType, DType::q5_0>{});
    if (dtype == DType::q8_0) return f(std::integral_constant<DType, DType::q8_0>{});
    if (dtype == DType::q4_k) return f(std::integral_constant<DType, DType::q4_k>{});
    if (dtype == DType::q6_k) return f(std::integral_constant<DType, DType::q6_k>{});
  }
  if (dtype == DType::f32) return f(std::integral_constant<DType, DType::f32>{});
  if (dtype == DType::f16) return f(std::integral_constant<DType, DType::f16>{});
  f(std::integral_constant<DType, DType::bf16>{});
}
template <DType D>
struct plain_type;
template <>
struct plain_type<DType::f32> {
  using type = float;
};
template <>
struct plain_type<DType::f16> {
  using type = half_t;
};
template <>
struct plain_type<DType::bf16> {
  using type = bfloat16_t;
};

/// Elements [first, first + 8) of a matrix as fp32, of which `exist` are there; of a block type all are.
template <DType D, bool Vectors>
MT_FN void load_eight(float (&out)[8], const void* data, int64_t first, int exist) {
  if constexpr (is_quantised(D)) {
    unpack8<D>(static_cast<const uint8_t*>(data), first, out);
  } else {
    using E = typename plain_type<D>::type;
    const E* const p = static_cast<const E*>(data) + first;
    if constexpr (Vectors) {
      constexpr int kPer = 16 / static_cast<int>(sizeof(E));
      MT_UNROLL
      for (int i = 0; i < 8; i += kPer) {
        const auto v = __builtin_bit_cast(packed<E, kPer>, load16(p + i));
        MT_UNROLL
        for (int e = 0; e < kPer; ++e) out[i + e] = promote(v.v[e]);
      }
    } else {
      MT_UNROLL
      for (int e = 0; e < 8; ++e) {
        if (e < exist) out[e] = promote(p[e]);
      }
    }
  }
}

/// Eight values as the words of a tile's elements.
template <class T>
MT_FN uint32_t element_word(const float* v, int word) {
  if constexpr (sizeof(T) == 4) {
    return __builtin_bit_cast(uint32_t, v[word]);
  } else {
    const T low = rounding<T>::apply(v[2 * word]), high = rounding<T>::apply(v[2 * word + 1]);
    return low.bits | static_cast<uint32_t>(high.bits) << 16;
  }
}

/// Rows and columns of a matrix of another type than the tile's: read, converted and put down, a few rounds of eight elements a lane at a time, so that
/// their loads are under way together.
template <DType D, bool Whole, class Cfg, class T, int R, int C, along A>
MT_FN void copy_converted(ring_context<Cfg, converted<T>>& cx, smem_tile<converted<T>, R, C, A>& to,
                          const matrix_view& from, int64_t matrix, int row, int col) {
  using Tile = smem_tile<converted<T>, R, C, A>;
  constexpr int kThreads = ring_context<Cfg, converted<T>>::threads, kEights = C / 8, kRounds = R * kEights / kThreads;
  constexpr int kChunks = static_cast<int>(sizeof(T)) / 2;  // of 16 bytes that eight elements become
  constexpr int kMost = sizeof(T) == 4 ? 2 : 4, kAtOnce = kRounds < kMost ? kRounds : kMost;  // as registers allow
  constexpr int kSlot = Tile::axis == along::m ? 0 : copy_queue::most / 2;
  static_assert(R * kEights % kThreads == 0 && kRounds % kAtOnce == 0, "every lane copies the same number of elements");
  const bool across = !is_quantised(D) && !Whole && from.transposed;
  MT_COPY_UNROLL
  for (int first = 0; first < kRounds; first += kAtOnce) {
    uint32_t words[kAtOnce][4 * kChunks][kLanes];
    MT_UNROLL
    for (int i = 0; i < kAtOnce; ++i) {
      for (int l = 0; l < kLanes; ++l) {
        const int number = cx.program.thread(l) + (first + i) * kThreads;
        const int r = across ? number % R : number / kEights, c = col + (across ? number / R : number % kEights) * 8;
        const int left = row + r < from.rows ? from.cols - c : 0, exist = Whole ? 8 : left < 0 ? 0 : left < 8 ? left : 8;
        float v[8] = {};
        if constexpr (!is_quantised(D)) {
          if (across) {
            const auto* const p = static_cast<const typename plain_type<D>::type*>(from.data) + matrix + row + r;
            MT_UNROLL
            for (int e = 0; e < 8; ++e) {
              if (e < exist) v[e] = promote(p[(c + e) * from.stride]);
            }
          } else {
            load_eight<D, Whole>(v, from.data, matrix + (row + r) * from.stride + c, exist);
          }
        } else {  // without a branch, which would keep the loads apart: what does not exist is read somewhere else
          const int there = row + r < from.rows ? row + r : from.rows - 1, within = c + 8 <= from.cols ? c : from.cols - 8;
          load_eight<D, Whole>(v, from.data, matrix + there * from.stride + within, exist);
        }
        MT_UNROLL
        for (int w = 0; w < 4 * kChunks; ++w)
          words[i][w][l] = is_quantised(D) && exist == 0 ? 0u : element_word<T>(v, w);
      }
    }
    MT_UNROLL
    for (int i = 0; i < kAtOnce; ++i) {
      MT_UNROLL
      for (int h = 0; h < kChunks; ++h) {
        for (int l = 0; l < kLanes; ++l) {
          const int number = cx.program.thread(l) + (first + i) * kThreads;
          const int r = across ? number % R : number / kEights, at = across ? number / R : number % kEights;
          vector16 v;
          MT_UNROLL
          for (int w = 0; w < 4; ++w) v.word[w] = words[i][4 * h + w][l];
          cx.copies.put(to.data + Tile::offset(r, at * kChunks + h), v, r, kSlot + (first + i) * kChunks + h);
        }
      }
    }
  }
}

/// The same of any dtype, converted. What is of the tile's type already is only moved.
template <class Cfg, class T, int R, int C, along A>
MT_FN void copy_async(ring_context<Cfg, converted<T>>& cx, smem_tile<converted<T>, R, C, A>& to, const matrix_view& from,
                      int batch, int row, int col) {
  const int64_t matrix = batch * from.batch_stride;
  with_source<A == along::n>(from.dtype, [&](auto dtype) {
    constexpr DType D = decltype(dtype)::value;
    const bool whole = !from.transposed && from.vectors && row + R <= from.rows && col + C <= from.cols;
    if constexpr (D == dtype_of<T>) {
      if (whole) return copy_whole(cx, to, static_cast<const T*>(from.data) + matrix + row * from.stride + col, from.stride);
      copy_converted<D, false>(cx, to, from, matrix, row, col);
    } else if constexpr (is_quantised(D)) {
      copy_converted<D, false>(cx, to, from, matrix, row, col);
    } else if (whole) {
      copy_converted<D, true>(cx, to, from, matrix, row, col);
    } else {
      copy_converted<D, false>(cx, to, from, matrix, row, col);
    }
  });
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
  requires(as_halves<T>)
MT_FN void mma(ring_context<Cfg, T>& cx, ring_acc<Cfg, T>& acc, const smem_tile<T, M, K, A1>& a,
               const smem_tile<T, N, K, A2>& b) {
  using Unit = matrix_unit;
  using Acc = ring_acc<Cfg, T>;
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

/// acc += a b^T of fp32, four elements along k at a time.
template <class Cfg, class T, int M, int N, int K, along A1, along A2>
  requires(by_lanes<T>)
MT_FN void mma(ring_context<Cfg, T>& cx, ring_acc<Cfg, T>& acc, const smem_tile<T, M, K, A1>& a,
               const smem_tile<T, N, K, A2>& b) {
  using Unit = unit_of<T>;
  using Acc = ring_acc<Cfg, T>;
  MT_NO_UNROLL
  for (int chunk = 0; chunk < K / Unit::atom::k; ++chunk) {
    float x[Acc::tall][4][kLanes];
    MT_UNROLL
    for (int i = 0; i < Acc::tall; ++i) Unit::load(cx, x[i], a, cx.first_m + i * Unit::atom::m, chunk);
    MT_UNROLL
    for (int j = 0; j < Acc::wide; ++j) {
      MT_UNROLL
      for (int c = 0; c < Unit::atom::c_elements; ++c) {
        float y[4][kLanes];
        Unit::load(cx, y, b, cx.first_n + j * Unit::atom::n, chunk, c);
        MT_UNROLL
        for (int e = 0; e < 4; ++e) {
          MT_UNROLL
          for (int i = 0; i < Acc::tall; ++i) {
            for (int l = 0; l < kLanes; ++l) acc.d[i][j][c][l] = fma_of(x[i][e][l], y[e][l], acc.d[i][j][c][l]);
          }
        }
      }
    }
  }
}

/// acc += a b^T. The fragments of the next step along k are read while the products of this one run. `meanwhile` is called when the first products have begun.
template <class Cfg, class T, int M, int N, int K, along A1, along A2, class Meanwhile>
  requires(!as_halves<T> && !by_lanes<T>)
MT_FN void multiply_stage(ring_context<Cfg, T>& cx, ring_acc<Cfg, T>& acc, const smem_tile<T, M, K, A1>& a, const smem_tile<T, N, K, A2>& b,
                          Meanwhile meanwhile) {
  using Unit = unit_of<T>;
  using Acc = ring_acc<Cfg, T>;
  constexpr int kSteps = K / Unit::atom::k, kAtOnce = Unit::b_at_once;
  constexpr int kStride = Unit::atom::k * static_cast<int>(sizeof(T)) / 2;  // of a step, counted in 16 bits as fragments are
  uint32_t x[2][Acc::tall][Unit::a_words][kLanes], y[2][Acc::wide / kAtOnce][kAtOnce][Unit::b_words][kLanes];
  const auto read = [&](int step) {
    MT_UNROLL
    for (int i = 0; i < Acc::tall; ++i)
      Unit::load_a(cx, x[step % 2][i], a, cx.first_m + i * Unit::atom::m, step * kStride);
    MT_UNROLL
    for (int j = 0; j < Acc::wide / kAtOnce; ++j)
      Unit::load_b(cx, y[step % 2][j], b, cx.first_n + j * kAtOnce * Unit::atom::n, step * kStride);
  };
  read(0);
  MT_UNROLL
  for (int step = 0; step < kSteps; ++step) {
    if (step + 1 < kSteps) read(step + 1);
    MT_UNROLL
    for (int i = 0; i < Acc::tall; ++i) {
      MT_UNROLL
      for (int j = 0; j < Acc::wide; ++j) {
        Unit::template multiply<typename conversion_of<T>::element>(acc.d[i][j], x[step % 2][i], y[step % 2][j / kAtOnce][j % kAtOnce]);
      }
    }
    if (step == 0) meanwhile();
  }
}
template <class Cfg, class T, int M, int N, int K, along A1, along A2>
  requires(!as_halves<T> && !by_lanes<T>)
MT_FN void mma(ring_context<Cfg, T>& cx, ring_acc<Cfg, T>& acc, const smem_tile<T, M, K, A1>& a, const smem_tile<T, N, K, A2>& b) {
  multiply_stage(cx, acc, a, b, [] {});
}

/// The ring while it has something else to queue.
template <class Cfg, class T, class Meanwhile>
struct busy_ring {
  ring_context<Cfg, T>& cx;
  Meanwhile meanwhile;
};
template <class Cfg, class T, class Meanwhile, class Acc, class A, class B>
MT_FN void mma(busy_ring<Cfg, T, Meanwhile>& busy, Acc& acc, const A& a, const B& b) {
  if constexpr (as_halves<T> || by_lanes<T>) {
    busy.meanwhile();
    mma(busy.cx, acc, a, b);
  } else {
    multiply_stage(busy.cx, acc, a, b, busy.meanwhile);
  }
}

template <class Cfg, class T>
MT_FN void store(ring_context<Cfg, T>& cx, const matrix_view& c, const tile_coord& t, ring_acc<Cfg, T, float>& acc) {
  store_from_registers(cx, c, t, acc);
}

/// This wave's place in the program.
template <class Cfg, class Stage>
MT_FN auto ring_context_of(Context& ctx, const tile_space& space) {
  const int wave = ctx.thread(0) / kWave, wide = Cfg::bn / kWaveTile;
  return ring_context<Cfg, typename decltype(Stage::a)::element>{
      ctx, space, {}, wave / wide * kWaveTile, wave % wide * kWaveTile};
}
template <class Cfg, class Stage>
using ring_acc_for = ring_acc<Cfg, typename decltype(Stage::a)::element>;
template <class Cfg, class T>
MT_FN void clear(ring_context<Cfg, T>& cx, ring_acc<Cfg, T>& acc, const tile_coord& t) {
  each_vector(cx, acc, t, [](auto& v, int, int) {
    MT_UNROLL
    for (auto& x : v) x = 0;
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
  ring_acc_for<Cfg, Stage> acc;
  clear(cx, acc, t);
  if constexpr (conversion_of<typename decltype(Stage::a)::element>::wanted) {  // the same with one place for the copies, which are much code
    int read = 0, write = 0;
    MT_NO_UNROLL
    for (int k = 1 - Cfg::stages; k < space.k; ++k) {
      if (k >= 0) {
        cx.copies.template wait<Cfg::stages - 2>();
        ctx.barrier();
      }
      if (k + Cfg::stages - 1 < space.k) load(cx, stage[write], t, k + Cfg::stages - 1);
      cx.copies.close_group();
      if (++write == Cfg::stages) write = 0;
      if (k < 0) continue;
      compute(cx, acc, stage[read]);
      if (++read == Cfg::stages) read = 0;
    }
  } else {
    MT_UNROLL
    for (int s = 0; s < Cfg::stages - 1; ++s) {
      if (s < space.k) load(cx, stage[s], t, s);
      cx.copies.close_group();
    }
    int read = 0, write = Cfg::stages - 1;
    for (int k = 0; k < space.k; ++k) {
      cx.copies.template wait<Cfg::stages - 2>();
      ctx.barrier();  // this stage is there for all waves, and all have left the one that is filled next
      const auto fill = [&] {  // after the first products, which need not wait until addresses are found
        if (k + Cfg::stages - 1 < space.k) load(cx, stage[write], t, k + Cfg::stages - 1);
        cx.copies.close_group();
      };
      busy_ring<Cfg, typename decltype(Stage::a)::element, decltype(fill)> busy{cx, fill};
      compute(busy, acc, stage[read]);
      if (++read == Cfg::stages) read = 0;
      if (++write == Cfg::stages) write = 0;
    }
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
  ring_acc_for<Cfg, Stage> acc;
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
