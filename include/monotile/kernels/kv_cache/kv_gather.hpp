#pragma once
// Rows of paged caches by slot, as values: what prefill over cached tokens and other engines want side by side.

#include "monotile/kernels/kv_cache/params.hpp"
#include "monotile/lang/lang.hpp"
#include "monotile/lang/prefetch.hpp"

namespace monotile::kernels {
using namespace lang;  // NOLINT: kernels are written in the language

/// One program per group of (token, head) rows of L; first those of the keys, then those of the values.
template <class L>
struct KvGather {
  using Params = KvGatherParams;

  template <class Ctx>
  static MT_FN void run(Ctx& ctx, const Params& p) {
    const bool first = ctx.program < p.first_programs;
    const KvGatherPart& part = p.part[first ? 0 : 1];
    const uint32_t heads = p.heads;
    const int64_t slot_count = p.slot_count, page_size = p.page_size;
    const auto row = rows_of<L>(ctx, p.rows, part.cols, first ? 0 : p.first_programs);
    const auto token_of = [=](const auto& at) {
      return map([=](auto r) { return static_cast<int64_t>(static_cast<uint32_t>(r) / heads); }, row_index(at));
    };
    const auto token = token_of(row);
    const auto slot = load_index(ctx, p.slots, at_rows(row, token));
    if (p.status != nullptr) {
      const auto bad = map([=](auto s, auto t) { return s >= slot_count ? t : int64_t{-1}; }, slot, token);
      store_row_value(ctx, p.status, at_rows(row, bad), map([](auto) { return int32_t{1}; }, token));
    }
    const auto offset_at = [=](const auto& at, const auto& of_slot, int64_t page_stride, int64_t head_stride, int64_t token_stride) {
      return map(
          [=](auto s, auto r) {
            const int64_t page = s / page_size, head = static_cast<uint32_t>(r) % heads;
            return s < 0 || s >= slot_count
                       ? int64_t{-1}
                       : page * page_stride + head * head_stride + (s - page * page_size) * token_stride;
          },
          of_slot, row_index(at));
    };
    prefetch_next(ctx, part.cache, row, [&](const auto& at) {
      const auto next = load_index(ctx, p.slots, at_rows(at, token_of(at)));
      return at_rows(at, offset_at(at, next, part.page_stride, part.head_stride, part.token_stride));
    });
    const auto source = at_rows(row, offset_at(row, slot, part.page_stride, part.head_stride, part.token_stride));
    if (!part.codes) {
      store_any(ctx, part.y, row, load_any(ctx, part.cache, source));
      return;
    }
    const auto scale = load_row_value(
        ctx, part.scales,
        at_rows(row, offset_at(row, slot, part.scale_page_stride, part.scale_head_stride, part.scale_token_stride)));
    store_any(ctx, part.y, row, map([](auto q, auto s) { return q * s; }, load_codes(ctx, part.cache, source), scale));
  }
};

}  // namespace monotile::kernels
