#pragma once
// Rows of paged caches by slot, as values: what prefill over cached tokens and other engines want side by side.

#include "monotile/kernels/kv_cache/slots.hpp"
#include "monotile/lang/prefetch.hpp"

namespace monotile::kernels {

/// One program per group of (token, head) rows of L, of keys and values alike.
template <class L>
struct KvGather {
  using Params = KvGatherParams;

  template <class Ctx>
  static MT_FN void run(Ctx& ctx, const Params& p) {
    const auto row = rows_of<L>(ctx, p.rows, p.part[0].cols);
    const auto token = token_of_rows(row, p.heads), head = head_of_rows(row, p.heads, token);
    const auto slots = find_slots(ctx, row, p.slots, token, load_index(ctx, p.slots.slots, at_rows(row, token)));
    const auto to = [&](int i) { return with_cols(row, p.part[i].cols); };
    const auto in_cache = [](const KvGatherPart& part, const auto& at, const auto& of_slots, const auto& of_heads) {
      return at_rows(at, of_slots.offsets(part.page_stride, part.head_stride, part.token_stride, of_heads));
    };
    const auto from = [&](int i) { return in_cache(p.part[i], to(i), slots, head); };
    MT_UNROLL
    for (int i = 0; i < 2; ++i) {
      prefetch_next(ctx, p.part[i].cache, to(i), [&](const auto& at) {
        const auto next = token_of_rows(at, p.heads);
        const auto next_slots = places_of_slots(p.slots, load_index(ctx, p.slots.slots, at_rows(at, next)));
        return in_cache(p.part[i], at, next_slots, head_of_rows(at, p.heads, next));
      });
    }
    if (!p.codes) {
      MT_UNROLL
      for (int i = 0; i < 2; ++i) store_any(ctx, p.part[i].y, to(i), load_any(ctx, p.part[i].cache, from(i)));
      return;
    }
    // Codes and scales of both are on their way before the first is looked at.
    const auto codes = repeat<2>([&](int i) { return load_ahead(ctx, p.part[i].cache, from(i)); });
    const auto scales = repeat<2>([&](int i) {
      const KvGatherPart& part = p.part[i];
      return load_row_value(
          ctx, part.scales,
          at_rows(row, slots.offsets(part.scale_page_stride, part.scale_head_stride, part.scale_token_stride, head)));
    });
    MT_UNROLL
    for (int i = 0; i < 2; ++i) {
      store_any(ctx, p.part[i].y, to(i),
                map([](auto q, auto s) { return q * s; }, arrived(ctx, codes[i], from(i)), scales[i]));
    }
  }
};

}  // namespace monotile::kernels
