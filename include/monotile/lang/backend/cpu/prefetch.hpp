#pragma once
// Rows of programs to come, on CPU: a thread runs one program after the other, and the memory of the next ones waits for nobody else.

#include "monotile/lang/backend/cpu/tile.hpp"

namespace monotile::lang::inline MONOTILE_TARGET_NAME {

template <class T>
MT_FN int64_t row_size(const view<T>&, int64_t cols) { return cols * static_cast<int64_t>(sizeof(T)); }
template <class T>
MT_FN const unsigned char* row_start(const view<T>& v, int64_t row) { return reinterpret_cast<const unsigned char*>(v.row(row)); }
MT_FN int64_t row_size(const any_view& v, int64_t cols) { return cols * dtype_info(v.dtype).block_bytes; }
MT_FN const unsigned char* row_start(const any_view& v, int64_t row) { return row_bytes(v, row); }
template <DType Q>
MT_FN int64_t row_size(const quant_view<Q>&, int64_t cols) { return cols / quant_view<Q>::block_elements * quant_view<Q>::block_bytes; }
template <DType Q>
MT_FN const unsigned char* row_start(const quant_view<Q>& v, int64_t row) { return v.row(row); }

/// Asks for a row of `from` before its program comes: `place_of(place)` tells where the program of another place reads. Long rows come piece by piece while
/// this one is worked on, short ones at once and some programs ahead.
template <class View, class L, class F>
MT_FN void prefetch_next([[maybe_unused]] Context& ctx, [[maybe_unused]] const View& from, [[maybe_unused]] const place<L>& at, [[maybe_unused]] F place_of) {
#if defined(__AVX2__)
  constexpr int64_t kAhead = 4096, kLine = 64;
  const int64_t bytes = row_size(from, at.cols);
  if (4 * ctx.programs * bytes < kPastCaches || bytes == 0) return;  // there is a price, and most of it is near
  ctx.told = true;
  const int64_t distance = bytes >= kShortRow ? 1 : kAhead >> (63 - __builtin_clzll(static_cast<uint64_t>(bytes)));
  if (at.row + distance >= at.rows) return;
  const place<L> read = place_of(place<L>{at.row + distance, at.cols, true, at.rows});
  if (!read.live) return;
  const unsigned char* const row = row_start(from, read.row);
  if (bytes >= kShortRow) {
    if (ctx.rows_ahead < kMostAhead) ctx.ahead[ctx.rows_ahead++] = {row, bytes};
  } else {
    for (int64_t i = 0; i < bytes; i += kLine) _mm_prefetch(reinterpret_cast<const char*>(row + i), _MM_HINT_T0);
  }
#endif
}

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME
