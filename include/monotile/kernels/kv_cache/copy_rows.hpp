#pragma once
// Rows to other places, bit for bit: blocks of caches, rows by index.

#include "monotile/kernels/kv_cache/params.hpp"
#include "monotile/lang/lang.hpp"

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
    const auto item =
        map([=](auto r) { return static_cast<int64_t>(static_cast<uint32_t>(r) / (a * b)); }, row_index(row));
    const auto entry = at_rows(row, map([=](auto i) { return i * index_step; }, item));
    const auto from = p.from_index.data != nullptr ? load_index(ctx, p.from_index, entry) : item;
    const auto to = p.to_index.data != nullptr ? load_index(ctx, p.to_index, entry) : item;
    if (p.status != nullptr) {
      const auto bad = map(
          [=](auto f, auto t, auto i) { return f < 0 || f >= from_count || t < 0 || t >= to_count ? i : int64_t{-1}; },
          from, to, item);
      store_row_value(ctx, p.status, at_rows(row, bad), map([](auto) { return int32_t{1}; }, item));
    }
    const auto inner =
        map([=](auto r) { return static_cast<int64_t>(static_cast<uint32_t>(r) % (a * b)); }, row_index(row));
    const auto offset_of = [=](auto index, auto in, const int64_t(&stride)[3], int64_t count) {
      return index < 0 || index >= count ? int64_t{-1} : index * stride[0] + in / b * stride[1] + in % b * stride[2];
    };
    const auto source =
        map([&](auto f, auto in) { return offset_of(f, in, part.from_stride, from_count); }, from, inner);
    const bool zeros = p.zeros;
    const auto target =
        map([&](auto t, auto f,
                auto in) { return f < 0 && !zeros ? int64_t{-1} : offset_of(t, in, part.to_stride, to_count); },
            to, source, inner);
    store(ctx, part.to, at_rows(row, target), load(ctx, part.from, at_rows(row, source)));
  }
};

}  // namespace monotile::kernels
