#pragma once
// The words of the language for machines with lanes (NVIDIA, the emulator, later AMD and SPIR-V). Everything is eager: a tile is an array of
// registers per lane. Only conversions, shuffles, 16-byte accesses and barriers come from the target's primitives.

#include <cstdint>

#include "monotile/lang/layout.hpp"
#include "monotile/lang/quant.hpp"
#include "monotile/lang/reduction.hpp"
#include "monotile/lang/view.hpp"
#include "monotile/random.hpp"

namespace monotile::lang::inline MONOTILE_TARGET_NAME {

template <class T, class L>
struct tile {
  using element = T;
  using layout = L;
  T v[kLanes][L::elements];
};

template <class T, class L>
struct row_value {
  using element = T;
  using layout = L;
  T v[kLanes];
};

/// Where the tile of this program stands: a row per lane group, a first column, and what of it exists.
template <class L>
struct place {
  using layout = L;
  int64_t row[kLanes];
  bool live[kLanes];     // the row exists
  int32_t lane[kLanes];  // position within the lanes of the row
  int32_t width;         // lanes per row
  int32_t limit;         // columns of this tile that exist
  int64_t first_col;
  int64_t cols;

  MT_FN int32_t local_col(int l, int element) const { return L::coord(lane[l], element, width).col; }
  MT_FN bool full(int l) const { return local_col(l, L::elements - 1) < limit; }
};

MT_FN int32_t clipped(int64_t n) { return n > INT32_MAX ? INT32_MAX : static_cast<int32_t>(n); }

template <class L>
MT_FN place<L> place_of(const Context& ctx, int64_t program, int64_t rows, int64_t cols) {
  place<L> at;
  at.width = L::row_lanes(ctx.threads);
  const int rows_per_program = L::lanes_per_row == 0 ? 1 : ctx.threads / at.width;
  for (int l = 0; l < kLanes; ++l) {
    const int t = ctx.thread(l);
    at.row[l] = program * rows_per_program + (L::lanes_per_row == 0 ? 0 : t / at.width);
    at.lane[l] = L::lanes_per_row == 0 ? t : t % at.width;
    at.live[l] = L::lanes_per_row == 0 || at.row[l] < rows;  // where a row has its program, there are as many programs as rows
    if (!at.live[l]) at.row[l] = 0;
  }
  at.first_col = 0;
  at.cols = cols;
  at.limit = clipped(cols);
  return at;
}

/// The place of this program's tile when programs, from `first_program` on, walk `rows` rows of `cols` columns in order.
template <class L>
MT_FN place<L> rows_of(const Context& ctx, int64_t rows, int64_t cols, int64_t first_program = 0) {
  return place_of<L>(ctx, ctx.program - first_program, rows, cols);
}

/// The place shifted to the chunk that starts at column `first`.
template <class L>
MT_FN place<L> chunk_at(const place<L>& at, int64_t first) {
  place<L> c = at;
  c.first_col = first;
  c.limit = clipped(at.cols - first);
  return c;
}
template <class L>
MT_FN int64_t chunk_cols(const place<L>& at) {
  return static_cast<int64_t>(at.width) * L::elements;
}

/// The place of this program's tile when programs walk all `chunks` chunks of columns of a group of rows, then the next rows: for elementwise
/// work, where few long rows shall still fill the machine. A chunk is as wide as the tile. Programs count from `first_program` on.
template <class L>
MT_FN place<L> chunks_of(const Context& ctx, int64_t rows, int64_t cols, int64_t chunks, int64_t first_program = 0) {
  const uint32_t program = static_cast<uint32_t>(ctx.program - first_program),
                 group = program / static_cast<uint32_t>(chunks);
  const place<L> at = place_of<L>(ctx, group, rows, cols);
  return chunk_at(at, static_cast<int64_t>(program - group * static_cast<uint32_t>(chunks)) * chunk_cols(at));
}

/// The same columns of other rows (paged and indexed data); rows < 0 do not exist.
template <class L>
MT_FN place<L> at_rows(const place<L>& at, const row_value<int64_t, L>& rows) {
  place<L> g = at;
  for (int l = 0; l < kLanes; ++l) {
    g.live[l] = at.live[l] && rows.v[l] >= 0;
    g.row[l] = g.live[l] ? rows.v[l] : 0;
  }
  return g;
}
/// No row at all unless `there`: loads give what they fill with, stores do nothing.
template <class L>
MT_FN place<L> only_if(const place<L>& at, bool there) {
  place<L> g = at;
  for (int l = 0; l < kLanes; ++l) {
    g.live[l] = at.live[l] && there;
    if (!there) g.row[l] = 0;
  }
  return g;
}
/// The same rows with another number of columns.
template <class L>
MT_FN place<L> with_cols(const place<L>& at, int64_t cols) {
  place<L> g = at;
  g.cols = cols;
  g.limit = clipped(cols - at.first_col);
  return g;
}
template <class L>
MT_FN place<L> at_rows(const place<L>& at, int64_t row) {
  place<L> g = at;
  for (int l = 0; l < kLanes; ++l) g.row[l] = row;
  return g;
}
/// Rows counted within this program, whatever its index: lane group g stands on row g.
template <class L>
MT_FN place<L> local_rows(const Context& ctx, int64_t cols) {
  static_assert(L::lanes_per_row != 0, "lane groups");
  return place_of<L>(ctx, 0, ctx.threads, cols);
}
template <class L>
MT_FN int64_t tile_rows(const Context& ctx, const place<L>&) {
  return ctx.threads / L::lanes_per_row;
}
/// Only row 0 of the tile exists: for results that all rows share.
template <class L>
MT_FN place<L> first_row_only(const place<L>& at) {
  place<L> g = at;
  for (int l = 0; l < kLanes; ++l) {
    g.live[l] = at.live[l] && at.row[l] == 0;
    g.row[l] = 0;
  }
  return g;
}
template <class L>
MT_FN row_value<int64_t, L> row_index(const place<L>& at) {
  row_value<int64_t, L> r;
  for (int l = 0; l < kLanes; ++l) r.v[l] = at.row[l];
  return r;
}

// --- registers <-> 16-byte vectors -------------------------------------------------------------------------------------------------
template <class T>
MT_FN T element_of(const vector16& v, int i) {
  if constexpr (sizeof(T) == 4) {
    return __builtin_bit_cast(T, v.word[i]);
  } else if constexpr (sizeof(T) == 2) {
    return __builtin_bit_cast(T, static_cast<uint16_t>(v.word[i / 2] >> (16 * (i % 2))));
  } else {
    static_assert(sizeof(T) == 1, "elements of 1, 2 or 4 bytes");
    return __builtin_bit_cast(T, static_cast<uint8_t>(v.word[i / 4] >> (8 * (i % 4))));
  }
}
template <class T>
MT_FN uint32_t bits_of(T v) {
  if constexpr (sizeof(T) == 4) {
    return __builtin_bit_cast(uint32_t, v);
  } else if constexpr (sizeof(T) == 2) {
    return __builtin_bit_cast(uint16_t, v);
  } else {
    return __builtin_bit_cast(uint8_t, v);
  }
}
template <class T>
MT_FN vector16 pack16(const T* v) {
  vector16 out;
  constexpr int kPerWord = 4 / static_cast<int>(sizeof(T));
  MT_UNROLL
  for (int w = 0; w < 4; ++w) {
    uint32_t word = 0;
    MT_UNROLL
    for (int i = 0; i < kPerWord; ++i) word |= bits_of(v[w * kPerWord + i]) << (8 * static_cast<int>(sizeof(T)) * i);
    out.word[w] = word;
  }
  return out;
}

/// A value in memory that lanes share; the emulator watches who comes when.
template <class T>
MT_FN void share(T* to, T v) {
#if defined(MONOTILE_TARGET_EMULATED)
  emulated::note_write(to, sizeof(T));
#endif
  *to = v;
}
template <class T>
MT_FN T shared(const T* from) {
#if defined(MONOTILE_TARGET_EMULATED)
  emulated::note_read(from, sizeof(T));
#endif
  return *from;
}

// The emulator takes the accesses of all lanes of a wave to global memory together: it is told whose they are, and of those of fewer than 8 bytes,
// which are no words of the target. Macros, so that others compile what they would without (`p + (c + e)` is `p[c + e]`; `p + c + e` is other code).
#if defined(MONOTILE_TARGET_EMULATED)
template <class T>
inline const T* read_at(const T* p) {
  emulated::note_global_load(p, sizeof(T));
  return p;
}
template <class T>
inline T* written_at(T* p) {
  emulated::note_global_store(p, sizeof(T));
  return p;
}
#define MT_TURN_OF(lane) emulated::note_lane(lane, kWave)
#define MT_READ_AT(p) read_at(p)
#define MT_WRITTEN_AT(p) written_at(p)
#else
#define MT_TURN_OF(lane) static_cast<void>(0)
#define MT_READ_AT(p) (p)
#define MT_WRITTEN_AT(p) (p)
#endif

/// Element `index` of a lane's registers, by comparisons: registers have no addresses.
template <class T, int N>
MT_FN auto element_at(const T (&v)[N], int index) {
  auto found = promote(v[0]);
  MT_UNROLL
  for (int i = 1; i < N; ++i) {
    auto candidate = promote(v[i]);
#if defined(MONOTILE_TARGET_HIP)
    hide(candidate);  // clang makes an indexed load of such a chain, and puts the whole row into memory for it
#endif
    found = i == index ? candidate : found;
  }
  return found;
}

/// How long data is wanted in the caches.
enum class cache { normal, stream, read_only };

/// The row of a view. Where a row has its program for itself and is exact, the host has checked that one stride leads to every row: nothing then
/// delays the first load.
template <class L, class T>
MT_FN T* row_for(const view<T>& v, int64_t r) {
  if constexpr (L::exact && L::lanes_per_row == 0) return v.data + r * v.outer_stride;
  return v.row(r);
}

template <cache Hint>
MT_FN vector16 load16_as(const void* p) {
  if constexpr (Hint == cache::stream) return load16_stream(p);
  if constexpr (Hint == cache::read_only) return load16(p);
  return load16_mutable(p);
}

template <cache Hint, class T, int N>
MT_WORD void load_run(T (&out)[N], int first, const T* p, int count) {
  constexpr int kPer = 16 / static_cast<int>(sizeof(T));
  if constexpr (sizeof(T) == 1) {
    MT_UNROLL
    for (int j = 0; j < count / 8; ++j) {
      const vector8 q = load8(p + j * 8);
      MT_UNROLL
      for (int i = 0; i < 8; ++i) out[first + j * 8 + i] = __builtin_bit_cast(T, static_cast<uint8_t>(q.word[i / 4] >> (8 * (i % 4))));
    }
  } else {
    MT_UNROLL
    for (int j = 0; j < count / kPer; ++j) {
      const vector16 q = load16_as<Hint>(p + j * kPer);
      MT_UNROLL
      for (int i = 0; i < kPer; ++i) out[first + j * kPer + i] = element_of<T>(q, i);
    }
  }
}

template <class T>
struct bare {
  using type = T;
};
template <class T>
struct bare<const T> {
  using type = T;
};

/// Four bytes of elements that are shorter.
typedef uint32_t __attribute__((may_alias)) word_alias;
template <class T>
MT_FN bool starts_word(const T* p) { return (reinterpret_cast<uintptr_t>(p) & 3) == 0; }

template <cache Hint, class T, class L>
MT_WORD void load_lane(T (&out)[L::elements], const T* p, bool vectors, const place<L>& at, int l, T fill) {
  constexpr int E = L::vector_elements;
  p += at.first_col;
  if constexpr (L::exact && sizeof(T) > 1) {
    // Unpacked only when all are on their way, and the loads predicated rather than branched around: an unpacking between two loads would make the
    // second wait for the first (H200, 2026-11-29: 155 instead of 135 us for the residual norm of 16384 x 4096).
    constexpr int kPer = 16 / static_cast<int>(sizeof(T)), kPieces = E / kPer;
    vector16 raw[L::vectors * kPieces];
    MT_UNROLL
    for (int i = 0; i < L::vectors; ++i) {
      const int c = at.local_col(l, i * E);
      const bool exists = at.live[l] && c < at.limit;
      T blank[kPer];
      MT_UNROLL
      for (int e = 0; e < kPer; ++e) blank[e] = fill;
      MT_UNROLL
      for (int j = 0; j < kPieces; ++j) {
        raw[i * kPieces + j] = pack16(blank);
        if (exists) raw[i * kPieces + j] = load16_as<Hint>(p + c + j * kPer);
      }
    }
    MT_UNROLL
    for (int e = 0; e < L::elements; ++e) out[e] = element_of<T>(raw[e / kPer], e % kPer);
    return;
  }
  if (!at.live[l]) {
    MT_UNROLL
    for (int e = 0; e < L::elements; ++e) out[e] = fill;
    return;
  }
  if (vectors && at.full(l)) {
    MT_UNROLL
    for (int i = 0; i < L::vectors; ++i) load_run<Hint>(out, i * E, p + at.local_col(l, i * E), E);
    return;
  }
  MT_UNROLL
  for (int i = 0; i < L::vectors; ++i) {
    const int c = at.local_col(l, i * E);
    if (vectors && c + E <= at.limit) {
      load_run<Hint>(out, i * E, p + c, E);
      continue;
    }
    if constexpr (sizeof(T) == 2 && E % 2 == 0) {  // rows of an even number of columns, mostly: half as many accesses
      if (c + E <= at.limit && starts_word(p)) {
        MT_UNROLL
        for (int e = 0; e < E; e += 2) {
          const uint32_t word = *MT_READ_AT(reinterpret_cast<const word_alias*>(p + c + e));
          out[i * E + e] = __builtin_bit_cast(T, static_cast<uint16_t>(word));
          out[i * E + e + 1] = __builtin_bit_cast(T, static_cast<uint16_t>(word >> 16));
        }
        continue;
      }
    }
    MT_UNROLL
    for (int e = 0; e < E; ++e) out[i * E + e] = c + e < at.limit ? *MT_READ_AT(p + (c + e)) : fill;
  }
}

/// The tile of `from` at `at`; cells that do not exist hold `fill`.
template <cache Hint = cache::normal, class T, class L>
MT_FN tile<typename bare<T>::type, L> load(Context&, const view<T>& from, const place<L>& at,
                                           typename bare<T>::type fill = {}) {
  using U = typename bare<T>::type;
  tile<U, L> t;
  for (int l = 0; l < kLanes; ++l) {
    MT_TURN_OF(l);
    load_lane<Hint, U, L>(t.v[l], row_for<L>(from, at.row[l]), from.vectors, at, l, fill);
  }
  return t;
}

/// A vector over columns, the same for every row, as fp32.
template <class L>
MT_WORD tile<float, L> load_bcast(Context&, const any_vector& from, const place<L>& at) {
  tile<float, L> t;
  for (int l = 0; l < kLanes; ++l) {
    MT_TURN_OF(l);
    if (from.dtype == DType::f32) {
      load_lane<cache::read_only, float, L>(t.v[l], static_cast<const float*>(from.data), from.vectors, at, l, 0.0f);
    } else if (from.dtype == DType::bf16) {
      bfloat16_t raw[L::elements];
      load_lane<cache::read_only, bfloat16_t, L>(raw, static_cast<const bfloat16_t*>(from.data), from.vectors, at, l,
                                                 bfloat16_t{});
      MT_UNROLL
      for (int e = 0; e < L::elements; ++e) t.v[l][e] = promote(raw[e]);
    } else {
      half_t raw[L::elements];
      load_lane<cache::read_only, half_t, L>(raw, static_cast<const half_t*>(from.data), from.vectors, at, l, half_t{});
      MT_UNROLL
      for (int e = 0; e < L::elements; ++e) t.v[l][e] = promote(raw[e]);
    }
  }
  return t;
}

/// A vector over columns that is wanted later: loaded now where rows stay on chip, so that its latency hides behind what comes before (a prefetch
/// instruction instead cost a tenth of the residual norm's time: H200, 2026-11-29), and chunk by chunk where rows are streamed.
/// Vectors of 16 bits wait as they are, in half the registers; those of fp32 are loaded when they are wanted.
template <class L>
struct vector_ahead {
  any_vector from;
  half_t raw[kLanes][L::elements];  // of either type: their bits
};
/// In exact layouts they wait unopened: no branch on the dtype makes a lane look at them.
template <class L>
struct whole_vector_ahead {
  any_vector from;
  vector16 raw[kLanes][L::vectors];
};
template <class L>
MT_FN auto load_ahead(Context&, const any_vector& from, const place<L>& at) {
  if constexpr (L::exact && !L::streaming) {
    static_assert(L::vector_elements == 8, "16 bytes of 16-bit elements");
    whole_vector_ahead<L> a{from, {}};
    for (int l = 0; l < kLanes; ++l) {
      MT_TURN_OF(l);
      MT_UNROLL
      for (int i = 0; i < L::vectors; ++i) {
        const int c = at.local_col(l, i * 8);
        if (from.dtype != DType::f32 && at.live[l] && c < at.limit)
          a.raw[l][i] = load16(static_cast<const half_t*>(from.data) + at.first_col + c);
      }
    }
    return a;
  } else {
    vector_ahead<L> a{from, {}};
    if constexpr (!L::streaming) {
      for (int l = 0; l < kLanes; ++l) {
        MT_TURN_OF(l);
        if (from.dtype != DType::f32)
          load_lane<cache::read_only, half_t, L>(a.raw[l], static_cast<const half_t*>(from.data), from.vectors, at, l, half_t{});
      }
    }
    return a;
  }
}
template <class L>
MT_WORD tile<float, L> arrived(Context& ctx, const whole_vector_ahead<L>& a, const place<L>& at) {
  if (a.from.dtype == DType::f32) return load_bcast(ctx, a.from, at);
  tile<float, L> t;
  for (int l = 0; l < kLanes; ++l) {
    MT_UNROLL
    for (int e = 0; e < L::elements; ++e) {
      const uint16_t bits = element_of<half_t>(a.raw[l][e / 8], e % 8).bits;
      t.v[l][e] = a.from.dtype == DType::bf16 ? promote(bfloat16_t{bits}) : promote(half_t{bits});
    }
  }
  return t;
}
template <class L>
MT_WORD tile<float, L> arrived(Context& ctx, const vector_ahead<L>& a, const place<L>& at) {
  if (L::streaming || a.from.dtype == DType::f32) return load_bcast(ctx, a.from, at);
  tile<float, L> t;
  for (int l = 0; l < kLanes; ++l) {
    if (a.from.dtype == DType::bf16) {
      MT_UNROLL
      for (int e = 0; e < L::elements; ++e) t.v[l][e] = promote(bfloat16_t{a.raw[l][e].bits});
    } else {
      MT_UNROLL
      for (int e = 0; e < L::elements; ++e) t.v[l][e] = promote(a.raw[l][e]);
    }
  }
  return t;
}

/// The same of a dtype known to the kernel, which needs fewer registers than the choice among all.
template <class T, class L>
struct rows_ahead {
  static constexpr bool waits = !L::streaming && (sizeof(T) == 2 || (L::exact && L::vectors <= 2));
  view<const T> from;
  tile<T, L> raw;
};
template <class T, class L>
MT_FN rows_ahead<T, L> load_ahead(Context& ctx, const view<const T>& from, const place<L>& at, T fill = {}) {
  if constexpr (rows_ahead<T, L>::waits) {
    return {from, load<cache::read_only>(ctx, from, at, fill)};
  } else {
    return {from, {}};
  }
}
template <class T, class L>
MT_FN tile<T, L> arrived(Context& ctx, const rows_ahead<T, L>& a, const place<L>& at, T fill = {}) {
  if constexpr (rows_ahead<T, L>::waits) {
    return a.raw;
  } else {
    return load<cache::read_only>(ctx, a.from, at, fill);
  }
}

template <class T>
struct convert {
  template <class U>
  static MT_FN T apply(U v) {
    return rounding<T>::apply(promote(v));
  }
  static MT_FN T apply(T v) { return v; }
};

/// Rows whose dtype is known at run time only, as fp32: one-byte codes, or plain values.
template <class T, class L>
MT_WORD void load_typed(tile<float, L>& t, const any_view& from, const place<L>& at) {
  const view<const T> rows = from.as<const T>();
  for (int l = 0; l < kLanes; ++l) {
    MT_TURN_OF(l);
    T raw[L::elements];
    load_lane<cache::normal, T, L>(raw, rows.row(at.row[l]), rows.vectors, at, l, T{});
    MT_UNROLL
    for (int e = 0; e < L::elements; ++e) t.v[l][e] = promote(raw[e]);
  }
}
template <class L>
MT_WORD tile<float, L> load_codes(Context&, const any_view& from, const place<L>& at) {
  tile<float, L> t;
  switch (from.dtype) {
    case DType::f8_e4m3: load_typed<e4m3_t>(t, from, at); break;
    case DType::f8_e5m2: load_typed<e5m2_t>(t, from, at); break;
    default: load_typed<int8_t>(t, from, at); break;
  }
  return t;
}

/// Rows of codes that are wanted later. In exact layouts, where they are whole vectors, they are loaded now and wait as they are; else when they are wanted.
template <class L>
struct codes_ahead {
  any_view from;
  vector8 raw[kLanes][L::vectors];
};
template <class L>
MT_FN codes_ahead<L> load_ahead(Context&, const any_view& from, const place<L>& at) {
  codes_ahead<L> a{from, {}};
  if constexpr (L::exact && !L::streaming) {
    const view<const uint8_t> rows = from.as<const uint8_t>();
    for (int l = 0; l < kLanes; ++l) {
      MT_TURN_OF(l);
      const uint8_t* const p = rows.row(at.row[l]) + at.first_col;
      MT_UNROLL
      for (int i = 0; i < L::vectors; ++i) {
        const int c = at.local_col(l, i * L::vector_elements);
        if (at.live[l] && c < at.limit) a.raw[l][i] = load8(p + c);
      }
    }
  }
  return a;
}
template <class T, class L>
MT_WORD tile<float, L> unpacked(const codes_ahead<L>& a) {
  static_assert(L::vector_elements == 8, "codes come by eights");
  tile<float, L> t;
  for (int l = 0; l < kLanes; ++l) {
    MT_UNROLL
    for (int i = 0; i < L::vectors; ++i) unpack_codes<T>(t.v[l] + i * 8, a.raw[l][i]);
  }
  return t;
}
template <class L>
MT_WORD tile<float, L> arrived(Context& ctx, const codes_ahead<L>& a, const place<L>& at) {
  if constexpr (L::exact && !L::streaming) {
    switch (a.from.dtype) {
      case DType::f8_e4m3: return unpacked<e4m3_t>(a);
      case DType::f8_e5m2: return unpacked<e5m2_t>(a);
      default: return unpacked<int8_t>(a);
    }
  } else {
    return load_codes(ctx, a.from, at);
  }
}
template <class L>
MT_WORD tile<float, L> load_any(Context&, const any_view& from, const place<L>& at, float absent = 0.0f) {
  tile<float, L> t;
  if (from.data == nullptr) {  // a view that is not there
    for (int l = 0; l < kLanes; ++l) {
      MT_UNROLL
      for (int e = 0; e < L::elements; ++e) t.v[l][e] = absent;
    }
    return t;
  }
  switch (from.dtype) {
    case DType::f32: load_typed<float>(t, from, at); break;
    case DType::f16: load_typed<half_t>(t, from, at); break;
    case DType::bf16: load_typed<bfloat16_t>(t, from, at); break;
    default: load_typed<uint8_t>(t, from, at); break;
  }
  return t;
}

/// Eight elements as bytes: raw where they are T already, else converted.
template <class T, class U>
MT_FN vector8 packed8(const U* v) {
  if constexpr (sizeof(U) == 1) {
    vector8 out{};
    MT_UNROLL
    for (int i = 0; i < 8; ++i) out.word[i / 4] |= bits_of(v[i]) << (8 * (i % 4));
    return out;
  } else {
    float values[8];
    MT_UNROLL
    for (int i = 0; i < 8; ++i) values[i] = promote(v[i]);
    return pack_codes<T>(values);
  }
}

/// A lane's eight values of 32 bits are a sector of memory, of which one store writes half: two partial writes of each. Of neighbouring lanes each hands the
/// other a half, so that together they write whole sectors. For stores that stream, in exact layouts, which all lanes of a wave reach together.
template <cache Hint, class T, class L>
inline constexpr bool kStoresSectors =
    kHalfSectors && Hint == cache::stream && sizeof(T) == 4 && L::exact && L::lanes_per_row != 1 && L::vector_elements == 8;

/// Vector i of the lanes: of(l, e) is element e of lane l.
template <class T, class L, class Of>
MT_FN void store_sectors(const view<T>& to, const place<L>& at, int i, Of of) {
  constexpr int kHalf = 4;
  T got[kHalf][kLanes];
  MT_UNROLL
  for (int e = 0; e < kHalf; ++e) {
    T sent[kLanes];
    for (int l = 0; l < kLanes; ++l) sent[l] = at.lane[l] % 2 == 0 ? of(l, kHalf + e) : of(l, e);
    shuffle_xor(got[e], sent, 1);
  }
  for (int l = 0; l < kLanes; ++l) {
    MT_TURN_OF(l);
    const int odd = at.lane[l] % 2;
    T* const p = row_for<L>(to, at.row[l]) + at.first_col + odd * kHalf;
    MT_UNROLL
    for (int neighbour = 0; neighbour < 2; ++neighbour) {
      const int c = L::coord(at.lane[l] - odd + neighbour, i * L::vector_elements, at.width).col;
      if (!at.live[l] || c >= at.limit) continue;
      T out[kHalf];
      MT_UNROLL
      for (int e = 0; e < kHalf; ++e) out[e] = odd == neighbour ? (odd == 0 ? of(l, e) : of(l, kHalf + e)) : got[e][l];
      store16_stream(p + c, pack16(out));
    }
  }
}

/// Writes what exists of the tile, converted with one rounding.
template <cache Hint = cache::normal, class T, class U, class L>
MT_WORD void store(Context&, const view<T>& to, const place<L>& at, const tile<U, L>& t) {
  constexpr int E = L::vector_elements;
  constexpr int kPer = 16 / static_cast<int>(sizeof(T));
  if constexpr (kStoresSectors<Hint, T, L>) {
    MT_UNROLL
    for (int i = 0; i < L::vectors; ++i)
      store_sectors(to, at, i, [&](int l, int e) { return convert<T>::apply(t.v[l][i * E + e]); });
    return;
  }
  for (int l = 0; l < kLanes; ++l) {
    if (!L::exact && !at.live[l]) continue;
    MT_TURN_OF(l);
    T* const p = row_for<L>(to, at.row[l]) + at.first_col;
    MT_UNROLL
    for (int i = 0; i < L::vectors; ++i) {
      const int c = at.local_col(l, i * E);
      if constexpr (sizeof(T) == 1) {  // also with exact layouts: codes may lie where they like
        if (!at.live[l]) continue;
        if (to.vectors && c + E <= at.limit) {
          store8(p + c, packed8<T>(t.v[l] + i * E));
        } else {
          MT_UNROLL
          for (int e = 0; e < E; ++e) {
            if (c + e < at.limit) *MT_WRITTEN_AT(p + (c + e)) = convert<T>::apply(t.v[l][i * E + e]);
          }
        }
      } else {
        T out[E];
        MT_UNROLL
        for (int e = 0; e < E; ++e) out[e] = convert<T>::apply(t.v[l][i * E + e]);
        if (L::exact ? at.live[l] && c < at.limit : to.vectors && c + E <= at.limit) {
          MT_UNROLL
          for (int j = 0; j < E / kPer; ++j) {
            if constexpr (Hint == cache::stream) {
              store16_stream(p + c + j * kPer, pack16(out + j * kPer));
            } else {
              store16(p + c + j * kPer, pack16(out + j * kPer));
            }
          }
        } else if constexpr (!L::exact) {
          if constexpr (sizeof(T) == 2 && E % 2 == 0) {
            if (c + E <= at.limit && starts_word(p)) {
              MT_UNROLL
              for (int e = 0; e < E; e += 2)
                *MT_WRITTEN_AT(reinterpret_cast<word_alias*>(p + c + e)) = bits_of(out[e]) | bits_of(out[e + 1]) << 16;
              continue;
            }
          }
          MT_UNROLL
          for (int e = 0; e < E; ++e) {
            if (c + e < at.limit) *MT_WRITTEN_AT(p + (c + e)) = out[e];
          }
        }
      }
    }
  }
}

/// The same to rows whose dtype is known at run time only.
template <cache Hint = cache::normal, class U, class L>
MT_WORD void store_codes(Context& ctx, const any_view& to, const place<L>& at, const tile<U, L>& t) {
  switch (to.dtype) {
    case DType::f8_e4m3: return store<Hint>(ctx, to.as<e4m3_t>(), at, t);
    case DType::f8_e5m2: return store<Hint>(ctx, to.as<e5m2_t>(), at, t);
    default: return store<Hint>(ctx, to.as<int8_t>(), at, t);
  }
}
template <cache Hint = cache::normal, class U, class L>
MT_WORD void store_any(Context& ctx, const any_view& to, const place<L>& at, const tile<U, L>& t) {
  switch (to.dtype) {
    case DType::f32: return store<Hint>(ctx, to.as<float>(), at, t);
    case DType::f16: return store<Hint>(ctx, to.as<half_t>(), at, t);
    default: return store<Hint>(ctx, to.as<bfloat16_t>(), at, t);
  }
}

/// Columns in pairs to a byte, the even one low: whole numbers from 0 to 15. Rows of a view with `vectors` start on 4 bytes.
template <class L>
MT_WORD tile<float, L> load_nibbles(Context&, const view<const uint8_t>& from, const place<L>& at) {
  static_assert(L::vector_elements == 8, "four bytes at a time");
  tile<float, L> t;
  for (int l = 0; l < kLanes; ++l) {
    MT_TURN_OF(l);
    const uint8_t* const p = from.row(at.row[l]) + at.first_col / 2;
    MT_UNROLL
    for (int i = 0; i < L::vectors; ++i) {
      const int c = at.local_col(l, i * 8);
      uint32_t word = 0;
      if (at.live[l] && from.vectors && c + 8 <= at.limit) {
        word = *MT_READ_AT(reinterpret_cast<const uint32_t*>(p + c / 2));
      } else {
        MT_UNROLL
        for (int b = 0; b < 4; ++b) {
          if (at.live[l] && c + 2 * b < at.limit) word |= static_cast<uint32_t>(*MT_READ_AT(p + (c / 2 + b))) << (8 * b);
        }
      }
      MT_UNROLL
      for (int e = 0; e < 8; ++e) t.v[l][i * 8 + e] = static_cast<float>(word >> (4 * e) & 15u);
    }
  }
  return t;
}
template <class L>
MT_WORD void store_nibbles(Context&, const view<uint8_t>& to, const place<L>& at, const tile<float, L>& t) {
  static_assert(L::vector_elements == 8, "four bytes at a time");
  for (int l = 0; l < kLanes; ++l) {
    if (!at.live[l]) continue;
    MT_TURN_OF(l);
    uint8_t* const p = to.row(at.row[l]) + at.first_col / 2;
    MT_UNROLL
    for (int i = 0; i < L::vectors; ++i) {
      const int c = at.local_col(l, i * 8);
      uint32_t word = 0;
      MT_UNROLL
      for (int e = 0; e < 8; ++e) word |= static_cast<uint32_t>(static_cast<int32_t>(t.v[l][i * 8 + e])) << (4 * e);
      if (to.vectors && c + 8 <= at.limit) {
        *MT_WRITTEN_AT(reinterpret_cast<uint32_t*>(p + c / 2)) = word;
      } else {
        MT_UNROLL
        for (int b = 0; b < 4; ++b) {
          if (c + 2 * b < at.limit) *MT_WRITTEN_AT(p + (c / 2 + b)) = static_cast<uint8_t>(word >> (8 * b));
        }
      }
    }
  }
}

/// The same from rows of blocks, as fp32; the row's columns are whole blocks.
template <DType Q, class L>
MT_FN tile<float, L> load(Context&, const quant_view<Q>& from, const place<L>& at) {
  static_assert(L::vector_elements == 8, "blocks are unpacked by eights");
  tile<float, L> t;
  for (int l = 0; l < kLanes; ++l) {
    MT_UNROLL
    for (int i = 0; i < L::vectors; ++i) {
      const int c = at.local_col(l, i * 8);
      float out[8] = {};
      if (at.live[l] && c < at.limit) unpack8<Q>(from.row(at.row[l]), at.first_col + c, out);
      MT_UNROLL
      for (int e = 0; e < 8; ++e) t.v[l][i * 8 + e] = out[e];
    }
  }
  return t;
}

/// Table columns c / 2 at the columns c of `at`: one factor for both of a pair of neighbours.
template <class T, class L>
MT_FN tile<typename bare<T>::type, L> load_dup(Context&, const view<T>& from, const place<L>& at) {
  using U = typename bare<T>::type;
  constexpr int E = L::vector_elements;
  static_assert(sizeof(U) * E / 2 % 16 == 0, "half a vector of elements is moved at once");
  tile<U, L> t;
  for (int l = 0; l < kLanes; ++l) {
    MT_TURN_OF(l);
    const U* p = from.row(at.row[l]) + at.first_col / 2;
    MT_UNROLL
    for (int i = 0; i < L::vectors; ++i) {
      const int c = at.local_col(l, i * E);
      U raw[E / 2];
      if (at.live[l] && (L::exact ? c < at.limit : from.vectors && c + E <= at.limit)) {
        load_run<cache::read_only>(raw, 0, p + c / 2, E / 2);
      } else {
        MT_UNROLL
        for (int e = 0; e < E / 2; ++e) raw[e] = !L::exact && at.live[l] && c + 2 * e < at.limit ? p[c / 2 + e] : U{};
      }
      MT_UNROLL
      for (int e = 0; e < E; ++e) t.v[l][i * E + e] = raw[e / 2];
    }
  }
  return t;
}

/// The index of each row, -1 for rows that do not exist. Loaded by words without a branch, so that nobody waits for it before it is looked at.
template <class L>
MT_FN row_value<int64_t, L> load_index(Context&, const any_index& from, const place<L>& at) {
  row_value<int64_t, L> r;
  for (int l = 0; l < kLanes; ++l) {
    const word_alias* const p = static_cast<const word_alias*>(from.data) + (from.wide ? 2 * at.row[l] : at.row[l]);
    uint32_t low = UINT32_MAX, high = UINT32_MAX;
    if (at.live[l]) low = p[0];
    if (at.live[l] && from.wide) high = p[1];
    r.v[l] = from.wide ? static_cast<int64_t>(uint64_t{high} << 32 | low) : int64_t{static_cast<int32_t>(low)};
  }
  return r;
}

/// One value per row from a packed array, or written to it (by the first lane of the row).
template <class T, class L>
MT_FN row_value<typename bare<T>::type, L> load_row_value(Context&, T* from, const place<L>& at) {
  row_value<typename bare<T>::type, L> r;
  for (int l = 0; l < kLanes; ++l) r.v[l] = at.live[l] ? from[at.row[l]] : typename bare<T>::type{};
  return r;
}
template <class T, class U, class L>
MT_FN void store_row_value(Context&, T* to, const place<L>& at, const row_value<U, L>& r) {
  for (int l = 0; l < kLanes; ++l) {
    if (at.live[l] && at.lane[l] == 0) to[at.row[l]] = static_cast<T>(r.v[l]);
  }
}

/// The same at the start of each row of a view: scales and other values with strides of their own.
template <class T, class L>
MT_FN row_value<typename bare<T>::type, L> load_row_value(Context&, const view<T>& from, const place<L>& at) {
  row_value<typename bare<T>::type, L> r;
  for (int l = 0; l < kLanes; ++l) r.v[l] = at.live[l] ? *from.row(at.row[l]) : typename bare<T>::type{};
  return r;
}
template <class T, class U, class L>
MT_FN void store_row_value(Context&, const view<T>& to, const place<L>& at, const row_value<U, L>& r) {
  for (int l = 0; l < kLanes; ++l) {
    if (at.live[l] && at.lane[l] == 0) *to.row(at.row[l]) = static_cast<T>(r.v[l]);
  }
}

/// The same scalar for every row.
template <class T, class U, class L>
requires(__is_enum(U) || requires(U u) { u + 1; })
    MT_FN void store_row_value(Context&, T* to, const place<L>& at, U v) {
  for (int l = 0; l < kLanes; ++l) {
    if (at.live[l] && at.lane[l] == 0) to[at.row[l]] = static_cast<T>(v);
  }
}

// --- elementwise -------------------------------------------------------------------------------------------------------------------
template <class X>
struct tile_traits {
  static constexpr int level = 0;
};
template <class T, class L>
struct tile_traits<row_value<T, L>> {
  static constexpr int level = 1;
  using layout = L;
};
template <class T, class L>
struct tile_traits<tile<T, L>> {
  static constexpr int level = 2;
  using layout = L;
};
template <class X, class... Rest>
struct layout_among {
  using type = typename layout_among<Rest...>::type;
};
template <class X, class... Rest>
requires(tile_traits<X>::level > 0) struct layout_among<X, Rest...> {
  using type = typename tile_traits<X>::layout;
};

template <class T, class L>
MT_FN auto cell(const tile<T, L>& t, int l, int e) {
  return promote(t.v[l][e]);
}
template <class T, class L>
MT_FN auto cell(const row_value<T, L>& r, int l, int) {
  return promote(r.v[l]);
}
MT_FN float cell(float v, int, int) { return v; }

template <class... X>
inline constexpr int highest_level = [] {
  int m = 0;
  ((m = tile_traits<X>::level > m ? tile_traits<X>::level : m), ...);
  return m;
}();

/// f of each element; row values take part as if spread over their row. 16-bit elements arrive as fp32.
template <class F, class... X>
requires(highest_level<X...> > 0) MT_FN auto map(F f, const X&... x) {
  using L = typename layout_among<X...>::type;
  using R = decltype(f(cell(x, 0, 0)...));
  if constexpr (highest_level<X...> == 2) {
    tile<R, L> out;
    for (int l = 0; l < kLanes; ++l) {
      MT_UNROLL
      for (int e = 0; e < L::elements; ++e) out.v[l][e] = f(cell(x, l, e)...);
    }
    return out;
  } else {
    row_value<R, L> out;
    for (int l = 0; l < kLanes; ++l) out.v[l] = f(cell(x, l, 0)...);
    return out;
  }
}

/// f(column, elements...): for masks, indices and positions.
template <class L, class F, class... X>
MT_FN auto map_at(const place<L>& at, F f, const X&... x) {
  using R = decltype(f(int32_t{}, cell(x, 0, 0)...));
  tile<R, L> out;
  for (int l = 0; l < kLanes; ++l) {
    MT_UNROLL
    for (int e = 0; e < L::elements; ++e)
      out.v[l][e] = f(static_cast<int32_t>(at.first_col) + at.local_col(l, e), cell(x, l, e)...);
  }
  return out;
}

template <class T, class U, class L>
MT_FN tile<T, L> round_to(const tile<U, L>& t) {
  tile<T, L> out;
  for (int l = 0; l < kLanes; ++l) {
    MT_UNROLL
    for (int e = 0; e < L::elements; ++e) out.v[l][e] = convert<T>::apply(t.v[l][e]);
  }
  return out;
}

/// round_to<T>(map(f, x...)) of the vectors that exist, one after the other: compilers otherwise work on all at once, in as many registers as there are.
template <class T, class L, class F, class... X>
MT_FN tile<T, L> map_rounded(Context&, const place<L>& at, F f, const X&... x) {
  tile<T, L> out;
  for (int l = 0; l < kLanes; ++l) {
    MT_UNROLL
    for (int i = 0; i < L::elements; i += L::vector_elements) {
      const bool exists = at.local_col(l, i) < at.limit;
      MT_UNROLL
      for (int e = i; e < i + L::vector_elements; ++e) out.v[l][e] = T{};
      if (!exists) continue;
      MT_UNROLL
      for (int e = i; e < i + L::vector_elements; ++e) out.v[l][e] = convert<T>::apply(f(cell(x, l, e)...));
    }
  }
  return out;
}

/// Marks a value that is used twice or whose source is about to be overwritten; registers already are values.
template <class L, class X>
MT_FN const X& eval(Context&, const place<L>&, const X& x) {
  return x;
}

/// The same of an expression that is `loaded` itself where `same` says so: elsewhere that saves a copy.
template <class L, class Y, class X>
MT_FN const X& eval_unless(Context&, const place<L>&, bool, const Y&, const X& x) {
  return x;
}

/// A (value, index) pair, for ArgMax.
MT_FN indexed make_indexed(float value, int32_t index) { return {value, index}; }

/// Tiles and row values that change in a loop.
template <class L>
MT_FN tile<float, L> zeros(Context&, const place<L>&) {
  tile<float, L> t;
  for (int l = 0; l < kLanes; ++l) {
    MT_UNROLL
    for (int e = 0; e < L::elements; ++e) t.v[l][e] = 0.0f;
  }
  return t;
}
template <class L>
MT_FN row_value<float, L> row_fill(const place<L>&, float v) {
  row_value<float, L> r;
  for (int l = 0; l < kLanes; ++l) r.v[l] = v;
  return r;
}
template <class L>
MT_FN void assign(Context&, const place<L>&, tile<float, L>& to, const tile<float, L>& from) {
  to = from;
}

/// Neighbours (2i, 2i + 1) exchanged.
template <class T, class L>
MT_FN tile<T, L> swap_pairs(Context&, const tile<T, L>& t) {
  static_assert(L::vector_elements % 2 == 0, "pairs must lie in one lane");
  tile<T, L> out;
  for (int l = 0; l < kLanes; ++l) {
    MT_UNROLL
    for (int e = 0; e < L::elements; ++e) out.v[l][e] = t.v[l][e ^ 1];
  }
  return out;
}

/// `even` at even columns, `odd` at odd ones.
template <class T, class L>
MT_FN tile<T, L> pick_pairs(Context&, const tile<T, L>& even, const tile<T, L>& odd) {
  static_assert(L::vector_elements % 2 == 0, "pairs must lie in one lane");
  tile<T, L> out;
  for (int l = 0; l < kLanes; ++l) {
    MT_UNROLL
    for (int e = 0; e < L::elements; ++e) out.v[l][e] = e % 2 == 0 ? even.v[l][e] : odd.v[l][e];
  }
  return out;
}

/// The value of the program's only row as a plain scalar: it may steer branches of the whole program.
template <class T, class L>
MT_FN T uniform(const row_value<T, L>& r) {
  static_assert(L::lanes_per_row == 0, "the program has several rows");
  return r.v[0];
}

/// Two addends for one pass.
MT_FN sums make_sums(float first, float second) { return {first, second}; }

// --- reductions --------------------------------------------------------------------------------------------------------------------
template <class Op, class T>
MT_FN void reduce_lanes(T (&v)[kLanes], int width) {
  for (int mask = width / 2; mask > 0; mask /= 2) {
    T other[kLanes];
    shuffle_xor(other, v, mask);
    for (int l = 0; l < kLanes; ++l) v[l] = Op::combine(v[l], other[l]);
  }
}

/// Over all lanes of the program. Two slots take turns, so that one barrier per call is enough: a slot is written again only after
/// every lane has passed the barrier of the call in between.
template <class Op, class T>
MT_FN void reduce_program(Context& ctx, T (&v)[kLanes]) {
  reduce_lanes<Op>(v, kWave);
  const int waves = ctx.threads / kWave;
  if (waves <= 1) return;
  static_assert(sizeof(T) <= 8, "slots hold 8 bytes a wave");
  T* slot = reinterpret_cast<T*>(ctx.slots + (ctx.turn & 1) * 32 * 8);
  ++ctx.turn;
  for (int l = 0; l < kLanes; ++l) {
    if (ctx.thread(l) % kWave == 0) share(slot + ctx.thread(l) / kWave, v[l]);
  }
  ctx.barrier();
  for (int l = 0; l < kLanes; ++l) {
    const int lane = ctx.thread(l) % kWave;
    v[l] = lane < waves ? shared(slot + lane) : Op::identity(T{});
  }
  reduce_lanes<Op>(v, kWave);
}

template <class Op, class L, class T>
MT_FN void finish_rows(Context& ctx, row_value<T, L>& r) {
  if constexpr (L::lanes_per_row == 0) {
    reduce_program<Op>(ctx, r.v);
  } else {
    reduce_lanes<Op>(r.v, L::lanes_per_row);
  }
}

/// How an element enters a reduction.
template <class Op, class T, class U>
MT_FN T entered(T sum, U v) {
  if constexpr (requires { Op::squares; }) {
    return fma_of(promote(v), promote(v), sum);
  } else if constexpr (__is_same(Op, Max) && __is_same(T, float)) {
    return max_of(sum, promote(v));  // one instruction; NaN never wins
  } else {
    return Op::combine(sum, v);
  }
}

/// This lane's share of a row reduction (cells that do not exist stay out), added to `into`.
template <class Op, class T, class L>
MT_FN void accumulate(const place<L>& at, row_value<T, L>& into, const tile<T, L>& t) {
  for (int l = 0; l < kLanes; ++l) {
    T sum = into.v[l];
    if constexpr (L::exact) {
      MT_UNROLL
      for (int i = 0; i < L::vectors; ++i) {
        if (at.local_col(l, i * L::vector_elements) >= at.limit) continue;
        MT_UNROLL
        for (int e = 0; e < L::vector_elements; ++e) sum = entered<Op>(sum, t.v[l][i * L::vector_elements + e]);
      }
    } else if (at.full(l)) {
      MT_UNROLL
      for (int e = 0; e < L::elements; ++e) sum = entered<Op>(sum, t.v[l][e]);
    } else {
      MT_UNROLL
      for (int e = 0; e < L::elements; ++e) {
        if (at.local_col(l, e) < at.limit) sum = entered<Op>(sum, t.v[l][e]);
      }
    }
    into.v[l] = sum;
  }
}

/// The reduction of each row, in every lane of the row.
template <class Op, class T, class L>
MT_FN row_value<T, L> row_reduce(Context& ctx, const place<L>& at, const tile<T, L>& t) {
  row_value<T, L> r;
  for (int l = 0; l < kLanes; ++l) r.v[l] = Op::identity(T{});
  accumulate<Op>(at, r, t);
  finish_rows<Op>(ctx, r);
  return r;
}

/// The same of rows that lie in two tiles, the first half in one and the second in the other: what a layout of twice as many lanes would give, to the bit.
template <class Op, class T, class L>
MT_FN row_value<T, L> row_reduce(Context& ctx, const place<L>& at, const tile<T, L>& first, const tile<T, L>& second) {
  row_value<T, L> r, other;
  for (int l = 0; l < kLanes; ++l) r.v[l] = other.v[l] = Op::identity(T{});
  accumulate<Op>(at, r, first);
  accumulate<Op>(at, other, second);
  for (int l = 0; l < kLanes; ++l) r.v[l] = Op::combine(r.v[l], other.v[l]);
  finish_rows<Op>(ctx, r);
  return r;
}

/// Over all rows of the tile: one value per column cell, the same in each row group. Goes through scratch (ctx.threads * elements * 4 bytes).
template <class Op, class L>
MT_FN tile<float, L> col_reduce(Context& ctx, const place<L>&, const tile<float, L>& t) {
  static_assert(L::lanes_per_row != 0, "rows that fill the program have nothing to reduce");
  float* cells = reinterpret_cast<float*>(ctx.scratch);
  constexpr int E = L::elements, W = L::lanes_per_row;
  ctx.barrier();
  for (int l = 0; l < kLanes; ++l) {
    MT_UNROLL
    for (int e = 0; e < E; ++e) share(cells + e * ctx.threads + ctx.thread(l), t.v[l][e]);
  }
  ctx.barrier();
  tile<float, L> out;
  for (int l = 0; l < kLanes; ++l) {
    const int lane = ctx.thread(l) % W;
    MT_UNROLL
    for (int e = 0; e < E; ++e) {
      float sum = shared(cells + e * ctx.threads + lane);
      for (int g = W; g < ctx.threads; g += W) sum = Op::combine(sum, shared(cells + e * ctx.threads + g + lane));
      out.v[l][e] = sum;
    }
  }
  return out;
}
/// The same for one value per row.
template <class Op, class T, class L>
MT_FN row_value<T, L> rows_reduce(Context& ctx, const row_value<T, L>& r) {
  static_assert(L::lanes_per_row != 0, "rows that fill the program have nothing to reduce");
  constexpr int W = L::lanes_per_row;
  row_value<T, L> out = r;
  for (int mask = W; mask < kWave; mask *= 2) {
    T other[kLanes];
    shuffle_xor(other, out.v, mask);
    for (int l = 0; l < kLanes; ++l) out.v[l] = Op::combine(out.v[l], other[l]);
  }
  const int waves = ctx.threads / kWave;
  if (waves <= 1) return out;
  T* slot = reinterpret_cast<T*>(ctx.slots + (ctx.turn & 1) * 32 * 8);
  ++ctx.turn;
  for (int l = 0; l < kLanes; ++l) {
    if (ctx.thread(l) % kWave == 0) share(slot + ctx.thread(l) / kWave, out.v[l]);
  }
  ctx.barrier();
  for (int l = 0; l < kLanes; ++l) {
    T sum = shared(slot);
    for (int w = 1; w < waves; ++w) sum = Op::combine(sum, shared(slot + w));
    out.v[l] = sum;
  }
  return out;
}

/// Inclusive sums along each row in column order.
template <class L>
MT_FN tile<float, L> inclusive_scan(Context& ctx, const place<L>& at, const tile<float, L>& t) {
  static_assert(L::lanes_per_row == 0 || L::lanes_per_row <= kWave, "a row lies in one wave or fills the program");
  constexpr int E = L::vector_elements;
  tile<float, L> out;
  float carry[kLanes];
  for (int l = 0; l < kLanes; ++l) carry[l] = 0.0f;
  const int width = L::lanes_per_row == 0 ? kWave : L::lanes_per_row;
  const int waves = L::lanes_per_row == 0 ? ctx.threads / kWave : 1;
  MT_UNROLL
  for (int i = 0; i < L::vectors; ++i) {
    float sum[kLanes];
    for (int l = 0; l < kLanes; ++l) {
      float s = 0.0f;
      MT_UNROLL
      for (int e = 0; e < E; ++e) {
        s += at.local_col(l, i * E + e) < at.limit ? t.v[l][i * E + e] : 0.0f;
        out.v[l][i * E + e] = s;
      }
      sum[l] = s;
    }
    float scanned[kLanes], other[kLanes];
    for (int l = 0; l < kLanes; ++l) scanned[l] = sum[l];
    for (int d = 1; d < width; d *= 2) {
      shuffle_up(other, scanned, d);
      for (int l = 0; l < kLanes; ++l) {
        if (ctx.thread(l) % width >= d) scanned[l] += other[l];
      }
    }
    float before[kLanes], total[kLanes];
    shuffle_up(before, scanned, 1);  // not scanned - sum, which loses what is small beside sum
    for (int l = 0; l < kLanes; ++l) {
      if (ctx.thread(l) % width == 0) before[l] = 0.0f;
    }
    if (waves > 1) {
      float* slot = reinterpret_cast<float*>(ctx.slots + (ctx.turn & 1) * 32 * 8);
      ++ctx.turn;
      for (int l = 0; l < kLanes; ++l) {
        if (ctx.thread(l) % kWave == kWave - 1) share(slot + ctx.thread(l) / kWave, scanned[l]);
      }
      ctx.barrier();
      for (int l = 0; l < kLanes; ++l) {
        float earlier = 0.0f, all = 0.0f;
        for (int w = 0; w < waves; ++w) {
          const float sum_of_wave = shared(slot + w);
          if (w < ctx.thread(l) / kWave) earlier += sum_of_wave;
          all += sum_of_wave;
        }
        before[l] += earlier;
        total[l] = all;
      }
    } else {
      for (int l = 0; l < kLanes; ++l) total[l] = scanned[l];
      row_value<float, L> last;  // the last lane's sum, for every lane of the row
      for (int l = 0; l < kLanes; ++l) last.v[l] = ctx.thread(l) % width == width - 1 ? total[l] : 0.0f;
      reduce_lanes<Sum>(last.v, width);
      for (int l = 0; l < kLanes; ++l) total[l] = last.v[l];
    }
    for (int l = 0; l < kLanes; ++l) {
      MT_UNROLL
      for (int e = 0; e < E; ++e) out.v[l][i * E + e] += carry[l] + before[l];
      carry[l] += total[l];
    }
  }
  return out;
}

// --- rows that stay on chip, or are read again -------------------------------------------------------------------------------------
/// A row as a value: `make(place)` gives its tile (and may store on the way: it runs once per chunk); where the row is too long to stay in
/// registers, later passes call `again(place)` instead.
template <class L, class Make, class Again>
struct held_row {
  using tile_type = decltype(static_cast<Make*>(nullptr)->operator()(*static_cast<const place<L>*>(nullptr)));
  place<L> at;
  Make make;
  Again again;
  bool made;
  tile_type kept;
};

template <class L, class Make, class Again>
MT_FN held_row<L, Make, Again> hold(Context&, const place<L>& at, Make make, Again again) {
  if constexpr (L::streaming) {
    return {at, make, again, false, {}};
  } else {
    return {at, make, again, true, make(at)};
  }
}
template <class L, class Make>
MT_FN auto hold(Context& ctx, const place<L>& at, Make make) {
  return hold(ctx, at, make, make);
}

/// A tile, or a row that stays on chip, waits as the elements it was made of: compilers otherwise keep what they computed from it for later use, in twice
/// the registers, or compute ahead of a branch what both of its sides want.
template <class T, class L>
MT_FN void settle(Context&, tile<T, L>& t) {
  constexpr int kPer = 4 / static_cast<int>(sizeof(T));
  for (int l = 0; l < kLanes; ++l) {
    MT_UNROLL
    for (int e = 0; e < L::elements; e += kPer) {
      uint32_t word = 0;
      MT_UNROLL
      for (int i = 0; i < kPer; ++i) word |= bits_of(t.v[l][e + i]) << (8 * static_cast<int>(sizeof(T)) * i);
      hide(word);
      MT_UNROLL
      for (int i = 0; i < kPer; ++i) t.v[l][e + i] = element_of<T>(vector16{{word, 0, 0, 0}}, i);
    }
  }
}
template <class L, class Make, class Again>
MT_FN void settle(Context& ctx, held_row<L, Make, Again>& h) {
  if constexpr (!L::streaming) settle(ctx, h.kept);
}

/// Some of a lane's vectors as a tile of their own, and where they are.
template <class L, int Vectors>
using part_of = blocked<L::vector_elements, Vectors, L::lanes_per_row, false, L::exact>;
template <int Vectors, class L>
MT_FN place<part_of<L, Vectors>> part_at(const place<L>& at, int first_vector) {
  place<part_of<L, Vectors>> part;
  for (int l = 0; l < kLanes; ++l) {
    part.row[l] = at.row[l];
    part.live[l] = at.live[l];
    part.lane[l] = at.lane[l];
  }
  part.width = at.width;
  part.cols = at.cols;
  return chunk_at(part, at.first_col + first_vector * static_cast<int64_t>(at.width) * L::vector_elements);
}
template <class T, class L, class Part>
MT_FN void put_part(tile<T, L>& to, int first_vector, const tile<T, Part>& part) {
  for (int l = 0; l < kLanes; ++l) {
    MT_UNROLL
    for (int e = 0; e < Part::elements; ++e) to.v[l][first_vector * L::vector_elements + e] = part.v[l][e];
  }
}
template <int Vectors, class T, class L>
MT_FN tile<T, part_of<L, Vectors>> get_part(const tile<T, L>& from, int first_vector) {
  tile<T, part_of<L, Vectors>> part;
  for (int l = 0; l < kLanes; ++l) {
    MT_UNROLL
    for (int e = 0; e < part_of<L, Vectors>::elements; ++e)
      part.v[l][e] = from.v[l][first_vector * L::vector_elements + e];
  }
  return part;
}

/// The tile at `at` from f of its first vectors and then of its last: what f loads on the way needs half the registers.
template <class T, class L, class F>
MT_FN tile<T, L> in_halves(Context&, const place<L>& at, F f) {
  static_assert(L::vectors % 2 == 0 && !L::streaming, "two halves");
  constexpr int kHalf = L::vectors / 2;
  tile<T, L> t;
  MT_UNROLL
  for (int i = 0; i < 2; ++i) put_part(t, i * kHalf, f(part_at<kHalf>(at, i * kHalf)));
  return t;
}

/// Puts a tile of a row into scratch on its way, for `unstash` in later passes over the same places: rows too long for registers, but not for
/// scratch (the row's elements, rounded up to whole tiles). Each lane meets its own elements again, so nobody waits.
template <class L>
MT_FN vector16* stash_slot(Context& ctx, const place<L>& at, int l, int vector, int piece, int pieces) {
  const int chunk = static_cast<int>(at.first_col / chunk_cols(at));
  return reinterpret_cast<vector16*>(ctx.scratch) + ((chunk * L::vectors + vector) * pieces + piece) * ctx.threads +
         ctx.thread(l);
}
template <class T, class L>
MT_FN const tile<T, L>& stash(Context& ctx, const place<L>& at, const tile<T, L>& t) {
  constexpr int E = L::vector_elements, kPer = 16 / static_cast<int>(sizeof(T));
  static_assert(L::lanes_per_row == 0 && L::streaming, "long rows only");
  for (int l = 0; l < kLanes; ++l) {
    MT_UNROLL
    for (int i = 0; i < L::vectors; ++i) {
      MT_UNROLL
      for (int j = 0; j < E / kPer; ++j) share(stash_slot(ctx, at, l, i, j, E / kPer), pack16(t.v[l] + i * E + j * kPer));
    }
  }
  return t;
}
template <class T, class L>
MT_FN tile<T, L> unstash(Context& ctx, const place<L>& at) {
  constexpr int E = L::vector_elements, kPer = 16 / static_cast<int>(sizeof(T));
  tile<T, L> t;
  for (int l = 0; l < kLanes; ++l) {
    MT_UNROLL
    for (int i = 0; i < L::vectors; ++i) {
      MT_UNROLL
      for (int j = 0; j < E / kPer; ++j) {
        const vector16 v = shared(stash_slot(ctx, at, l, i, j, E / kPer));
        MT_UNROLL
        for (int e = 0; e < kPer; ++e) t.v[l][i * E + j * kPer + e] = element_of<T>(v, e);
      }
    }
  }
  return t;
}

/// Op over f of the elements of each row.
template <class Op, class L, class Make, class Again, class F>
MT_FN auto fold(Context& ctx, held_row<L, Make, Again>& h, F f) {
  using R = decltype(f(promote(h.kept.v[0][0])));
  row_value<R, L> r;
  for (int l = 0; l < kLanes; ++l) r.v[l] = Op::identity(R{});
  if constexpr (L::streaming) {
    for (int64_t c = 0; c < h.at.cols; c += chunk_cols(h.at)) {
      const place<L> at = chunk_at(h.at, c);
      accumulate<Op>(at, r, h.made ? map(f, h.again(at)) : map(f, h.make(at)));
    }
    h.made = true;
  } else {
    accumulate<Op>(h.at, r, map(f, h.kept));
  }
  finish_rows<Op>(ctx, r);
  return r;
}
/// This lane's share of Op over f(column, element), element by element: no second tile is held.
template <class Op, class R, class L, class F, class T>
MT_FN void accumulate_at(const place<L>& at, row_value<R, L>& into, F f, const tile<T, L>& t) {
  for (int l = 0; l < kLanes; ++l) {
    MT_UNROLL
    for (int e = 0; e < L::elements; ++e) {
      const int32_t c = at.local_col(l, e);
      if (c < at.limit)
        into.v[l] = Op::combine(into.v[l], f(static_cast<int32_t>(at.first_col) + c, promote(t.v[l][e])));
    }
  }
}
/// The same with f(column, element).
template <class Op, class L, class Make, class Again, class F>
MT_FN auto fold_at(Context& ctx, held_row<L, Make, Again>& h, F f) {
  using R = decltype(f(int32_t{}, promote(h.kept.v[0][0])));
  row_value<R, L> r;
  for (int l = 0; l < kLanes; ++l) r.v[l] = Op::identity(R{});
  if constexpr (L::streaming) {
    for (int64_t c = 0; c < h.at.cols; c += chunk_cols(h.at)) {
      const place<L> at = chunk_at(h.at, c);
      accumulate_at<Op>(at, r, f, h.made ? h.again(at) : h.make(at));
    }
    h.made = true;
  } else {
    accumulate_at<Op>(h.at, r, f, h.kept);
  }
  finish_rows<Op>(ctx, r);
  return r;
}
/// The better of `start` and Op over f(column, element) of the elements where first(column, element) and then
/// then(column, element, the lane's best so far) hold, for idempotent Op. f takes scalars on every target (long integer arithmetic that has no packs).
/// `then` and f are there once, whatever a lane holds.
template <class Op, class L, class First, class Then, class F, class R, class T>
MT_FN void accumulate_where(const place<L>& at, row_value<R, L>& into, First first, Then then, F f,
                            const tile<T, L>& t) {
  static_assert(L::elements <= 32, "one bit per element");
  for (int l = 0; l < kLanes; ++l) {
    uint32_t wanted = 0;
    MT_UNROLL
    for (int e = 0; e < L::elements; ++e) {
      const int32_t c = at.local_col(l, e);
      if (c < at.limit && first(static_cast<int32_t>(at.first_col) + c, promote(t.v[l][e]))) wanted |= 1u << e;
    }
    while (wanted != 0) {
      const int next = lowest_bit(wanted);
      wanted &= wanted - 1;
      const auto v = element_at(t.v[l], next);
      const int32_t c = static_cast<int32_t>(at.first_col) + at.local_col(l, next);
      if (then(c, v, into.v[l])) into.v[l] = Op::combine(into.v[l], f(c, v));
    }
  }
}
template <class Op, class R, class L, class Make, class Again, class First, class Then, class F>
MT_FN row_value<R, L> fold_where(Context& ctx, held_row<L, Make, Again>& h, R start, First first, Then then, F f) {
  row_value<R, L> r;
  for (int l = 0; l < kLanes; ++l) r.v[l] = start;
  if constexpr (L::streaming) {
    for (int64_t c = 0; c < h.at.cols; c += chunk_cols(h.at)) {
      const place<L> at = chunk_at(h.at, c);
      accumulate_where<Op>(at, r, first, then, f, h.made ? h.again(at) : h.make(at));
    }
    h.made = true;
  } else {
    accumulate_where<Op>(h.at, r, first, then, f, h.kept);
  }
  finish_rows<Op>(ctx, r);
  return r;
}

/// 1 - u of the random draw for `token`, to 31 bits, rounded down.
MT_FN float random_tail(uint64_t seed, int64_t position, random::Purpose purpose, int32_t token) {
  return static_cast<float>(~random::bits(seed, position, purpose, static_cast<uint32_t>(token)) >> 1) * 0x1p-31f;
}

/// The row of f(element, x...) with row values x: kept where rows are kept, computed anew by every pass where rows are read again.
template <class L, class Make, class Again, class F, class... X>
MT_FN auto held_map(Context&, held_row<L, Make, Again>& h, F f, const X&... x) {
  auto again = [&h, f, x...](const place<L>& at) { return map(f, h.again(at), x...); };
  using A = decltype(again);
  if constexpr (L::streaming) {
    return held_row<L, A, A>{h.at, again, again, true, {}};
  } else {
    return held_row<L, A, A>{h.at, again, again, true, map(f, h.kept, x...)};
  }
}

/// The row of f(place, tile), which f evaluates: where it wants the columns too.
template <class L, class Make, class Again, class F>
MT_FN auto hold_from(Context&, held_row<L, Make, Again>& h, F f) {
  auto again = [&h, f](const place<L>& at) { return f(at, h.again(at)); };
  using A = decltype(again);
  if constexpr (L::streaming) {
    return held_row<L, A, A>{h.at, again, again, true, {}};
  } else {
    return held_row<L, A, A>{h.at, again, again, true, f(h.at, h.kept)};
  }
}

/// visit(place, tile) for each chunk of the row.
template <class L, class Make, class Again, class Visit>
MT_FN void each(Context&, held_row<L, Make, Again>& h, Visit visit) {
  if constexpr (L::streaming) {
    for (int64_t c = 0; c < h.at.cols; c += chunk_cols(h.at)) {
      const place<L> at = chunk_at(h.at, c);
      if (h.made) {
        visit(at, h.again(at));
      } else {
        visit(at, h.make(at));
      }
    }
    h.made = true;
  } else {
    visit(h.at, h.kept);
  }
}

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME
