#include <cmath>

#include "ops/norm/norm.hpp"
#include "ops/reference.hpp"

namespace monotile::ops {

using reference::get;
using reference::round_to;
using reference::set;

namespace {

/// Offset of the first element of row `row`, rows counted over all outer dimensions.
int64_t row_offset(const TensorView& view, int64_t row) {
  int64_t offset = 0;
  for (int axis = view.rank - 2; axis >= 0; --axis) {
    offset += row % view.dim(axis) * view.step(axis);
    row /= view.dim(axis);
  }
  return offset;
}

}  // namespace

void rms_norm_reference_run(const RmsNormArgs& args) {
  const int64_t cols = args.x.dim(-1);
  int64_t rows = 1;
  for (int axis = 0; axis < args.x.rank - 1; ++axis) rows *= args.x.dim(axis);
  std::vector<double> h(static_cast<size_t>(cols));
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t x = row_offset(args.x, row), y = row_offset(args.y, row);
    for (int64_t col = 0; col < cols; ++col) h[static_cast<size_t>(col)] = get(args.x, x + col);
    if (args.residual.defined()) {
      const int64_t residual = row_offset(args.residual, row);
      for (int64_t col = 0; col < cols; ++col) {
        // The contract: an fp32 sum, rounded to the residual's dtype; what follows uses the sum as stored.
        const float sum =
            static_cast<float>(h[static_cast<size_t>(col)]) + static_cast<float>(get(args.residual, residual + col));
        h[static_cast<size_t>(col)] = round_to(args.residual.dtype, static_cast<double>(sum));
        set(args.residual, residual + col, h[static_cast<size_t>(col)]);
      }
    }
    double squares = 0;
    for (const double value : h) squares += value * value;
    const double inverse = 1.0 / std::sqrt(squares / static_cast<double>(cols) + static_cast<double>(args.eps));
    for (int64_t col = 0; col < cols; ++col) {
      const double gamma = get(args.gamma, col) + static_cast<double>(args.gamma_offset);
      const double beta = args.beta.defined() ? get(args.beta, col) : 0.0;
      set(args.y, y + col, h[static_cast<size_t>(col)] * inverse * gamma + beta);
    }
  }
}

constinit const Implementation<RmsNormArgs> rms_norm_reference =
    reference::implementation<RmsNormArgs, rms_norm_reference_run>("rms_norm_reference");

}  // namespace monotile::ops
