#include <cmath>
#include <numbers>

#include "ops/activation/activation.hpp"
#include "ops/reference.hpp"

namespace monotile::ops {

double activation_of(Activation activation, double x) {
  if (activation == Activation::identity) return x;
  if (std::isinf(x)) return x > 0 ? x : 0.0;  // policy: the limits, where the formulas give NaN
  switch (activation) {
    case Activation::silu: return x / (1.0 + std::exp(-x));
    case Activation::gelu_tanh: {
      const double t = std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x);
      return x / (1.0 + std::exp(-2.0 * t));  // (1 + tanh t) / 2 without cancellation for t < 0
    }
    case Activation::identity: break;
    case Activation::relu2: return x > 0 ? x * x : x != x ? x : 0.0;
    case Activation::gelu_erf: return 0.5 * x * std::erfc(-x / std::numbers::sqrt2);
  }
  return std::nan("");
}

void gated_activation_reference_run(const GatedActivationArgs& args) {
  for (int64_t row = 0; row < args.y.dim(0); ++row) {
    for (int64_t col = 0; col < args.y.dim(1); ++col) {
      const double gate = reference::get(args.gate, row * args.gate.step(0) + col);
      const double up = reference::get(args.up, row * args.up.step(0) + col);
      reference::set(args.y, row * args.y.step(0) + col, activation_of(args.activation, gate) * up);
    }
  }
}

constinit const Implementation<GatedActivationArgs> gated_activation_reference =
    reference::implementation<GatedActivationArgs, gated_activation_reference_run>("gated_activation_reference");

}  // namespace monotile::ops
