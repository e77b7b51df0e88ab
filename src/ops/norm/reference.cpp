#include <cmath>

#include "ops/norm/norm.hpp"
#include "ops/quant/quant.hpp"
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

/// Where the gamma or beta of row `row` starts: one for all, or one per group.
int64_t group_offset(const TensorView& vector, int64_t row) {
  return vector.rank == 2 ? row % vector.dim(0) * vector.step(0) : 0;
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
      const double gamma =
          get(args.gamma, group_offset(args.gamma, row) + col) + static_cast<double>(args.gamma_offset);
      const double beta = args.beta.defined() ? get(args.beta, group_offset(args.beta, row) + col) : 0.0;
      set(args.y, y + col, h[static_cast<size_t>(col)] * inverse * gamma + beta);
    }
  }
}

constinit const Implementation<RmsNormArgs> rms_norm_reference =
    reference::implementation<RmsNormArgs, rms_norm_reference_run>("rms_norm_reference");

/// In two steps, as the contract says: the norm as it would have been stored, then its codes.
void rms_norm_quantise_reference_run(const RmsNormQuantiseArgs& a) {
  std::vector<uint8_t> memory(static_cast<size_t>(storage_bytes(a.x.dtype, a.x.size())));
  const TensorView y = a.y.defined() ? a.y : TensorView(memory.data(), a.x.dtype, {a.x.dim(0), a.x.dim(1)});
  rms_norm_reference_run({y, a.residual, a.x, a.gamma, a.beta, a.eps, a.gamma_offset});
  quantise_reference_run({a.codes, a.scales, {}, y, a.given_scales ? 0 : 1, 0, a.given_scales});
}

void layer_norm_reference_run(const LayerNormArgs& args) {
  const int64_t cols = args.x.dim(-1), rows = args.x.size() / std::max<int64_t>(1, cols);
  std::vector<double> h(static_cast<size_t>(cols));
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t x = row_offset(args.x, row), y = row_offset(args.y, row);
    double sum = 0, squares = 0;
    for (int64_t col = 0; col < cols; ++col) {
      double& value = h[static_cast<size_t>(col)];
      value = get(args.x, x + col);
      if (args.residual.defined()) {
        const int64_t at = row_offset(args.residual, row) + col;
        value = round_to(args.residual.dtype,
                         static_cast<double>(static_cast<float>(value) + static_cast<float>(get(args.residual, at))));
        set(args.residual, at, value);
      }
      sum += value;
    }
    const double mean = sum / static_cast<double>(cols);
    for (const double value : h) squares += (value - mean) * (value - mean);
    const double inverse = 1.0 / std::sqrt(squares / static_cast<double>(cols) + static_cast<double>(args.eps));
    for (int64_t col = 0; col < cols; ++col) {
      const double gamma =
          get(args.gamma, group_offset(args.gamma, row) + col) + static_cast<double>(args.gamma_offset);
      const double beta = args.beta.defined() ? get(args.beta, group_offset(args.beta, row) + col) : 0.0;
      set(args.y, y + col, (h[static_cast<size_t>(col)] - mean) * inverse * gamma + beta);
    }
  }
}

constinit const Implementation<RmsNormQuantiseArgs> rms_norm_quantise_reference =
    reference::implementation<RmsNormQuantiseArgs, rms_norm_quantise_reference_run>("rms_norm_quantise_reference");
constinit const Implementation<LayerNormArgs> layer_norm_reference =
    reference::implementation<LayerNormArgs, layer_norm_reference_run>("layer_norm_reference");

}  // namespace monotile::ops
