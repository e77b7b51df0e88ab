#pragma once
// Index of the largest logit of each row.

#include "monotile/kernels/sampling/params.hpp"
#include "monotile/lang/items.hpp"
#include "monotile/row_status.hpp"

namespace monotile::kernels {
using namespace lang;  // NOLINT: kernels are written in the language

/// NaN never wins.
struct number_at {
  template <class C, class V>
  MT_FN auto operator()(C c, V v) const {
    return make_indexed(select(is_nan(v), -kInfinity, v), c);
  }
};
/// The result of a row, and whether it has a number at all.
struct argmax_id {
  template <class B>
  MT_FN int32_t operator()(const B& b) const {
    return b.value == -kInfinity ? 0 : b.index;
  }
};
struct argmax_status {
  template <class B>
  MT_FN int32_t operator()(const B& b) const {
    return b.value == -kInfinity ? ops::row_no_valid_token : ops::row_ok;
  }
};

/// One program per row.
template <class X, class L>
struct Argmax {
  using Params = ArgmaxParams<X>;

  template <class Ctx>
  static MT_FN void run(Ctx& ctx, const Params& p) {
    const auto row = rows_of<L>(ctx, p.rows, p.cols);
    auto x = hold(ctx, row, [&](const auto& at) { return load(ctx, p.logits, at); });
    const auto best = fold_at<ArgMax>(ctx, x, number_at{});
    store_row_value(ctx, p.ids, row, map(argmax_id{}, best));
    if (p.status != nullptr) store_row_value(ctx, p.status, row, map(argmax_status{}, best));
  }
};

/// Long rows: one program per chunk of a row, then one per row.
template <class X, class L>
struct ArgmaxChunk {
  using Params = ArgmaxParams<X>;

  template <class Ctx>
  static MT_FN void run(Ctx& ctx, const Params& p) {
    const auto at = chunks_of<L>(ctx, p.rows, p.cols, p.chunks);
    const auto best = row_reduce<ArgMax>(ctx, at, map_at(at, number_at{}, load<cache::stream>(ctx, p.logits, at)));
    const auto here = at_rows(at, program_of(ctx));
    store_row_value(ctx, p.largest, here, map([](auto b) { return b.value; }, best));
    store_row_value(ctx, p.columns, here, map([](auto b) { return b.index; }, best));
  }
};
template <class X, class L>
struct ArgmaxRow {
  using Params = ArgmaxParams<X>;

  template <class Ctx>
  static MT_FN void run(Ctx& ctx, const Params& p) {
    const auto row = rows_of<L>(ctx, p.rows, p.chunks);
    const int64_t first = program_of(ctx) * p.chunks;
    const float* const largest = p.largest + first;
    const int32_t* const columns = p.columns + first;
    const indexed best = fold_items<ArgMax>(ctx, p.chunks, [=](int32_t i) { return indexed{largest[i], columns[i]}; });
    store_row_value(ctx, p.ids, row, argmax_id{}(best));
    if (p.status != nullptr) store_row_value(ctx, p.status, row, argmax_status{}(best));
  }
};

}  // namespace monotile::kernels
