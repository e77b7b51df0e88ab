// Bias, activation and residual in one: checks, oracle, portable tier, catalogue entry.

#include <cmath>

#include "monotile/kernels/activation/params.hpp"
#include "ops/activation/activation.hpp"
#include "ops/check.hpp"
#include "ops/entry.hpp"
#include "ops/reference.hpp"
#include "ops/row_tiles.hpp"
#include "ops/self_test.hpp"
#include "runtime/choose.hpp"

namespace monotile {

namespace ops {

namespace {

constexpr const char* op = BiasActivationArgs::op_name;

ChunkTile tile_of(const BiasActivationArgs& a, const DeviceInfo& device) {
  const bool exact = whole_vectors(a.y) && whole_vectors(a.x) && whole_vectors(a.residual) && whole_vectors(a.bias);
  return pick_chunk_tile(a.y.dim(0), a.y.dim(1), exact, device, 2);
}

const char* supports(const BiasActivationArgs& a, const DeviceInfo& device) {
  return find_kernel(op, target_of(device), variant_of(a.y.dtype, tile_of(a, device).layout)) == nullptr
             ? "not built for this target"
             : nullptr;
}

double cost(const BiasActivationArgs&, const DeviceInfo&) { return 1.0; }

void make_plan(const BiasActivationArgs& a, const DeviceInfo& device, Plan<BiasActivationArgs>& plan) {
  const ChunkTile tile = tile_of(a, device);
  plan.kernel = reinterpret_cast<const void*>(find_kernel(op, target_of(device), variant_of(a.y.dtype, tile.layout)));
  plan.config = {static_cast<int64_t>(tile.layout), tile.threads, tile.rows_per_program, tile.chunks};
}

template <class X>
void launch(const Plan<BiasActivationArgs>& plan, Stream& stream, const BiasActivationArgs& a) {
  kernels::BiasActivationParams<X> p{};
  p.y = row_view<X>(a.y);
  p.x = row_view<X>(a.x);
  if (a.residual.defined()) p.residual = row_view<X>(a.residual);
  p.bias = any_rows_view(a.bias);
  p.bias.outer_stride = 0;
  p.rows = a.y.dim(0);
  p.cols = a.y.dim(1);
  p.chunks = plan.config[3];
  p.function = static_cast<kernels::GateFunction>(a.activation);
  const ChunkTile tile{static_cast<uint32_t>(plan.config[0]), static_cast<int>(plan.config[1]),
                       static_cast<int>(plan.config[2]), plan.config[3]};
  const Grid grid{tile.programs(p.rows), tile.threads, 0, cpu_grain(p.cols * static_cast<int64_t>(sizeof(X)))};
  reinterpret_cast<KernelFn<kernels::BiasActivationParams<X>>>(const_cast<void*>(plan.kernel))(stream, grid, p);
}

void run_portable(const Plan<BiasActivationArgs>& plan, Stream& stream, const BiasActivationArgs& a, void*) {
  if (a.y.size() == 0) return;
  switch (a.y.dtype) {
    case DType::f32: return launch<float>(plan, stream, a);
    case DType::f16: return launch<half_t>(plan, stream, a);
    default: return launch<bfloat16_t>(plan, stream, a);
  }
}

}  // namespace

void bias_activation_reference_run(const BiasActivationArgs& a) {
  for (int64_t row = 0; row < a.y.dim(0); ++row) {
    for (int64_t col = 0; col < a.y.dim(1); ++col) {
      double value = reference::get(a.x, row * a.x.step(0) + col);
      if (a.bias.defined()) value += reference::get(a.bias, col);
      value = activation_of(a.activation, value);
      if (a.residual.defined()) value += reference::get(a.residual, row * a.residual.step(0) + col);
      reference::set(a.y, row * a.y.step(0) + col, value);
    }
  }
}

const Implementation<BiasActivationArgs> bias_activation_portable{"portable", Tier::portable, supports,
                                                                  cost,       make_plan,      run_portable};
constinit const Implementation<BiasActivationArgs> bias_activation_reference =
    reference::implementation<BiasActivationArgs, bias_activation_reference_run>("bias_activation_reference");

namespace {

constexpr const Implementation<BiasActivationArgs>* kImplementations[] = {&bias_activation_portable,
                                                                          &bias_activation_reference};

void check_args(const BiasActivationArgs& a, Device device) {
  check::present(op, "y", a.y, device);
  check::rank(op, "y", a.y, 2, 2);
  check::dtype(op, "y", a.y, {DType::f32, DType::f16, DType::bf16});
  check::inner_stride(op, "y", a.y);
  check::element_aligned(op, "y", a.y);
  check::no_self_overlap(op, "y", a.y);
  for (const auto& [name, view] : {std::pair<const char*, const TensorView*>{"x", &a.x}, {"residual", &a.residual}}) {
    if (view == &a.residual && !view->defined()) continue;
    check::present(op, name, *view, device);
    check::same_extents(op, name, *view, "y", a.y);
    check::same_dtype(op, name, *view, "y", a.y);
    check::inner_stride(op, name, *view);
    check::element_aligned(op, name, *view);
    check::same_or_disjoint(op, "y", a.y, name, *view);
  }
  if (a.bias.defined()) {
    check::present(op, "bias", a.bias, device);
    check::rank(op, "bias", a.bias, 1, 1);
    check::dtype(op, "bias", a.bias, {a.y.dtype, DType::f32});
    check::extent(op, "bias", a.bias, 0, a.y.dim(1));
    check::inner_stride(op, "bias", a.bias);
    check::element_aligned(op, "bias", a.bias);
    check::disjoint(op, "y", a.y, "bias", a.bias);
  }
  if (static_cast<int>(a.activation) > static_cast<int>(Activation::identity)) {
    check::fail(op, "activation", std::to_string(static_cast<int>(a.activation)),
                "silu, gelu_tanh, gelu_erf, relu2, identity");
  }
}

}  // namespace

const OperatorInfo bias_activation_operator = {
    "bias_activation",
    "activation",
    [](const DeviceInfo& info, const TierPolicy& policy) {
      const TensorView x = dummy_view(info, DType::bf16, {64, 14336});
      return detail::explain<BiasActivationArgs>(kImplementations, info,
                                                 {x, x, dummy_view(info, DType::bf16, {14336}), {}}, policy);
    },
    [](const DeviceInfo& info) {
      for (int kind = 0; kind <= static_cast<int>(Activation::identity); ++kind) {
        const std::string wrong =
            self_test<BiasActivationArgs>(info, bias_activation_reference_run, [kind](SelfTestCase& c) {
              BiasActivationArgs a;
              a.x = c.random(DType::bf16, {5, 77}, -4.0, 4.0);
              a.bias = c.random(DType::f32, {77});
              a.residual = c.random(DType::bf16, {5, 77});
              a.y = c.output("y", DType::bf16, {5, 77}, 0x1p-6);
              a.activation = static_cast<Activation>(kind);
              return a;
            });
        if (!wrong.empty()) return wrong;
      }
      return std::string();
    },
};

}  // namespace ops

template <>
Plan<ops::BiasActivationArgs> plan(Device device, const ops::BiasActivationArgs& args, const TierPolicy& policy) {
  ops::check_args(args, device);
  if (args.y.size() == 0) return ops::entry::empty_plan<ops::BiasActivationArgs>(device);
  return detail::choose<ops::BiasActivationArgs>(ops::op, ops::kImplementations, device, args, policy);
}

}  // namespace monotile
