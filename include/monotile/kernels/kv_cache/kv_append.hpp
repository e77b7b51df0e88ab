#pragma once
// Rows of new keys and values to their slots in paged caches.

#include "monotile/kernels/kv_cache/params.hpp"
#include "monotile/lang/lang.hpp"
#include "monotile/lang/prefetch.hpp"

namespace monotile::kernels {
using namespace lang;  // NOLINT: kernels are written in the language

/// One program per group of (token, head) rows of L; first those of the keys, then those of the values.
template <class X, class C, class L>
struct KvAppend {
  using Params = KvAppendParams<X, C>;

  template <class Ctx>
  static MT_FN void run(Ctx& ctx, const Params& p) {
    const bool first = ctx.program < p.first_programs;
    const KvAppendPart<X, C>& part = p.part[first ? 0 : 1];
    const uint32_t heads = p.heads;
    const int64_t slot_count = p.slot_count, page_size = p.page_size;

    const auto row = rows_of<L>(ctx, p.rows, part.cols, first ? 0 : p.first_programs);
    const auto token =
        map([=](auto r) { return static_cast<int64_t>(static_cast<uint32_t>(r) / heads); }, row_index(row));
    const auto slot = load_index(ctx, p.slots, at_rows(row, token));
    if (p.status != nullptr) {
      const auto bad = map([=](auto s, auto t) { return s >= slot_count ? t : int64_t{-1}; }, slot, token);
      store_row_value(ctx, p.status, at_rows(row, bad), map([](auto) { return int32_t{1}; }, token));
    }
    const auto offset = map(
        [&](auto s, auto r) {
          const int64_t page = s / page_size, head = static_cast<uint32_t>(r) % heads;
          const int64_t at =
              page * part.page_stride + head * part.head_stride + (s - page * page_size) * part.token_stride;
          return s < 0 || s >= slot_count ? int64_t{-1} : at;
        },
        slot, row_index(row));
    prefetch_next(ctx, part.source, row, [](const auto& at) { return at; });
    auto x = hold(ctx, row, [&](const auto& at) { return load(ctx, part.source, at); });
    each(ctx, x, [&](const auto& at, const auto& v) { store(ctx, part.cache, at_rows(at, offset), v); });
  }
};

}  // namespace monotile::kernels
