#pragma once
// Rows to other places, bit for bit: blocks of caches, rows by index.

#include "monotile/kernels/kv_cache/params.hpp"
#include "monotile/lang/lang.hpp"
#include "monotile/lang/prefetch.hpp"

namespace monotile::kernels {
using namespace lang;  // NOLINT: kernels are written in the language

/// One program per chunk of columns of a group of rows of L: few long rows fill the machine as many short ones do.
template <class T, class L>
struct CopyRows {
  using Params = CopyRowsParams<T>;

  template <class Ctx>
  static MT_FN void run(Ctx& ctx, const Params& p) {
    const bool first = ctx.program < p.first_programs;
    const CopyRowsPart<T>& part = p.part[first ? 0 : 1];
    const uint32_t a = p.a, b = p.b;
    const int64_t index_step = p.index_step, from_count = p.from_count, to_count = p.to_count;
    const auto row = chunks_of<L>(ctx, p.items * a * b, part.cols, part.chunks, first ? 0 : p.first_programs);
    const auto item_of = [=](const auto& at) {
      return map([=](auto r) { return static_cast<int64_t>(static_cast<uint32_t>(r) / (a * b)); }, row_index(at));
    };
    const auto item = item_of(row);
    const auto entry_of = [=](const auto& at, const auto& i) {
      return at_rows(at, map([=](auto n) { return n * index_step; }, i));
    };
    const auto entry = entry_of(row, item);
    const auto from = p.from_index.data != nullptr ? load_index(ctx, p.from_index, entry) : item;
    const auto to = p.to_index.data != nullptr ? load_index(ctx, p.to_index, entry) : item;
    if (p.status != nullptr) {
      const auto bad = map(
          [=](auto f, auto t, auto i) { return f < 0 || f >= from_count || t < 0 || t >= to_count ? i : int64_t{-1}; },
          from, to, item);
      store_row_value(ctx, p.status, at_rows(row, bad), map([](auto) { return int32_t{1}; }, item));
    }
    const auto inner_of = [=](const auto& at) {
      return map([=](auto r) { return static_cast<int64_t>(static_cast<uint32_t>(r) % (a * b)); }, row_index(at));
    };
    const auto inner = inner_of(row);
    const auto offset_of = [=](auto index, auto in, const int64_t(&stride)[3], int64_t count) {
      return index < 0 || index >= count ? int64_t{-1} : index * stride[0] + in / b * stride[1] + in % b * stride[2];
    };
    const auto source_of = [&](const auto& index, const auto& in) {
      return map([&](auto f, auto i) { return offset_of(f, i, part.from_stride, from_count); }, index, in);
    };
    prefetch_next(ctx, part.from, row, [&](const auto& at) {
      const auto next = item_of(at);
      return at_rows(at, source_of(p.from_index.data != nullptr ? load_index(ctx, p.from_index, entry_of(at, next)) : next, inner_of(at)));
    });
    const auto source = source_of(from, inner);
    const bool zeros = p.zeros;
    const auto target =
        map([&](auto t, auto f,
                auto in) { return f < 0 && !zeros ? int64_t{-1} : offset_of(t, in, part.to_stride, to_count); },
            to, source, inner);
    store(ctx, part.to, at_rows(row, target), load(ctx, part.from, at_rows(row, source)));
  }
};

}  // namespace monotile::kernels
