#pragma once
// What a row asks of sampling.

#include "monotile/kernels/sampling/params.hpp"
#include "monotile/lang/items.hpp"

namespace monotile::kernels {
using namespace lang;  // NOLINT: kernels are written in the language

template <class T, class Ctx, class Place>
MT_FN T row_parameter(Ctx& ctx, const T* values, const Place& row, T otherwise) {
  return values == nullptr ? otherwise : uniform(load_row_value(ctx, values, row));
}

struct RowFilters {
  float temperature, top_p, min_p;
  int32_t top_k;  ///< 0: off
  bool greedy, by_mass;

  template <class Ctx, class Params, class Place>
  static MT_FN RowFilters of(Ctx& ctx, const Params& p, const Place& row) {
    constexpr float kGreedyTemperature = 1e-5f;
    RowFilters f{};
    f.temperature = row_parameter(ctx, p.temperature, row, 1.0f);
    f.greedy = !(f.temperature >= kGreedyTemperature);
    f.top_k = row_parameter(ctx, p.top_k, row, int32_t{0});
    if (f.top_k < 0 || f.top_k >= p.cols) f.top_k = 0;
    f.top_p = row_parameter(ctx, p.top_p, row, 1.0f);
    f.by_mass = f.top_p > 0.0f && f.top_p < 1.0f;
    f.min_p = row_parameter(ctx, p.min_p, row, 0.0f);
    return f;
  }
  /// Every token may be drawn.
  MT_FN bool none() const { return top_k == 0 && !by_mass && !(min_p > 0.0f); }
};

}  // namespace monotile::kernels
