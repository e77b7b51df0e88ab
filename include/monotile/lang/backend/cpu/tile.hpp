#pragma once
// The words of the language on CPU: a program is one thread with one row, and a tile is a lazy expression over packs of fp32. `eval` puts
// it into scratch. Lambdas see packs where they see floats elsewhere.

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "monotile/lang/backend/cpu/simd.hpp"
#include "monotile/lang/backend/cpu/unpack.hpp"
#include "monotile/lang/layout.hpp"
#include "monotile/lang/quant.hpp"
#include "monotile/lang/view.hpp"

namespace monotile::lang::inline MONOTILE_TARGET_NAME {

inline constexpr int kPack = 32;  // columns per step: four vectors in flight hide the latency of one

// Results of a launch from this size on are written past the caches: a line is not read before it is overwritten. From 32 MB on this paid even where the
// result was read again at once (Xeon of the Sapphire Rapids kind, 2026-11-30: 7.4 ms for writing and reading against 8.6; 16 MB: 3.2 against 2.5).
inline constexpr int64_t kPastCaches = int64_t{32} << 20;

/// A row that the next program will read.
struct upcoming {
  const unsigned char* next;
  int64_t bytes;
};
inline constexpr int kMostAhead = 4;

/// The same row for all programs, turned into fp32 once for those that a thread takes one after the other.
struct kept_row {
  const void* from = nullptr;
  DType dtype = DType::none;
  int64_t cols = 0;
  std::vector<float> values;
};
struct kept_rows {
  kept_row row[4];
  int oldest = 0;

  void forget() {
    for (kept_row& r : row) r.from = nullptr;
  }
};

struct Context {
  int64_t program;
  int64_t programs;
  int thread_index;
  unsigned char *free_begin, *free_end;  // memory of the program, in steps of 64 bytes
  void* (*more)(size_t bytes);           // where it does not suffice
  unsigned char* scratch;                // grid.scratch_bytes
  kept_rows* kept;
  int passes = 1;  // over a row, that the last program made: each asks for its share of the next rows
  int pass = 0;
  int rows_ahead = 0;
  bool told = false;  // which rows come next: loads need not guess
  upcoming ahead[kMostAhead];
  const void* read[4] = {};  // the last rows that were read and may be written again
  uint32_t reads = 0;
  bool streamed = false;     // something was written past the caches

  MT_FN void note_read(const void* row) { read[reads++ & 3] = row; }

  /// What the last one left behind tells how many passes there will be.
  MT_FN void next_program(int64_t number, unsigned char* begin, unsigned char* end) {
    program = number;
    free_begin = begin;
    free_end = end;
    if (pass > 0) passes = pass;
    pass = rows_ahead = 0;
    told = false;
  }
  /// Lives until the program ends.
  MT_FN void* allocate(size_t bytes) {
    bytes = (bytes + 63) & ~size_t{63};
    if (bytes > static_cast<size_t>(free_end - free_begin)) return more(bytes);
    return std::exchange(free_begin, free_begin + bytes);
  }
  template <class T>
  MT_FN T* take(int64_t count) {
    return static_cast<T*>(allocate(static_cast<size_t>(count + kPack) * sizeof(T)));
  }
};

template <class L>
struct place {
  using layout = L;
  int64_t row;
  int64_t cols;
  bool live;
  int64_t rows = 0;  // of this launch, where the row is a program's own
};

template <class L>
MT_FN place<L> rows_of(const Context& ctx, int64_t rows, int64_t cols, int64_t first_program = 0) {
  return {ctx.program - first_program, cols, true, rows};
}
template <class L>
MT_FN place<L> chunks_of(const Context& ctx, int64_t rows, int64_t cols, int64_t, int64_t first_program = 0) {
  return {ctx.program - first_program, cols, true, rows};
}
template <class L>
MT_FN place<L> at_rows(const place<L>& at, int64_t row) { return {row < 0 ? 0 : row, at.cols, row >= 0}; }
/// No row at all unless `there`: loads give what they fill with, stores do nothing.
template <class L>
MT_FN place<L> only_if(const place<L>& at, bool there) { return {at.row, at.cols, at.live && there}; }
template <class L>
MT_FN place<L> with_cols(const place<L>& at, int64_t cols) { return {at.row, cols, at.live, at.rows}; }
template <class L>
MT_FN place<L> local_rows(const Context&, int64_t cols) { return {0, cols, true}; }
template <class L>
MT_FN int64_t tile_rows(const Context&, const place<L>&) { return 1; }
template <class L>
MT_FN place<L> first_row_only(const place<L>& at) { return {0, at.cols, at.live && at.row == 0}; }
template <class L>
MT_FN int64_t row_index(const place<L>& at) { return at.row; }

enum class cache { normal, stream, read_only };

template <class T>
struct bare {
  using type = T;
};
template <class T>
struct bare<const T> {
  using type = T;
};

struct expression {};  // base of all lazy tiles
template <class X>
inline constexpr bool is_expression = std::is_base_of_v<expression, X>;

template <class T>
struct memory_tile : expression {
  const T* p;
  float fill;
  MT_FN memory_tile(const T* from, float f) : p(from), fill(f) {}
  template <int N>
  MT_FN pack<N> at(int64_t c) const { return p == nullptr ? pack<N>(fill) : load_pack<N>(p + c); }
  template <int N>
  MT_FN pack<N> tail(int64_t c, int count) const { return p == nullptr ? pack<N>(fill) : load_pack_tail<N>(p + c, count, fill); }
};

/// Whether rows of `bytes` for each program are so much data that none of it stays in a cache.
MT_FN bool past_caches(const Context& ctx, int64_t bytes) { return ctx.programs * bytes >= kPastCaches; }

inline constexpr int64_t kShortRow = 2048;  // bytes: as a whole, and well before it is wanted

/// Asks for what lies a page behind a short row: rows of heads and groups follow each other in memory.
MT_FN void ask_beyond([[maybe_unused]] const unsigned char* row, [[maybe_unused]] int64_t bytes) {
#if defined(__AVX2__)
  for (int64_t at = 0; at < bytes; at += 64) _mm_prefetch(reinterpret_cast<const char*>(row + 4096 + at), _MM_HINT_T0);
#endif
}

template <cache Use = cache::normal, class T, class L>
MT_FN memory_tile<typename bare<T>::type> load(Context& ctx, const view<T>& from, const place<L>& at,
                                               typename bare<T>::type fill = {}) {
  const T* const row = at.live ? from.row(at.row) : nullptr;
  constexpr int64_t kLong = 65536, kSize = sizeof(T);
  if constexpr (Use == cache::normal) {
    // Rows by index may lie anywhere, but they are not that long.
    if (row != nullptr && at.cols * kSize >= kLong && !ctx.told && ctx.rows_ahead < 2 && past_caches(ctx, at.cols * kSize))
      ctx.ahead[ctx.rows_ahead++] = {reinterpret_cast<const unsigned char*>(from.row(at.row + 1)), at.cols * kSize};
    if (at.cols * kSize < kShortRow) ctx.note_read(row);
  } else if constexpr (Use == cache::stream) {
    if (row != nullptr && past_caches(ctx, at.cols * kSize)) {
      ctx.note_read(row);
      if (at.cols * kSize < kShortRow) {
        ask_beyond(reinterpret_cast<const unsigned char*>(row), at.cols * kSize);
      } else if (!ctx.told && ctx.rows_ahead < 2) {
        ctx.ahead[ctx.rows_ahead++] = {reinterpret_cast<const unsigned char*>(from.row(at.row + 1)), at.cols * kSize};
      }
    }
  }
  return {row, promote(fill)};
}

struct any_tile : expression {
  any_vector v;
  MT_FN explicit any_tile(const any_vector& from) : v(from) {}
  template <int N>
  MT_FN pack<N> at(int64_t c) const {
    if (v.dtype == DType::f32) return load_pack<N>(static_cast<const float*>(v.data) + c);
    if (v.dtype == DType::bf16) return load_pack<N>(static_cast<const bfloat16_t*>(v.data) + c);
    return load_pack<N>(static_cast<const half_t*>(v.data) + c);
  }
  template <int N>
  MT_FN pack<N> tail(int64_t c, int count) const {
    if (v.dtype == DType::f32) return load_pack_tail<N>(static_cast<const float*>(v.data) + c, count, 0.0f);
    if (v.dtype == DType::bf16) return load_pack_tail<N>(static_cast<const bfloat16_t*>(v.data) + c, count, 0.0f);
    return load_pack_tail<N>(static_cast<const half_t*>(v.data) + c, count, 0.0f);
  }
};
/// Rows whose dtype is known at run time only, as fp32: one-byte codes, or plain values.
template <class... T>
struct typed_tile : expression {
  const void* p;
  DType dtype;
  float absent;
  MT_FN typed_tile(const void* from, DType type, float fill = 0.0f) : p(from), dtype(type), absent(fill) {}
  template <int N>
  MT_FN pack<N> at(int64_t c) const {
    pack<N> r(absent);
    if (p != nullptr) (void)((dtype == dtype_of<T> && (r = load_pack<N>(static_cast<const T*>(p) + c), true)) || ...);
    return r;
  }
  template <int N>
  MT_FN pack<N> tail(int64_t c, int count) const {
    pack<N> r(absent);
    if (p != nullptr) (void)((dtype == dtype_of<T> && (r = load_pack_tail<N>(static_cast<const T*>(p) + c, count, 0.0f), true)) || ...);
    return r;
  }
};
template <class L>
MT_FN auto load_codes(Context&, const any_view& from, const place<L>& at) {
  return typed_tile<e4m3_t, e5m2_t, int8_t>(at.live ? from.as<const uint8_t>().row(at.row) : nullptr, from.dtype);
}
struct nibble_tile : expression {
  const uint8_t* p;
  MT_FN explicit nibble_tile(const uint8_t* from) : p(from) {}
  template <int N>
  MT_FN pack<N> at(int64_t c) const { return tail<N>(c, N); }
  template <int N>
  MT_FN pack<N> tail(int64_t c, int count) const {
    pack<N> r(0.0f);
    for (int i = 0; i < count && p != nullptr; ++i) r.part[i / 8][i % 8] = static_cast<float>(p[(c + i) / 2] >> (4 * (i % 2)) & 15);
    return r;
  }
};
/// Columns in pairs to a byte, the even one low: whole numbers from 0 to 15.
template <class L>
MT_FN nibble_tile load_nibbles(Context&, const view<const uint8_t>& from, const place<L>& at) {
  return nibble_tile(at.live ? from.row(at.row) : nullptr);
}

template <class L>
MT_FN any_tile load_bcast(Context&, const any_vector& from, const place<L>&) { return any_tile(from); }
/// A vector over columns that is wanted later: here it is read when it is.
template <class L>
MT_FN any_vector load_ahead(Context&, const any_vector& from, const place<L>&) { return from; }
template <class L>
MT_FN any_tile arrived(Context& ctx, const any_vector& from, const place<L>& at) { return load_bcast(ctx, from, at); }

/// The same of rows of codes.
template <class L>
MT_FN any_view load_ahead(Context&, const any_view& from, const place<L>&) { return from; }
template <class L>
MT_FN auto arrived(Context& ctx, const any_view& from, const place<L>& at) { return load_codes(ctx, from, at); }

/// The same of a dtype known to the kernel.
template <class T, class L>
MT_FN view<const T> load_ahead(Context&, const view<const T>& from, const place<L>&, T = {}) {
  return from;
}
template <class T, class L>
MT_FN memory_tile<T> arrived(Context& ctx, const view<const T>& from, const place<L>& at, T fill = {}) {
  return load<cache::read_only>(ctx, from, at, fill);
}

template <DType Q>
struct block_tile : expression {
  const uint8_t* row;
  MT_FN explicit block_tile(const uint8_t* from) : row(from) {}
  template <int N>
  MT_FN pack<N> at(int64_t c) const {
    pack<N> r(0.0f);
    if (row == nullptr) return r;
    if constexpr (N == 32) {
      if (c % 32 == 0) {  // a block, or a part of one with one scale
        constexpr DTypeInfo kInfo = dtype_info(Q);
        unpacker<Q>::values(row + c / kInfo.block_elements * kInfo.block_bytes,
                            static_cast<int>(c % kInfo.block_elements / 32), r.part);
        return r;
      }
    }
    for (int i = 0; i < N / 8; ++i) {
      float out[8];
      unpack8<Q>(row, c + 8 * i, out);
      std::memcpy(&r.part[i], out, 32);
    }
    return r;
  }
  template <int N>
  MT_FN pack<N> tail(int64_t, int) const { return pack<N>(0.0f); }  // never needed: columns are whole blocks
};
template <DType Q, class L>
MT_FN block_tile<Q> load(Context&, const quant_view<Q>& from, const place<L>& at) {
  return block_tile<Q>(at.live ? from.row(at.row) : nullptr);
}

template <class T>
struct dup_tile : expression {
  const T* p;
  MT_FN explicit dup_tile(const T* from) : p(from) {}
  template <int N>
  MT_FN pack<N> at(int64_t c) const {
    if (p == nullptr) return pack<N>(0.0f);
    pack<N> r;
    for (int i = 0; i < N / 8; ++i) {
      typedef T four __attribute__((vector_size(4 * sizeof(T))));
      four v;
      std::memcpy(&v, p + c / 2 + 4 * i, sizeof v);
      r.part[i] = __builtin_shufflevector(v, v, 0, 0, 1, 1, 2, 2, 3, 3);
    }
    return r;
  }
  template <int N>
  MT_FN pack<N> tail(int64_t c, int count) const {
    pack<N> r(0.0f);
    for (int i = 0; i < count && p != nullptr; ++i) r.part[i / 8][i % 8] = p[(c + i) / 2];
    return r;
  }
};
template <class T, class L>
MT_FN dup_tile<typename bare<T>::type> load_dup(Context&, const view<T>& from, const place<L>& at) {
  return dup_tile<typename bare<T>::type>(at.live ? from.row(at.row) : nullptr);
}

template <class L>
MT_FN int64_t load_index(Context&, const any_index& from, const place<L>& at) { return at.live ? from.at(at.row) : -1; }

template <class T, class L>
MT_FN typename bare<T>::type load_row_value(Context&, T* from, const place<L>& at) {
  return at.live ? from[at.row] : typename bare<T>::type{};
}
template <class T, class U, class L>
MT_FN void store_row_value(Context&, T* to, const place<L>& at, const U& v) {
  if (at.live) to[at.row] = static_cast<T>(v);
}

/// The same at the start of each row of a view: scales and other values with strides of their own.
template <class T, class L>
MT_FN typename bare<T>::type load_row_value(Context&, const view<T>& from, const place<L>& at) {
  return at.live ? *from.row(at.row) : typename bare<T>::type{};
}
template <class T, class U, class L>
MT_FN void store_row_value(Context&, const view<T>& to, const place<L>& at, const U& v) {
  if (at.live) *to.row(at.row) = static_cast<T>(v);
}

// --- elementwise -------------------------------------------------------------------------------------------------------------------
template <int N, class X>
MT_FN auto cell(const X& x, int64_t c) {
  if constexpr (is_expression<X>) {
    return x.template at<N>(c);
  } else if constexpr (std::is_same_v<X, float>) {
    return pack<N>(x);
  } else {
    return promote(x);
  }
}
template <int N, class X>
MT_FN auto cell_tail(const X& x, int64_t c, int count) {
  if constexpr (is_expression<X>) {
    return x.template tail<N>(c, count);
  } else {
    return cell<N>(x, c);
  }
}

template <class F, class... X>
struct map_tile : expression {
  F f;
  std::tuple<X...> x;
  MT_FN map_tile(F fn, const X&... from) : f(fn), x(from...) {}
  template <int N>
  MT_FN auto at(int64_t c) const {
    return std::apply([&](const X&... e) { return f(cell<N>(e, c)...); }, x);
  }
  template <int N>
  MT_FN auto tail(int64_t c, int count) const {
    return std::apply([&](const X&... e) { return f(cell_tail<N>(e, c, count)...); }, x);
  }
};
template <class F, class... X>
struct map_at_tile : expression {
  F f;
  std::tuple<X...> x;
  MT_FN map_at_tile(F fn, const X&... from) : f(fn), x(from...) {}
  template <int N>
  MT_FN auto at(int64_t c) const {
    return std::apply([&](const X&... e) { return f(iota_pack<N>(static_cast<int32_t>(c)), cell<N>(e, c)...); }, x);
  }
  template <int N>
  MT_FN auto tail(int64_t c, int count) const {
    return std::apply([&](const X&... e) { return f(iota_pack<N>(static_cast<int32_t>(c)), cell_tail<N>(e, c, count)...); }, x);
  }
};

template <class F, class... X>
MT_FN auto map(F f, const X&... x) {
  if constexpr ((is_expression<X> || ...)) {
    return map_tile<F, X...>(f, x...);
  } else {
    return f(promote(x)...);
  }
}
template <class L, class F, class... X>
MT_FN auto map_at(const place<L>&, F f, const X&... x) { return map_at_tile<F, X...>(f, x...); }

template <class T, class X>
struct rounded_tile : expression {
  using stored = T;
  X x;
  MT_FN explicit rounded_tile(const X& from) : x(from) {}
  template <int N>
  MT_FN pack<N> at(int64_t c) const {
    T out[N];
    store_pack(out, x.template at<N>(c));
    return load_pack<N>(out);
  }
  template <int N>
  MT_FN pack<N> tail(int64_t c, int count) const {
    T out[N];
    store_pack(out, x.template tail<N>(c, count));
    return load_pack<N>(out);
  }
};
template <class T, class X>
MT_FN rounded_tile<T, X> round_to(const X& x) { return rounded_tile<T, X>(x); }

template <class X>
struct swapped_tile : expression {
  X x;
  MT_FN explicit swapped_tile(const X& from) : x(from) {}
  template <int N>
  static MT_FN pack<N> swapped(const pack<N>& v) {
    pack<N> r;
    for (int i = 0; i < N / 8; ++i) r.part[i] = __builtin_shufflevector(v.part[i], v.part[i], 1, 0, 3, 2, 5, 4, 7, 6);
    return r;
  }
  template <int N>
  MT_FN pack<N> at(int64_t c) const { return swapped(x.template at<N>(c)); }
  template <int N>
  MT_FN pack<N> tail(int64_t c, int count) const { return swapped(x.template tail<N>(c, count)); }
};
template <class X>
MT_FN swapped_tile<X> swap_pairs(Context&, const X& x) { return swapped_tile<X>(x); }

template <class A, class B>
struct picked_tile : expression {
  A even;
  B odd;
  MT_FN picked_tile(const A& a, const B& b) : even(a), odd(b) {}
  template <int N>
  static MT_FN pack<N> picked(const pack<N>& a, const pack<N>& b) {
    pack<N> r;
    for (int i = 0; i < N / 8; ++i) r.part[i] = __builtin_shufflevector(a.part[i], b.part[i], 0, 9, 2, 11, 4, 13, 6, 15);
    return r;
  }
  template <int N>
  MT_FN pack<N> at(int64_t c) const { return picked(even.template at<N>(c), odd.template at<N>(c)); }
  template <int N>
  MT_FN pack<N> tail(int64_t c, int count) const { return picked(even.template tail<N>(c, count), odd.template tail<N>(c, count)); }
};
template <class A, class B>
MT_FN picked_tile<A, B> pick_pairs(Context&, const A& even, const B& odd) { return picked_tile<A, B>(even, odd); }

template <class T>
MT_FN T uniform(const T& v) { return v; }
MT_FN sums make_sums(float first, float second) { return {first, second}; }

// --- running an expression over the columns ----------------------------------------------------------------------------------------
/// Columns [c, end) to `p`.
template <class T, class X>
MT_FN void write_part(T* p, int64_t c, int64_t end, const X& x) {
  for (; c + kPack <= end; c += kPack, p += kPack) store_pack(p, x.template at<kPack>(c));
#pragma GCC unroll 1
  for (; c + 8 <= end; c += 8, p += 8) store_pack(p, x.template at<8>(c));
  if (c < end) store_pack_tail(p, x.template tail<8>(c, static_cast<int>(end - c)), static_cast<int>(end - c));
}
template <class T, class X>
MT_FN void write_columns(T* p, int64_t cols, const X& x) {
  write_part(p, 0, cols, x);
}

#if defined(__AVX2__)
/// Asks for the share of the next rows that belongs to columns [c, end) of this pass: a piece of each quarter, since memory is faster when several pages are
/// read side by side.
MT_FN void ask_ahead(const Context& ctx, int64_t c, int64_t end,
                     int64_t cols) {  // inline: g++ drops calls of functions that only prefetch
  constexpr int64_t kLine = 64;
  if (ctx.pass >= ctx.passes || ctx.rows_ahead == 0) return;
  const double column = 0.25 / (static_cast<double>(ctx.passes) * static_cast<double>(cols));
  const double begin = static_cast<double>(ctx.pass * cols + c) * column, stop = static_cast<double>(ctx.pass * cols + end) * column;
  for (int i = 0; i < ctx.rows_ahead; ++i) {
    const int64_t quarter = ctx.ahead[i].bytes / 4;
    const double bytes = static_cast<double>(ctx.ahead[i].bytes);
    const int64_t first = static_cast<int64_t>(begin * bytes), last = static_cast<int64_t>(stop * bytes);
    const unsigned char* p = ctx.ahead[i].next;
    for (int q = 0; q < 4; ++q, p += quarter) {
      for (int64_t at = first; at < last; at += kLine) _mm_prefetch(reinterpret_cast<const char*>(p + at), _MM_HINT_T0);
    }
  }
}
/// Writes past the caches. Lines of which only a part is written go the usual way.
MT_FN void stream_bytes(unsigned char* to, const unsigned char* from, int64_t bytes) {
  constexpr int64_t kLine = 64;
  int64_t at = std::min<int64_t>(bytes, -reinterpret_cast<intptr_t>(to) & (kLine - 1));
  if (at > 0) std::memcpy(to, from, static_cast<size_t>(at));
  for (; at + kLine <= bytes; at += kLine) {
    const __m256i low = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + at));
    const __m256i high = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + at + 32));
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to + at), low);
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to + at + 32), high);
  }
  if (at < bytes) std::memcpy(to + at, from + at, static_cast<size_t>(bytes - at));
}
inline __attribute__((noinline)) void stream_block(Context& ctx, void* to, const void* from, int64_t bytes, int64_t c,
                                                   int64_t end, int64_t cols) {
  ask_ahead(ctx, c, end, cols);
  stream_bytes(static_cast<unsigned char*>(to), static_cast<const unsigned char*>(from), bytes);
  ctx.streamed = true;
}
/// For passes that write nothing.
inline __attribute__((noinline)) void ask_block(const Context& ctx, int64_t c, int64_t end, int64_t cols) {
  ask_ahead(ctx, c, end, cols);
  asm volatile("");  // an effect, or the call would be dropped
}
MT_FN void stream_short(Context& ctx, unsigned char* to, const unsigned char* from, int64_t bytes) {
  stream_bytes(to, from, bytes);
  ctx.streamed = true;
}
/// A row, by pieces of its quarters.
inline __attribute__((noinline)) void stream_row(Context& ctx, unsigned char* to, const unsigned char* from,
                                                 int64_t bytes, int64_t element) {
  constexpr int64_t kLine = 64, kPiece = 256;
  const int64_t head = std::min<int64_t>(bytes, -reinterpret_cast<intptr_t>(to) & (kLine - 1));
  if (head > 0) stream_bytes(to, from, head);
  const int64_t quarter = (bytes - head) / 4 / kLine * kLine;
  for (int64_t at = 0; at < quarter; at += kPiece) {
    const int64_t size = std::min(kPiece, quarter - at);
    ask_ahead(ctx, (head + 4 * at) / element, (head + 4 * (at + size)) / element, bytes / element);
    for (int64_t q = 0, place = head + at; q < 4; ++q, place += quarter) stream_bytes(to + place, from + place, size);
  }
  if (head + 4 * quarter < bytes)
    stream_bytes(to + head + 4 * quarter, from + head + 4 * quarter, bytes - head - 4 * quarter);
  ctx.streamed = true;
}
#else
inline void ask_block(const Context&, int64_t, int64_t, int64_t) {}
inline void stream_block(Context&, void* to, const void* from, int64_t bytes, int64_t, int64_t, int64_t) {
  std::memcpy(to, from, static_cast<size_t>(bytes));
}
inline void stream_row(Context&, unsigned char* to, const unsigned char* from, int64_t bytes, int64_t) {
  std::memmove(to, from, static_cast<size_t>(bytes));
}
inline void stream_short(Context&, unsigned char* to, const unsigned char* from, int64_t bytes) {
  std::memmove(to, from, static_cast<size_t>(bytes));
}
#endif
/// Whether a row of a result is written past the caches. One that goes where it was read from is in the cache already.
MT_FN bool goes_past(const Context& ctx, const void* to, int64_t bytes) {
  bool past = past_caches(ctx, bytes);
  for (const void* read : ctx.read) past = past && read != to;
  return past;
}
/// Columns to a row of a result, or of scratch. Past the caches it takes the way over a block that stays in the first one, so that there is one loop for both.
template <bool Result, class T, class X>
MT_FN void write_row(Context& ctx, T* p, int64_t cols, const X& x) {
  constexpr int64_t kBlock = 1024 / sizeof(T);
  alignas(64) T block[kBlock];
  const bool past = Result && goes_past(ctx, p, cols * static_cast<int64_t>(sizeof(T))),
             blocks = past || ctx.rows_ahead > 0;
  const int64_t step = blocks ? kBlock : cols;
#pragma GCC unroll 1
  for (int64_t c = 0; c < cols; c += step) {
    const int64_t end = std::min(c + step, cols);
    write_part(past ? block : p + c, c, end, x);
    if (blocks) stream_block(ctx, p + c, block, past ? (end - c) * static_cast<int64_t>(sizeof(T)) : 0, c, end, cols);
  }
  ctx.pass += blocks;
}
/// Elements that are stored as they were loaded.
inline __attribute__((noinline)) void copy_row(Context& ctx, void* to, const void* from, int64_t bytes,
                                               int64_t element) {
  if (bytes < kShortRow) {
    if (goes_past(ctx, to, bytes)) {
      stream_short(ctx, static_cast<unsigned char*>(to), static_cast<const unsigned char*>(from), bytes);
    } else {
      std::memmove(to, from, static_cast<size_t>(bytes));
    }
  } else if (goes_past(ctx, to, bytes)) {
    stream_row(ctx, static_cast<unsigned char*>(to), static_cast<const unsigned char*>(from), bytes, element);
    ++ctx.pass;
  } else {
    std::memmove(to, from, static_cast<size_t>(bytes));
  }
}

template <cache = cache::normal, class T, class L, class X>
MT_FN void store(Context& ctx, const view<T>& to, const place<L>& at, const X& x) {
  if (!at.live) return;
  T* const p = to.row(at.row);
  if constexpr (std::is_base_of_v<memory_tile<T>, X>) {
    if (x.p != nullptr) return copy_row(ctx, p, x.p, at.cols * static_cast<int64_t>(sizeof(T)), sizeof(T));
  }
  if constexpr (is_expression<X>) {
    write_row<true>(ctx, p, at.cols, x);
  } else {
    for (int64_t c = 0; c < at.cols; ++c) p[c] = from_float<T>(x);
  }
}

/// Whole rows to and from a dtype that is known at run time only. Functions of their own, since kernels would hold them once per use.
inline __attribute__((noinline)) void store_row_as(Context& ctx, DType dtype, void* to, const float* from,
                                                   int64_t cols) {
  const memory_tile<float> row(from, 0.0f);
  switch (dtype) {
    case DType::f32: return copy_row(ctx, to, from, cols * static_cast<int64_t>(sizeof(float)), sizeof(float));
    case DType::f16: return write_row<true>(ctx, static_cast<half_t*>(to), cols, row);
    case DType::bf16: return write_row<true>(ctx, static_cast<bfloat16_t*>(to), cols, row);
    case DType::f8_e4m3: return write_row<true>(ctx, static_cast<e4m3_t*>(to), cols, row);
    case DType::f8_e5m2: return write_row<true>(ctx, static_cast<e5m2_t*>(to), cols, row);
    default: return write_row<true>(ctx, static_cast<int8_t*>(to), cols, row);
  }
}
inline __attribute__((noinline)) void load_row_as(float* to, DType dtype, const void* from, int64_t cols) {
  switch (dtype) {
    case DType::f16: return write_columns(to, cols, memory_tile<half_t>(static_cast<const half_t*>(from), 0.0f));
    case DType::bf16: return write_columns(to, cols, memory_tile<bfloat16_t>(static_cast<const bfloat16_t*>(from), 0.0f));
    default: return write_columns(to, cols, memory_tile<uint8_t>(static_cast<const uint8_t*>(from), 0.0f));
  }
}
MT_FN unsigned char* row_bytes(const any_view& v, int64_t row) {
  unsigned char* const base = static_cast<unsigned char*>(v.data);
  return base + (v.as<unsigned char>().row(row) - base) * dtype_info(v.dtype).block_bytes;
}
/// A row that all programs read, as fp32.
inline __attribute__((noinline)) const float* kept_values(kept_rows& kept, DType dtype, const void* from, int64_t cols) {
  for (const kept_row& r : kept.row) {
    if (r.from == from && r.dtype == dtype && r.cols == cols) return r.values.data();
  }
  kept_row& r = kept.row[kept.oldest];
  kept.oldest = (kept.oldest + 1) % 4;
  if (r.values.size() < static_cast<size_t>(cols)) r.values.resize(static_cast<size_t>(cols));
  load_row_as(r.values.data(), dtype, from, cols);
  r.from = from;
  r.dtype = dtype;
  r.cols = cols;
  return r.values.data();
}
template <class L>
MT_FN memory_tile<float> load_any(Context& ctx, const any_view& from, const place<L>& at, float absent = 0.0f) {
  if (!at.live || from.data == nullptr) return {nullptr, from.data == nullptr ? absent : 0.0f};
  const unsigned char* const row = row_bytes(from, at.row);
  if (from.dtype == DType::f32) return {reinterpret_cast<const float*>(row), 0.0f};
  if (from.outer_stride == 0 && from.inner_stride == 0) return {kept_values(*ctx.kept, from.dtype, row, at.cols), 0.0f};
  float* const p = ctx.take<float>(at.cols);
  load_row_as(p, from.dtype, row, at.cols);
  return {p, 0.0f};
}
/// The same to rows whose dtype is known at run time only.
template <cache = cache::normal, class L, class X>
MT_FN void store_any(Context& ctx, const any_view& to, const place<L>& at, const X& x) {
  if (!at.live) return;
  unsigned char* const row = row_bytes(to, at.row);
  const bool direct = to.dtype == DType::f32 && !goes_past(ctx, row, at.cols * static_cast<int64_t>(sizeof(float)));
  float* const p = direct ? reinterpret_cast<float*>(row) : ctx.take<float>(at.cols);
  write_row<false>(ctx, p, at.cols, x);
  if (!direct) store_row_as(ctx, to.dtype, row, p, at.cols);
}
template <cache = cache::normal, class L, class X>
MT_FN void store_codes(Context& ctx, const any_view& to, const place<L>& at, const X& x) {
  if (!at.live) return;
  unsigned char* const row = row_bytes(to, at.row);
  switch (to.dtype) {
    case DType::f8_e4m3: return write_row<true>(ctx, reinterpret_cast<e4m3_t*>(row), at.cols, x);
    case DType::f8_e5m2: return write_row<true>(ctx, reinterpret_cast<e5m2_t*>(row), at.cols, x);
    default: return write_row<true>(ctx, reinterpret_cast<int8_t*>(row), at.cols, x);
  }
}
template <class L, class X>
MT_FN void store_nibbles(Context&, const view<uint8_t>& to, const place<L>& at, const X& x) {
  if (!at.live) return;
  uint8_t* const p = to.row(at.row);
  for (int64_t c = 0; c < at.cols; c += 8) {
    const int count = static_cast<int>(std::min<int64_t>(8, at.cols - c));
    const pack<8> v = count == 8 ? x.template at<8>(c) : x.template tail<8>(c, count);
    for (int i = 0; i < count; i += 2) {
      const int high = i + 1 < count ? static_cast<int>(v.part[0][i + 1]) : 0;
      p[(c + i) / 2] = static_cast<uint8_t>(static_cast<int>(v.part[0][i]) | high << 4);
    }
  }
}

template <class T>
struct evaluated_tile : memory_tile<T> {
  using stored = T;
  using memory_tile<T>::memory_tile;
};
/// Puts the expression into scratch: as the type it was rounded to, else as fp32. `at` tells the number of columns.
template <class L, class X>
MT_FN auto eval(Context& ctx, const place<L>& at, const X& x) {
  if constexpr (!is_expression<X>) {
    return x;
  } else if constexpr (requires { typename X::stored; }) {
    auto* p = ctx.take<typename X::stored>(at.cols);
    if constexpr (requires { x.x; }) {
      write_row<false>(ctx, p, at.cols, x.x);
    } else {
      write_row<false>(ctx, p, at.cols, x);
    }
    return evaluated_tile<typename X::stored>(p, 0.0f);
  } else {
    auto* p = ctx.take<float>(at.cols);
    write_row<false>(ctx, p, at.cols, x);
    return evaluated_tile<float>(p, 0.0f);
  }
}

/// Tiles and row values that change in a loop.
/// The same of an expression that is `loaded` itself where `same` says so: then that takes the place of a copy.
template <class L, class T, class X>
MT_FN auto eval_unless(Context& ctx, const place<L>& at, bool same, const memory_tile<T>& loaded, const X& x) {
  if constexpr (std::is_same_v<typename X::stored, T>) {
    if (same && loaded.p != nullptr) return evaluated_tile<T>(loaded.p, 0.0f);
  }
  return eval(ctx, at, x);
}
template <class L>
MT_FN evaluated_tile<float> zeros(Context& ctx, const place<L>& at) {
  float* p = ctx.take<float>(at.cols);
  std::fill(p, p + at.cols, 0.0f);
  return evaluated_tile<float>(p, 0.0f);
}
template <class L>
MT_FN float row_fill(const place<L>&, float v) { return v; }
template <class L, class X>
MT_FN void assign(Context& ctx, const place<L>& at, evaluated_tile<float>& to, const X& from) {
  write_row<false>(ctx, const_cast<float*>(to.p), at.cols, from);
}

// --- reductions --------------------------------------------------------------------------------------------------------------------
template <class Op, int N, class V>
MT_FN V keep_first(const V& v, int count) {  // lanes past count become the identity
  V r = identity_pack<Op>(v);
  mask_pack<N> m = iota_pack<N>(0) < count;
  if constexpr (std::is_same_v<V, pack<N>>) {
    return select(m, v, r);
  } else if constexpr (std::is_same_v<V, sums_pack<N>>) {
    return V{select(m, v.first, r.first), select(m, v.second, r.second)};
  } else {
    return V{select(m, v.value, r.value), select(m, v.index, r.index)};
  }
}

/// Tiles of magnitudes of which those that are infinite or no number count as zero: without them the largest takes half the operations.
template <class X>
struct finite_magnitudes : std::false_type {};
template <class F, class X>
  requires requires { F::zero_unless_finite; }
struct finite_magnitudes<map_tile<F, X>> : std::true_type {};
template <class L, class F, class X>
MT_FN float largest_finite(Context& ctx, const place<L>& at, const map_tile<F, X>& x) {
  const X& of = std::get<0>(x.x);
  pack<kPack> most(0.0f);
  pack<8> rest(0.0f);
  int64_t c = 0;
  const bool asks = ctx.rows_ahead > 0;
  const int64_t step = asks ? 8 * kPack : at.cols;
#pragma GCC unroll 1
  while (c + kPack <= at.cols) {
    const int64_t end = std::min(c + step, at.cols);
    if (asks) ask_block(ctx, c, end, at.cols);
    for (; c + kPack <= end; c += kPack) most = larger_number(most, abs_of(of.template at<kPack>(c)));
  }
  ctx.pass += asks;
#pragma GCC unroll 1
  for (; c + 8 <= at.cols; c += 8) rest = larger_number(rest, abs_of(of.template at<8>(c)));
  if (c < at.cols) {
    const int count = static_cast<int>(at.cols - c);
    rest = larger_number(rest, keep_first<Max, 8>(abs_of(of.template tail<8>(c, count)), count));
  }
  return max_of(reduce_pack<Max>(most), reduce_pack<Max>(rest));
}

template <class Op, class L, class X>
MT_FN auto row_reduce([[maybe_unused]] Context& ctx, const place<L>& at, const X& x) {
#if defined(__AVX2__)
  if constexpr (std::is_same_v<Op, Max> && finite_magnitudes<X>::value) {
    const float largest = largest_finite(ctx, at, x);
    if (__builtin_expect(largest < kInfinity, 1)) return largest;
  }
#endif
  using V = decltype(x.template at<kPack>(0));
  using V8 = decltype(x.template at<8>(0));
  V sum = identity_pack<Op>(V{});
  int64_t c = 0;
#if defined(__AVX2__)
  if constexpr (std::is_same_v<Op, ArgMax>) {
    // Later columns win only by being larger, which is rare: the pairs are looked at where some element is.
    indexed best = Op::identity(indexed{});
    constexpr int64_t kBlock = 16 * kPack;
    while (c + kPack <= at.cols) {
      const int64_t end = std::min(c + kBlock, at.cols);
      ask_block(ctx, c, end, at.cols);
      for (; c + kPack <= end; c += kPack) {
        if (any_of(x.template at<kPack>(c).value > best.value))
          best = Op::combine(best, reduce_pack<Op>(x.template at<kPack>(c)));
      }
    }
    sum.value.part[0][0] = best.value;
    sum.index.part[0][0] = best.index;
  }
#endif
  const bool asks = ctx.rows_ahead > 0;
  const int64_t step = asks ? 8 * kPack : at.cols;
#pragma GCC unroll 1
  while (c + kPack <= at.cols) {
    const int64_t end = std::min(c + step, at.cols);
    if (asks) ask_block(ctx, c, end, at.cols);
    for (; c + kPack <= end; c += kPack) sum = entered<Op>(sum, x.template at<kPack>(c));
  }
  ctx.pass += asks;
  V8 rest = identity_pack<Op>(V8{});
#pragma GCC unroll 1
  for (; c + 8 <= at.cols; c += 8) rest = entered<Op>(rest, x.template at<8>(c));
  if (c < at.cols) {
    const int count = static_cast<int>(at.cols - c);
    rest = entered<Op>(rest, keep_first<Op, 8>(x.template tail<8>(c, count), count));
  }
  return Op::combine(reduce_pack<Op>(sum), reduce_pack<Op>(rest));
}

/// The same of rows that lie in two tiles, the first half in one and the second in the other.
template <class Op, class L, class X>
MT_FN auto row_reduce(Context& ctx, const place<L>& at, const X& first, const X& second) {
  return Op::combine(row_reduce<Op>(ctx, at, first), row_reduce<Op>(ctx, at, second));
}

// One row per program: nothing to combine across rows.
template <class Op, class L, class X>
MT_FN X col_reduce(Context&, const place<L>&, const X& x) { return x; }
template <class Op, class X>
MT_FN X rows_reduce(Context&, const X& x) { return x; }

/// Inclusive sums along the row, in scratch.
template <class L, class X>
MT_FN auto inclusive_scan(Context& ctx, const place<L>& at, const X& x) {
  float* p = ctx.take<float>(at.cols);
  write_columns(p, at.cols, x);
  float sum = 0.0f;
  for (int64_t c = 0; c < at.cols; ++c) p[c] = sum += p[c];
  return evaluated_tile<float>(p, 0.0f);
}

// --- rows as values ----------------------------------------------------------------------------------------------------------------
template <class L, class T>
struct held_row {
  place<L> at;
  T kept;
};
template <class L, class Make, class Again>
MT_FN auto hold(Context&, const place<L>& at, Make make, Again) {
  auto t = make(at);
  return held_row<L, decltype(t)>{at, t};
}
template <class L, class Make>
MT_FN auto hold(Context& ctx, const place<L>& at, Make make) { return hold(ctx, at, make, make); }
template <class L, class X>
MT_FN const X& stash(Context&, const place<L>&, const X& x) { return x; }
template <class Op, class L, class T, class F>
MT_FN auto fold(Context& ctx, held_row<L, T>& h, F f) { return row_reduce<Op>(ctx, h.at, map(f, h.kept)); }
template <class Op, class L, class T, class F>
MT_FN auto fold_at(Context& ctx, held_row<L, T>& h, F f) { return row_reduce<Op>(ctx, h.at, map_at(h.at, f, h.kept)); }
/// Packs of columns and elements of a row: visit(columns, elements, count) for eight at a time.
template <class L, class T, class Visit>
MT_FN void each_pack(const held_row<L, T>& h, Visit visit) {
  int64_t c = 0;
  for (; c + 8 <= h.at.cols; c += 8) visit(iota_pack<8>(static_cast<int32_t>(c)), h.kept.template at<8>(c), 8);
  const int rest = static_cast<int>(h.at.cols - c);
  if (rest > 0) visit(iota_pack<8>(static_cast<int32_t>(c)), h.kept.template tail<8>(c, rest), rest);
}
template <class F>
struct listed_tile : expression {
  F f;
  const float* values;
  const int32_t* columns;
  MT_FN listed_tile(F fn, const float* v, const int32_t* c) : f(fn), values(v), columns(c) {}
  template <int N>
  MT_FN auto at(int64_t i) const {
    int_pack<N> c;
    std::memcpy(c.part, columns + i, sizeof c.part);
    return f(c, load_pack<N>(values + i));
  }
  template <int N>
  MT_FN auto tail(int64_t i, int) const { return at<N>(i); }
};
template <class Op, class R, class Row, class First, class Then, class F>
MT_FN R fold_where(Context&, Row& row, R start, First first, Then then, F f) {
  R result = start;
  each_pack(row, [&](const int_pack<8>& c, const pack<8>& v, int n) {
    mask_pack<8> wanted = first(c, v);
    if (!any_of(wanted)) return;
    wanted = wanted & then(c, v, result);
    if (!any_of(wanted)) return;
    for (int i = 0; i < n; ++i) {
      if (wanted.part[0][i] != 0) result = Op::combine(result, f(c.part[0][i], v.part[0][i]));
    }
  });
  return result;
}
/// What is evaluated into scratch by the first fold over it.
template <class X>
struct deferred_tile : expression {
  X x;
  float* p;
  bool there = false;
  MT_FN deferred_tile(const X& from, float* to) : x(from), p(to) {}
  template <int N>
  MT_FN pack<N> at(int64_t c) const { return there ? load_pack<N>(p + c) : x.template at<N>(c); }
  template <int N>
  MT_FN pack<N> tail(int64_t c, int count) const { return there ? load_pack_tail<N>(p + c, count, 0.0f) : x.template tail<N>(c, count); }
};
template <class X>
struct keeping_tile : expression {
  X x;
  float* p;
  MT_FN keeping_tile(const X& from, float* to) : x(from), p(to) {}
  template <int N>
  MT_FN pack<N> at(int64_t c) const {
    const pack<N> v = x.template at<N>(c);
    store_pack(p + c, v);
    return v;
  }
  template <int N>
  MT_FN pack<N> tail(int64_t c, int count) const {
    const pack<N> v = x.template tail<N>(c, count);
    store_pack_tail(p + c, v, count);
    return v;
  }
};
template <class L, class T, class F, class... X>
MT_FN auto held_map(Context& ctx, held_row<L, T>& h, F f, const X&... x) {
  const auto t = map(f, h.kept, x...);
  if constexpr (is_expression<decltype(t)>) {
    using Kept = deferred_tile<std::remove_const_t<decltype(t)>>;
    return held_row<L, Kept>{h.at, Kept(t, ctx.take<float>(h.at.cols))};
  } else {
    return held_row<L, std::remove_const_t<decltype(t)>>{h.at, t};
  }
}
template <class Op, class L, class X, class F>
MT_FN auto fold(Context& ctx, held_row<L, deferred_tile<X>>& h, F f) {
  if (h.kept.there) return row_reduce<Op>(ctx, h.at, map(f, memory_tile<float>(h.kept.p, 0.0f)));
  h.kept.there = true;
  return row_reduce<Op>(ctx, h.at, map(f, keeping_tile<X>(h.kept.x, h.kept.p)));
}
template <class L, class T, class F>
MT_FN auto hold_from(Context&, held_row<L, T>& h, F f) {
  auto t = f(h.at, h.kept);
  return held_row<L, decltype(t)>{h.at, t};
}
template <class L, class T, class Visit>
MT_FN void each(Context&, held_row<L, T>& h, Visit visit) { visit(h.at, h.kept); }
/// For machines where registers count.
template <class T>
MT_FN void settle(Context&, T&) {}
template <class T, class L, class F>
MT_FN auto in_halves(Context&, const place<L>& at, F f) { return f(at); }
template <class T, class L, class F, class... X>
MT_FN auto map_rounded(Context&, const place<L>&, F f, const X&... x) { return round_to<T>(map(f, x...)); }

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME
