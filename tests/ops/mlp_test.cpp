// The feed-forward part in one call against plain loops over its formula, on every device.

#include "monotile/ops/mlp.hpp"

#include <algorithm>
#include <cmath>

#include "test_util.hpp"

namespace monotile::test {
namespace {

using ops::Activation;
using ops::MlpArgs;

double activation_of(Activation f, double x) {
  switch (f) {
    case Activation::silu: return x / (1.0 + std::exp(-x));
    case Activation::gelu_tanh:
      return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
    case Activation::gelu_erf: return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
    default: return x > 0 ? x * x : 0.0;
  }
}

struct Case {
  DType x = DType::bf16, weights = DType::bf16;
  int64_t m = 1, k = 32, f = 64, n = 32;
  Activation activation = Activation::silu;
  bool biases = false, residual = false;
};

class MlpTest : public OnDevice {
 protected:
  /// Returns whether the activation was a kernel of its own.
  bool check(const Case& s) {
    SCOPED_TRACE(std::string(dtype_info(s.x).name) + " x " + dtype_info(s.weights).name + " m " + std::to_string(s.m) +
                 " activation " + std::to_string(static_cast<int>(s.activation)));
    TestTensor x = TestTensor::random(s.x, {s.m, s.k}, 1, {.padding = {8}}),
               gate = TestTensor::random(s.weights, {s.f, s.k}, 2), up = TestTensor::random(s.weights, {s.f, s.k}, 3),
               down = TestTensor::random(s.weights, {s.n, s.f}, 4),
               gate_bias = TestTensor::random(DType::f32, {s.f}, 5), up_bias = TestTensor::random(DType::f32, {s.f}, 6),
               down_bias = TestTensor::random(DType::f32, {s.n}, 7), residual = TestTensor::random(s.x, {s.m, s.n}, 8),
               y(s.x, {s.m, s.n}, {.padding = {3}}), hidden(s.x, {s.m, s.f}), spare(s.x, {s.m, s.f}, {.padding = {8}});
    Stream stream(device());
    Context context(stream);
    context.count_uses = true;
    const At at = [&](TestTensor& t) { return t.on(stream); };
    MlpArgs args;
    args.y = at(y), args.x = at(x), args.gate = at(gate), args.up = at(up), args.down = at(down);
    args.hidden = at(hidden), args.spare = at(spare), args.activation = s.activation;
    if (s.biases) args.gate_bias = at(gate_bias), args.up_bias = at(up_bias), args.down_bias = at(down_bias);
    if (s.residual) args.residual = at(residual);
    ops::mlp(context, args);
    y.fetch(stream);
    EXPECT_TRUE(y.guards_intact());
    const bool blocks = is_quantised(s.weights);
    const double eps = s.x == DType::bf16 || blocks ? 0x1p-7 : 0x1p-16;
    const auto dot = [](const TestTensor& a, int64_t row_a, const TestTensor& b, int64_t row_b, int64_t n,
                        double& size) {
      double sum = 0;
      size = 0;
      for (int64_t i = 0; i < n; ++i) {
        const double product = a.get(row_a * n + i) * b.get(row_b * n + i);
        sum += product, size += std::abs(product);
      }
      return sum;
    };
    std::vector<double> h(static_cast<size_t>(s.f)), errors(h.size());
    for (int64_t i = 0; i < s.m; ++i) {
      for (int64_t j = 0; j < s.f; ++j) {
        double gate_size, up_size;
        const double g = dot(x, i, gate, j, s.k, gate_size) + (s.biases ? gate_bias.get(j) : 0.0),
                     u = dot(x, i, up, j, s.k, up_size) + (s.biases ? up_bias.get(j) : 0.0),
                     a = activation_of(s.activation, g);
        const double slope = s.activation == Activation::relu2 ? 2.0 * std::abs(g) + 1.0 : 1.2;
        h[static_cast<size_t>(j)] = a * u;
        errors[static_cast<size_t>(j)] =
            eps * (slope * (gate_size + std::abs(g)) * std::abs(u) + std::abs(a) * (up_size + std::abs(u)));
      }
      for (int64_t j = 0; j < s.n; ++j) {
        double sum = 0, bound = 0;
        for (int64_t l = 0; l < s.f; ++l) {
          const double w = down.get(j * s.f + l);
          sum += h[static_cast<size_t>(l)] * w;
          bound += std::abs(w) * (errors[static_cast<size_t>(l)] + eps * std::abs(h[static_cast<size_t>(l)]));
        }
        if (s.biases) sum += down_bias.get(j);
        if (s.residual) sum += residual.get(i * s.n + j);
        const double got = y.get(i * s.n + j);
        EXPECT_LE(std::abs(got - sum), bound + ulp(s.x, std::abs(sum) + bound))
            << "element " << i << ", " << j << " is " << got << ", wanted " << sum;
        if (!(std::abs(got - sum) <= bound + ulp(s.x, std::abs(sum) + bound))) return false;
      }
    }
    return std::any_of(context.uses().begin(), context.uses().end(),
                       [](const Context::Use& use) { return std::string(use.op) == "gated_activation"; });
  }
};
MONOTILE_ON_DEVICES(MlpTest);

TEST_P(MlpTest, FewRowsAndMany) {
  for (const DType x : {DType::bf16, DType::f32}) {
    for (const DType weights : {x, DType::q8_0}) {
      EXPECT_TRUE(check({.x = x, .weights = weights, .m = 3, .residual = true}));
      const bool own = check({.x = x, .weights = weights, .m = 70, .biases = true, .residual = true});
      if (x == DType::bf16 && device().kind != DeviceKind::cpu && device().kind != DeviceKind::opencl) {
        EXPECT_FALSE(own) << "the activation is in the epilogue";
      }
    }
  }
}

TEST_P(MlpTest, EveryActivation) {
  for (const Activation f : {Activation::silu, Activation::gelu_tanh, Activation::gelu_erf, Activation::relu2})
    check({.m = 66, .f = 40, .activation = f, .biases = true});
}

TEST_P(MlpTest, NothingToDo) { check({.m = 0}); }

TEST(MlpErrors, NameTheArgument) {
  TestTensor x(DType::bf16, {2, 32}), w(DType::bf16, {64, 32}), down(DType::bf16, {8, 64}), y(DType::bf16, {2, 8}),
      hidden(DType::bf16, {2, 64}), spare(DType::bf16, {2, 64}), short_one(DType::bf16, {2, 63}),
      other(DType::f32, {2, 64}), up(DType::bf16, {63, 32});
  Context context(Device{});
  const auto refused = [&](const std::vector<std::string>& words, const std::function<void(MlpArgs&)>& change) {
    MlpArgs args;
    args.y = y.host(), args.x = x.host(), args.gate = w.host(), args.up = w.host(), args.down = down.host();
    args.hidden = hidden.host(), args.spare = spare.host();
    change(args);
    try {
      ops::mlp(context, args);
      ADD_FAILURE() << "not refused: " << words.front();
    } catch (const Error& error) {
      for (const std::string& word : words)
        EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
    }
  };
  refused({"mlp", "activation", "identity"}, [](MlpArgs& a) { a.activation = Activation::identity; });
  refused({"mlp", "hidden", "64"}, [&](MlpArgs& a) { a.hidden = short_one.host(); });
  refused({"mlp", "hidden", "f32"}, [&](MlpArgs& a) { a.hidden = other.host(); });
  refused({"mlp", "spare", "hidden"}, [&](MlpArgs& a) { a.spare = a.hidden; });
  refused({"mlp", "up", "gate"}, [&](MlpArgs& a) { a.up = up.host(); });
  refused({"mlp", "hidden", "x"}, [&](MlpArgs& a) { a.x = TensorView(hidden.host().data, DType::bf16, {2, 32}); });
}

}  // namespace
}  // namespace monotile::test
