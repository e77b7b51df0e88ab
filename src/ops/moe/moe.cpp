#include "ops/moe/moe.hpp"

#include "ops/check.hpp"
#include "ops/entry.hpp"
#include "ops/self_test.hpp"
#include "runtime/choose.hpp"

namespace monotile {

namespace {

using namespace ops;

constexpr const Implementation<RouterArgs>* kRouterImplementations[] = {
    &router_portable,
    &router_reference,
};

constexpr int64_t kMostExperts = 2048;

void check_between(const char* op, const char* argument, int64_t value, int64_t lowest, int64_t highest) {
  if (value >= lowest && value <= highest) return;
  check::fail(op, argument, std::to_string(value), std::to_string(lowest) + " to " + std::to_string(highest));
}

void check_packed(const char* op, const char* argument, const TensorView& view) {
  check::inner_stride(op, argument, view);
  if (view.rank == 2 && view.dim(0) > 1 && view.step(0) != view.dim(1)) {
    check::fail(op, argument, "row stride " + std::to_string(view.step(0)),
                "packed rows of " + std::to_string(view.dim(1)));
  }
}

}  // namespace

template <>
Plan<RouterArgs> plan(Device device, const RouterArgs& args, const TierPolicy& policy) {
  constexpr const char* op = RouterArgs::op_name;
  check::present(op, "logits", args.logits, device);
  check::rank(op, "logits", args.logits, 2, 2);
  check::dtype(op, "logits", args.logits, {DType::f32, DType::f16, DType::bf16});
  check::inner_stride(op, "logits", args.logits);
  check::element_aligned(op, "logits", args.logits);
  const int64_t rows = args.logits.dim(0), experts = args.logits.dim(1);
  if (experts < 1 || experts > kMostExperts)
    check::fail(op, "logits", std::to_string(experts) + " experts",
                "1 to " + std::to_string(kMostExperts) + " experts");
  check::present(op, "experts", args.experts, device);
  check::rank(op, "experts", args.experts, 2, 2);
  check::dtype(op, "experts", args.experts, {DType::i32});
  check::extent(op, "experts", args.experts, 0, rows);
  check_packed(op, "experts", args.experts);
  check::element_aligned(op, "experts", args.experts);
  check_between(op, "groups", args.groups, 1, experts);
  if (experts % args.groups != 0)
    check::fail(op, "groups", std::to_string(args.groups), "a divisor of the " + std::to_string(experts) + " experts");
  if (args.groups > 1) check_between(op, "kept_groups", args.kept_groups, 1, args.groups);
  check_between(op, "group_sum", args.group_sum, 1, 2);
  const int64_t eligible = args.groups > 1 ? experts / args.groups * args.kept_groups : experts;
  check_between(op, "experts: top_k", args.experts.dim(1), 1, eligible);
  check::present(op, "weights", args.weights, device);
  check::rank(op, "weights", args.weights, 2, 2);
  check::dtype(op, "weights", args.weights, {DType::f32});
  check::same_extents(op, "weights", args.weights, "experts", args.experts);
  check::inner_stride(op, "weights", args.weights);
  check::element_aligned(op, "weights", args.weights);
  check::no_self_overlap(op, "weights", args.weights);
  if (args.bias.defined()) {
    check::present(op, "bias", args.bias, device);
    check::rank(op, "bias", args.bias, 1, 1);
    check::dtype(op, "bias", args.bias, {DType::f32, DType::f16, DType::bf16});
    check::extent(op, "bias", args.bias, 0, experts);
    check::inner_stride(op, "bias", args.bias);
    check::element_aligned(op, "bias", args.bias);
  }
  if (static_cast<int>(args.score) > 1)
    check::fail(op, "score", std::to_string(static_cast<int>(args.score)), "0 or 1");
  check::optional_status(op, args.status, rows, device, {{"weights", args.weights}, {"experts", args.experts}, {"logits", args.logits}, {"bias", args.bias}});
  check::disjoint(op, "weights", args.weights, "logits", args.logits);
  check::disjoint(op, "experts", args.experts, "logits", args.logits);
  check::disjoint(op, "weights", args.weights, "experts", args.experts);
  if (args.experts.size() == 0) return entry::empty_plan<RouterArgs>(device);
  return detail::choose<RouterArgs>(op, kRouterImplementations, device, args, policy);
}

namespace ops {

const OperatorInfo router_operator = {
    "moe_router",
    "moe",
    [](const DeviceInfo& info, const TierPolicy& policy) {
      RouterArgs args;
      args.weights = dummy_view(info, DType::f32, {64, 8});
      args.experts = dummy_view(info, DType::i32, {64, 8});
      args.logits = dummy_view(info, DType::f32, {64, 128});
      return detail::explain<RouterArgs>(kRouterImplementations, info, args, policy);
    },
    [](const DeviceInfo& info) {
      return self_test<RouterArgs>(info, router_reference_run, [](SelfTestCase& c) {
        RouterArgs args;
        args.logits = c.random(DType::f32, {9, 60}, -4.0, 4.0);
        args.weights = c.output("weights", DType::f32, {9, 6}, 1e-5);
        args.experts = c.output("experts", DType::i32, {9, 6}, 0.0);
        args.status = c.output("status", DType::i32, {9}, 0.0);
        args.renormalise = true;
        args.groups = 5;
        args.kept_groups = 3;
        return args;
      });
    },
};

}  // namespace ops

}  // namespace monotile
