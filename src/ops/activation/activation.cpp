#include "ops/activation/activation.hpp"

#include "ops/check.hpp"
#include "ops/entry.hpp"
#include "ops/self_test.hpp"
#include "runtime/choose.hpp"

namespace monotile {

namespace {

using namespace ops;

constexpr const char* op = GatedActivationArgs::op_name;

constexpr const Implementation<GatedActivationArgs>* kImplementations[] = {
    &gated_activation_portable,
    &gated_activation_reference,
};

void check_matrix(const char* argument, const TensorView& view, const TensorView& y, Device device) {
  check::present(op, argument, view, device);
  check::same_extents(op, argument, view, "y", y);
  check::same_dtype(op, argument, view, "y", y);
  check::inner_stride(op, argument, view);
  check::element_aligned(op, argument, view);
  check::same_or_disjoint(op, "y", y, argument, view);
}

void check_args(const GatedActivationArgs& args, Device device) {
  check::present(op, "y", args.y, device);
  check::rank(op, "y", args.y, 2, 2);
  check::dtype(op, "y", args.y, {DType::f32, DType::f16, DType::bf16});
  check::inner_stride(op, "y", args.y);
  check::element_aligned(op, "y", args.y);
  check::no_self_overlap(op, "y", args.y);
  check_matrix("gate", args.gate, args.y, device);
  check_matrix("up", args.up, args.y, device);
  if (static_cast<int>(args.activation) > static_cast<int>(Activation::relu2)) {
    check::fail(op, "activation", std::to_string(static_cast<int>(args.activation)),
                "silu, gelu_tanh, gelu_erf, relu2");
  }
}

}  // namespace

template <>
Plan<GatedActivationArgs> plan(Device device, const GatedActivationArgs& args, const TierPolicy& policy) {
  check_args(args, device);
  if (args.y.size() == 0) return entry::empty_plan<GatedActivationArgs>(device);
  return detail::choose<GatedActivationArgs>(op, kImplementations, device, args, policy);
}

namespace ops {

const OperatorInfo gated_activation_operator = {
    "gated_activation",
    "activation",
    [](const DeviceInfo& info, const TierPolicy& policy) {
      const TensorView view = dummy_view(info, DType::bf16, {64, 14336});
      return detail::explain<GatedActivationArgs>(kImplementations, info, {view, view, view, Activation::silu}, policy);
    },
    [](const DeviceInfo& info) {
      for (const Activation activation :
           {Activation::silu, Activation::gelu_tanh, Activation::gelu_erf, Activation::relu2}) {
        const std::string wrong =
            self_test<GatedActivationArgs>(info, gated_activation_reference_run, [activation](SelfTestCase& c) {
              const TensorView packed = c.random(DType::bf16, {5, 2 * 77}, -6.0, 6.0);
              const TensorView y = c.output("y", DType::bf16, {5, 77}, 0x1p-7);
              return GatedActivationArgs{y, packed.slice(1, 0, 77), packed.slice(1, 77, 154), activation};
            });
        if (!wrong.empty()) return wrong;
      }
      return std::string();
    },
};

}  // namespace ops

}  // namespace monotile
