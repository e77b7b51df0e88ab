#pragma once
// Rows of new keys and values to their slots in paged caches.

#include "monotile/kernels/kv_cache/slots.hpp"
#include "monotile/lang/prefetch.hpp"

namespace monotile::kernels {

/// One program per group of (token, head) rows of L, of keys and values alike: both are on their way before the slot is known.
template <class X, class C, class L>
struct KvAppend {
  using Params = KvAppendParams<X, C>;

  template <class Ctx>
  static MT_FN void run(Ctx& ctx, const Params& p) {
    const auto row = rows_of<L>(ctx, p.rows, p.part[0].cols);
    const auto held = [&](const KvAppendPart<X, C>& part) {
      const auto all = with_cols(row, part.cols);
      prefetch_next(ctx, part.source, all, [](const auto& at) { return at; });
      return hold(ctx, all, [&](const auto& at) { return load(ctx, part.source, at); });
    };
    auto keys = held(p.part[0]), values = held(p.part[1]);
    const auto token = token_of_rows(row, p.heads), head = head_of_rows(row, p.heads, token);
    const auto slots = find_slots(ctx, row, p.slots, token, load_index(ctx, p.slots.slots, at_rows(row, token)));
    const auto append = [&](const KvAppendPart<X, C>& part, auto& x) {
      const auto offset = slots.offsets(part.page_stride, part.head_stride, part.token_stride, head);
      each(ctx, x, [&](const auto& at, const auto& v) { store(ctx, part.cache, at_rows(at, offset), v); });
    };
    append(p.part[0], keys);
    append(p.part[1], values);
  }
};

}  // namespace monotile::kernels
