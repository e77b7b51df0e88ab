#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/gemm/gemm.hpp"
#include "ops/reference.hpp"

namespace monotile::ops {

namespace {

/// Row `row` of an operand, from element `first` on, as doubles; `by_k`: it is stored with rows along the other coordinate.
std::vector<double> read_row(const TensorView& view, int64_t first, int64_t row, bool by_k, int64_t k) {
  std::vector<double> values(static_cast<size_t>(k));
  for (int64_t i = 0; i < k; ++i)
    values[static_cast<size_t>(i)] = reference::get(view, first + (by_k ? i * view.step(-2) + row : row * view.step(-2) + i));
  return values;
}
/// Where a matrix of a batch begins.
int64_t first_of(const TensorView& view, int64_t batch) { return view.rank == 3 ? batch * view.step(0) : 0; }

double scale_of(const TensorView& scales, int64_t i) {
  if (!scales.defined()) return 1.0;
  return reference::get(scales, scales.dim(0) == 1 ? 0 : i);
}

/// What precedes a product's result: SiLU, or GELU by its tanh form.
double activation_of(Activation f, double x) {
  if (std::isinf(x)) return x > 0 ? x : 0.0;
  if (f == Activation::silu) return x / (1.0 + std::exp(-x));
  constexpr double kTwoOverPi = 0.63661977236758134308;
  return 0.5 * x * (1.0 + std::tanh(std::sqrt(kTwoOverPi) * (x + 0.044715 * x * x * x)));
}

/// int8_block: each block of 32 becomes scale x integer, scale = max|a| / 127 in fp32, the integer rounded half to
/// even.
void cast_to_int8_blocks(std::vector<double>& row) {
  for (size_t begin = 0; begin < row.size(); begin += 32) {
    const size_t end = std::min(begin + 32, row.size());
    float largest = 0.0f;
    for (size_t i = begin; i < end; ++i) largest = std::max(largest, std::abs(static_cast<float>(row[i])));
    const float scale = largest / 127.0f,
                inverse = largest > 0x1p-110f ? 127.0f / largest : 0.0f;  // else the quotient may be infinite
    for (size_t i = begin; i < end; ++i) {
      const float code = std::nearbyint(static_cast<float>(row[i]) * inverse);
      row[i] = static_cast<double>(scale) * static_cast<double>(std::clamp(code, -127.0f, 127.0f));
    }
  }
}

}  // namespace

namespace {

void multiply(const GemmArgs& args, int64_t batch) {
  const int64_t m = args.m(), n = args.n(), k = args.k();
  std::vector<std::vector<double>> a(static_cast<size_t>(m));
  for (int64_t row = 0; row < m; ++row) {
    a[static_cast<size_t>(row)] = read_row(args.a, first_of(args.a, batch), row, args.form == ProductForm::tn, k);
    if (args.cast == ProductCast::int8_block) cast_to_int8_blocks(a[static_cast<size_t>(row)]);
  }
  for (int64_t col = 0; col < n; ++col) {
    const std::vector<double> b = read_row(args.b, first_of(args.b, batch), col, args.form != ProductForm::nt, k);
    for (int64_t row = 0; row < m; ++row) {
      double sum = 0;
      for (size_t i = 0; i < static_cast<size_t>(k); ++i) sum += a[static_cast<size_t>(row)][i] * b[i];
      sum *= scale_of(args.a_scale, row) * scale_of(args.b_scale, col);
      if (args.bias.defined()) sum += reference::get(args.bias, col);
      if (args.gated()) {
        const double x = args.gate.defined() ? reference::get(args.gate, first_of(args.gate, batch) + row * args.gate.step(-2) + col) : sum;
        sum = activation_of(args.activation, x) * (args.gate.defined() ? sum : 1.0);
      }
      if (args.residual.defined())
        sum += reference::get(args.residual, first_of(args.residual, batch) + row * args.residual.step(-2) + col);
      reference::set(args.c, first_of(args.c, batch) + row * args.c.step(-2) + col, sum);
    }
  }
}

}  // namespace

void gemm_reference_run(const GemmArgs& args) {
  for (int64_t i = 0; i < args.batch(); ++i) multiply(args, i);
}

constinit const Implementation<GemmArgs> gemm_reference =
    reference::implementation<GemmArgs, gemm_reference_run>("gemm_reference");

}  // namespace monotile::ops
