#include "ops/moe/moe.hpp"

#include <utility>

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

template <class Args>
struct List;
template <>
struct List<AlignArgs> {
  static constexpr const Implementation<AlignArgs>* value[] = {&align_portable, &align_reference};
};
template <>
struct List<DispatchArgs> {
  static constexpr const Implementation<DispatchArgs>* value[] = {&dispatch_portable, &dispatch_reference};
};
template <>
struct List<PermuteArgs> {
  static constexpr const Implementation<PermuteArgs>* value[] = {&permute_portable, &permute_reference};
};
template <>
struct List<CombineArgs> {
  static constexpr const Implementation<CombineArgs>* value[] = {&combine_portable, &combine_reference};
};

template <>
struct List<RouteArgs> {
  static constexpr const Implementation<RouteArgs>* value[] = {&route_portable, &route_reference};
};

constexpr int64_t kMostExperts = 2048;

void check_between(const char* op, const char* argument, int64_t value, int64_t lowest, int64_t highest) {
  if (value >= lowest && value <= highest) return;
  check::fail(op, argument, std::to_string(value), std::to_string(lowest) + " to " + std::to_string(highest));
}

void check_packed(const char* op, const char* argument, const TensorView& view) {
  check::inner_stride(op, argument, view);
  if (view.rank == 2 && view.size() > 0 && view.dim(0) > 1 && view.step(0) != view.dim(1)) {
    check::fail(op, argument, "row stride " + std::to_string(view.step(0)),
                "packed rows of " + std::to_string(view.dim(1)));
  }
}

void check_table(const char* op, const char* argument, const TensorView& view, int rank, Device device) {
  check::present(op, argument, view, device);
  check::rank(op, argument, view, rank, rank);
  check::dtype(op, argument, view, {DType::i32});
  check_packed(op, argument, view);
  check::element_aligned(op, argument, view);
}

/// x and y: rows of one dtype and width.
void check_rows(const char* op, const TensorView& x, const TensorView& y, Device device) {
  for (const auto& [argument, view] : {std::pair{"x", &x}, std::pair{"y", &y}}) {
    check::present(op, argument, *view, device);
    check::rank(op, argument, *view, 2, 2);
    check::dtype(op, argument, *view, {DType::f32, DType::f16, DType::bf16});
    check::inner_stride(op, argument, *view);
    check::element_aligned(op, argument, *view);
  }
  check::same_dtype(op, "y", y, "x", x);
  check::extent(op, "y", y, 1, x.dim(1));
  check::no_self_overlap(op, "y", y);
  check::disjoint(op, "y", y, "x", x);
}

}  // namespace

namespace {

void check_call(const char* op, const RouterArgs& args, Device device) {
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
  check::optional_status(
      op, args.status, rows, device,
      {{"weights", args.weights}, {"experts", args.experts}, {"logits", args.logits}, {"bias", args.bias}});
  check::disjoint(op, "weights", args.weights, "logits", args.logits);
  check::disjoint(op, "experts", args.experts, "logits", args.logits);
  check::disjoint(op, "weights", args.weights, "experts", args.experts);
}

void check_call(const char* op, const AlignArgs& args, Device device) {
  check_table(op, "experts", args.experts, 2, device);
  check_table(op, "counts", args.counts, 1, device);
  const int64_t experts = args.counts.dim(0), pairs = args.experts.size();
  check_between(op, "counts: experts", experts, 1, kMostExperts);
  check_between(op, "experts: pairs", pairs, 0, (int64_t{1} << 30) - 1);
  check_between(op, "block", args.block, 1, 65536);
  check_table(op, "offsets", args.offsets, 1, device);
  check::extent(op, "offsets", args.offsets, 0, experts + 1);
  check_table(op, "positions", args.positions, 2, device);
  check::same_extents(op, "positions", args.positions, "experts", args.experts);
  check_table(op, "sorted", args.sorted, 1, device);
  const int64_t capacity = args.sorted.dim(0), least = moe_align_capacity(pairs, experts, args.block);
  if (capacity < least || capacity % args.block != 0 || capacity >= int64_t{1} << 31) {
    check::fail(op, "sorted", std::to_string(capacity) + " entries",
                "a multiple of the block of " + std::to_string(args.block) + ", at least " + std::to_string(least));
  }
  if (args.block_experts.defined()) {
    check_table(op, "block_experts", args.block_experts, 1, device);
    check::extent(op, "block_experts", args.block_experts, 0, capacity / args.block);
    check::disjoint(op, "block_experts", args.block_experts, "sorted", args.sorted);
  }
  check::disjoint(op, "sorted", args.sorted, "experts", args.experts);
  check::disjoint(op, "positions", args.positions, "experts", args.experts);
  check::disjoint(op, "positions", args.positions, "sorted", args.sorted);
  check::disjoint(op, "offsets", args.offsets, "sorted", args.sorted);
  check::disjoint(op, "counts", args.counts, "offsets", args.offsets);
}

void check_call(const char* op, const DispatchArgs& args, Device device) {
  check_rows(op, args.x, args.y, device);
  check_table(op, "positions", args.positions, 2, device);
  check::extent(op, "positions", args.positions, 0, args.x.dim(0));
  check::disjoint(op, "y", args.y, "positions", args.positions);
}

}  // namespace

template <>
Plan<RouterArgs> plan(Device device, const RouterArgs& args, const TierPolicy& policy) {
  check_call(RouterArgs::op_name, args, device);
  if (args.experts.size() == 0) return entry::empty_plan<RouterArgs>(device);
  return detail::choose<RouterArgs>(RouterArgs::op_name, kRouterImplementations, device, args, policy);
}

template <>
Plan<AlignArgs> plan(Device device, const AlignArgs& args, const TierPolicy& policy) {
  check_call(AlignArgs::op_name, args, device);
  return detail::choose<AlignArgs>(AlignArgs::op_name, List<AlignArgs>::value, device, args, policy);
}

template <>
Plan<DispatchArgs> plan(Device device, const DispatchArgs& args, const TierPolicy& policy) {
  check_call(DispatchArgs::op_name, args, device);
  if (args.x.size() == 0) return entry::empty_plan<DispatchArgs>(device);
  return detail::choose<DispatchArgs>(DispatchArgs::op_name, List<DispatchArgs>::value, device, args, policy);
}

template <>
Plan<RouteArgs> plan(Device device, const RouteArgs& args, const TierPolicy& policy) {
  constexpr const char* op = RouteArgs::op_name;
  check_call(op, args.router, device);
  if (args.align.experts.defined()) check::fail(op, "align.experts", "defined", "undefined: the router's are meant");
  check_call(op, align_part(args), device);
  if (args.x.defined() || args.y.defined()) check_call(op, dispatch_part(args), device);
  return detail::choose<RouteArgs>(op, List<RouteArgs>::value, device, args, policy);
}

template <>
Plan<PermuteArgs> plan(Device device, const PermuteArgs& args, const TierPolicy& policy) {
  constexpr const char* op = PermuteArgs::op_name;
  check_rows(op, args.x, args.y, device);
  check_table(op, "sorted", args.sorted, 1, device);
  check::extent(op, "sorted", args.sorted, 0, args.y.dim(0));
  check_between(op, "top_k", args.top_k, 1, 4096);
  if (args.end.defined()) check_table(op, "end", args.end, 1, device), check::extent(op, "end", args.end, 0, 1);
  check::disjoint(op, "y", args.y, "sorted", args.sorted);
  if (args.y.size() == 0) return entry::empty_plan<PermuteArgs>(device);
  return detail::choose<PermuteArgs>(op, List<PermuteArgs>::value, device, args, policy);
}

template <>
Plan<CombineArgs> plan(Device device, const CombineArgs& args, const TierPolicy& policy) {
  constexpr const char* op = CombineArgs::op_name;
  check_rows(op, args.x, args.y, device);
  check_table(op, "positions", args.positions, 2, device);
  check::extent(op, "positions", args.positions, 0, args.y.dim(0));
  check::present(op, "weights", args.weights, device);
  check::rank(op, "weights", args.weights, 2, 2);
  check::dtype(op, "weights", args.weights, {DType::f32});
  check::same_extents(op, "weights", args.weights, "positions", args.positions);
  check_packed(op, "weights", args.weights);
  check::element_aligned(op, "weights", args.weights);
  check::disjoint(op, "y", args.y, "weights", args.weights);
  check::disjoint(op, "y", args.y, "positions", args.positions);
  if (args.addend.defined()) {
    check::present(op, "addend", args.addend, device);
    check::same_dtype(op, "addend", args.addend, "y", args.y);
    check::same_extents(op, "addend", args.addend, "y", args.y);
    check::inner_stride(op, "addend", args.addend);
    check::element_aligned(op, "addend", args.addend);
    check::same_or_disjoint(op, "y", args.y, "addend", args.addend);
  }
  if (args.y.size() == 0) return entry::empty_plan<CombineArgs>(device);
  return detail::choose<CombineArgs>(op, List<CombineArgs>::value, device, args, policy);
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

const OperatorInfo align_operator = {
    "moe_align",
    "moe",
    [](const DeviceInfo& info, const TierPolicy& policy) {
      AlignArgs args;
      args.experts = args.positions = dummy_view(info, DType::i32, {64, 8});
      args.sorted = dummy_view(info, DType::i32, {moe_align_capacity(512, 128, 64)});
      args.offsets = dummy_view(info, DType::i32, {129});
      args.counts = dummy_view(info, DType::i32, {128});
      args.block = 64;
      return detail::explain<AlignArgs>(List<AlignArgs>::value, info, args, policy);
    },
    [](const DeviceInfo& info) {
      return self_test<AlignArgs>(info, align_reference_run, [](SelfTestCase& c) {
        AlignArgs args;
        args.experts = c.random(DType::i32, {2000, 3}, -1.0, 8.0);
        args.block = 16;
        args.sorted = c.output("sorted", DType::i32, {moe_align_capacity(6000, 7, 16)}, 0.0);
        args.positions = c.output("positions", DType::i32, {2000, 3}, 0.0);
        args.offsets = c.output("offsets", DType::i32, {8}, 0.0);
        args.counts = c.output("counts", DType::i32, {7}, 0.0);
        return args;
      });
    },
};

const OperatorInfo dispatch_operator = {
    "moe_dispatch",
    "moe",
    [](const DeviceInfo& info, const TierPolicy& policy) {
      const DispatchArgs args = {dummy_view(info, DType::bf16, {512, 4096}), dummy_view(info, DType::bf16, {64, 4096}),
                                 dummy_view(info, DType::i32, {64, 8})};
      return detail::explain<DispatchArgs>(List<DispatchArgs>::value, info, args, policy);
    },
    [](const DeviceInfo& info) {
      return self_test<DispatchArgs>(info, dispatch_reference_run, [](SelfTestCase& c) {
        const TensorView x = c.random(DType::bf16, {2, 200}), positions = c.values(DType::i32, {3, -1, 1, 0});
        TensorView table = positions;
        table.rank = 2, table.extent = {2, 2}, table.stride = {2, 1};
        return DispatchArgs{c.compared("y", c.random(DType::bf16, {4, 200}), 0.0), x, table};
      });
    },
};

const OperatorInfo permute_operator = {
    "moe_permute",
    "moe",
    [](const DeviceInfo& info, const TierPolicy& policy) {
      const PermuteArgs args = {dummy_view(info, DType::bf16, {512, 4096}),
                                dummy_view(info, DType::bf16, {64, 4096}),
                                dummy_view(info, DType::i32, {512}),
                                {},
                                8};
      return detail::explain<PermuteArgs>(List<PermuteArgs>::value, info, args, policy);
    },
    [](const DeviceInfo& info) {
      return self_test<PermuteArgs>(info, permute_reference_run, [](SelfTestCase& c) {
        const TensorView x = c.random(DType::f16, {3, 200}), sorted = c.values(DType::i32, {5, 0, 6, 3});
        return PermuteArgs{c.output("y", DType::f16, {4, 200}, 0.0), x, sorted, {}, 2};
      });
    },
};

const OperatorInfo combine_operator = {
    "moe_combine",
    "moe",
    [](const DeviceInfo& info, const TierPolicy& policy) {
      const CombineArgs args = {dummy_view(info, DType::bf16, {64, 4096}),
                                dummy_view(info, DType::bf16, {512, 4096}),
                                dummy_view(info, DType::f32, {64, 8}),
                                dummy_view(info, DType::i32, {64, 8}),
                                {}};
      return detail::explain<CombineArgs>(List<CombineArgs>::value, info, args, policy);
    },
    [](const DeviceInfo& info) {
      return self_test<CombineArgs>(info, combine_reference_run, [](SelfTestCase& c) {
        const TensorView x = c.random(DType::f32, {4, 200}), positions = c.values(DType::i32, {3, -1, 1, 0});
        TensorView table = positions;
        table.rank = 2, table.extent = {2, 2}, table.stride = {2, 1};
        const TensorView weights = c.random(DType::f32, {2, 2}), addend = c.random(DType::f32, {2, 200});
        return CombineArgs{c.output("y", DType::f32, {2, 200}, 1e-6), x, weights, table, addend};
      });
    },
};

const OperatorInfo route_operator = {
    "moe_route",
    "moe",
    [](const DeviceInfo& info, const TierPolicy& policy) {
      RouteArgs args;
      args.router.weights = dummy_view(info, DType::f32, {64, 8});
      args.router.experts = args.align.positions = dummy_view(info, DType::i32, {64, 8});
      args.router.logits = dummy_view(info, DType::f32, {64, 128});
      args.align.sorted = dummy_view(info, DType::i32, {512});
      args.align.offsets = dummy_view(info, DType::i32, {129});
      args.align.counts = dummy_view(info, DType::i32, {128});
      args.y = dummy_view(info, DType::bf16, {512, 4096});
      args.x = dummy_view(info, DType::bf16, {64, 4096});
      return detail::explain<RouteArgs>(List<RouteArgs>::value, info, args, policy);
    },
    [](const DeviceInfo& info) {
      return self_test<RouteArgs>(info, route_reference_run, [](SelfTestCase& c) {
        RouteArgs args;
        args.router.logits = c.random(DType::f32, {9, 60}, -4.0, 4.0);
        args.x = c.random(DType::bf16, {9, 24});
        args.router.weights = c.output("weights", DType::f32, {9, 6}, 1e-5);
        args.router.experts = c.output("experts", DType::i32, {9, 6}, 0.0);
        args.align.positions = c.output("positions", DType::i32, {9, 6}, 0.0);
        args.align.sorted = c.output("sorted", DType::i32, {54}, 0.0);
        args.align.offsets = c.output("offsets", DType::i32, {61}, 0.0);
        args.align.counts = c.output("counts", DType::i32, {60}, 0.0);
        args.y = c.output("y", DType::bf16, {54, 24}, 0.0);
        return args;
      });
    },
};

}  // namespace ops

}  // namespace monotile
