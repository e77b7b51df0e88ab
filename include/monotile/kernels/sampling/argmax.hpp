#pragma once
// Index of the largest logit of each row.

#include "monotile/kernels/sampling/params.hpp"
#include "monotile/lang/lang.hpp"
#include "monotile/row_status.hpp"

namespace monotile::kernels {
using namespace lang;  // NOLINT: kernels are written in the language

/// One program per row.
template <class X, class L>
struct Argmax {
  using Params = ArgmaxParams<X>;

  template <class Ctx>
  static MT_FN void run(Ctx& ctx, const Params& p) {
    const auto row = rows_of<L>(ctx, p.rows, p.cols);
    auto x = hold(ctx, row, [&](const auto& at) { return load(ctx, p.logits, at); });
    const auto best =
        fold_at<ArgMax>(ctx, x, [](auto c, auto v) { return make_indexed(select(is_nan(v), -kInfinity, v), c); });
    store_row_value(ctx, p.ids, row, map([](auto b) { return b.value == -kInfinity ? 0 : b.index; }, best));
    if (p.status != nullptr) {
      store_row_value(ctx, p.status, row,
                      map([](auto b) { return b.value == -kInfinity ? ops::row_no_valid_token : ops::row_ok; }, best));
    }
  }
};

}  // namespace monotile::kernels
