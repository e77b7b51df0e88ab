#include <cmath>
#include <limits>

#include "ops/reference.hpp"
#include "ops/softmax/softmax.hpp"

namespace monotile::ops {

void softmax_reference_run(const SoftmaxArgs& args) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const int64_t cols = args.x.dim(1);
  for (int64_t row = 0; row < args.x.dim(0); ++row) {
    const auto scaled = [&](int64_t col) {
      const double value = static_cast<double>(args.scale) * reference::get(args.x, row * args.x.step(0) + col);
      if (!args.mask.defined()) return value;
      const double mask = reference::get(args.mask, (args.mask.dim(0) == 1 ? 0 : row * args.mask.step(0)) + col);
      if (args.mask.dtype == DType::u8) return mask != 0 ? value : -kInfinity;
      return value + mask;
    };
    double largest = -kInfinity;
    bool has_nan = false;
    for (int64_t col = 0; col < cols; ++col) {
      has_nan = has_nan || std::isnan(scaled(col));
      largest = std::fmax(largest, scaled(col));
    }
    double sum = 0;
    for (int64_t col = 0; col < cols; ++col) sum += std::exp(scaled(col) - largest);
    std::vector<double> result(static_cast<size_t>(cols));  // y may be x
    for (int64_t col = 0; col < cols; ++col) {
      double& value = result[static_cast<size_t>(col)];
      if (has_nan) {
        value = std::nan("");
      } else if (largest == -kInfinity) {
        value = args.log ? -kInfinity : 0.0;
      } else {
        value = args.log ? scaled(col) - largest - std::log(sum) : std::exp(scaled(col) - largest) / sum;
      }
    }
    for (int64_t col = 0; col < cols; ++col)
      reference::set(args.y, row * args.y.step(0) + col, result[static_cast<size_t>(col)]);
  }
}

constinit const Implementation<SoftmaxArgs> softmax_reference =
    reference::implementation<SoftmaxArgs, softmax_reference_run>("softmax_reference");

}  // namespace monotile::ops
