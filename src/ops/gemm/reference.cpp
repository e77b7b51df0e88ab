#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/gemm/gemm.hpp"
#include "ops/reference.hpp"

namespace monotile::ops {

namespace {

/// Row `row` of a view as doubles.
std::vector<double> read_row(const TensorView& view, int64_t row) {
  std::vector<double> values(static_cast<size_t>(view.dim(1)));
  for (int64_t col = 0; col < view.dim(1); ++col)
    values[static_cast<size_t>(col)] = reference::get(view, row * view.step(0) + col);
  return values;
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

void gemm_reference_run(const GemmArgs& args) {
  const int64_t m = args.c.dim(0), n = args.c.dim(1), k = args.a.dim(1);
  std::vector<std::vector<double>> a(static_cast<size_t>(m));
  for (int64_t row = 0; row < m; ++row) {
    a[static_cast<size_t>(row)] = read_row(args.a, row);
    if (args.cast == ProductCast::int8_block) cast_to_int8_blocks(a[static_cast<size_t>(row)]);
  }
  for (int64_t col = 0; col < n; ++col) {
    const std::vector<double> b = read_row(args.b, col);
    for (int64_t row = 0; row < m; ++row) {
      double sum = 0;
      for (size_t i = 0; i < static_cast<size_t>(k); ++i) sum += a[static_cast<size_t>(row)][i] * b[i];
      if (args.bias.defined()) sum += reference::get(args.bias, col);
      if (args.residual.defined()) sum += reference::get(args.residual, row * args.residual.step(0) + col);
      reference::set(args.c, row * args.c.step(0) + col, sum);
    }
  }
}

constinit const Implementation<GemmArgs> gemm_reference =
    reference::implementation<GemmArgs, gemm_reference_run>("gemm_reference");

}  // namespace monotile::ops
