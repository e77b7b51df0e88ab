#include "ops/rope/rope.hpp"

#include "ops/check.hpp"
#include "ops/entry.hpp"
#include "ops/self_test.hpp"
#include "runtime/choose.hpp"

namespace monotile {

namespace {

using namespace ops;

constexpr const char* op = RopeArgs::op_name;

constexpr const Implementation<RopeArgs>* kImplementations[] = {
    &rope_portable,
    &rope_reference,
};

void check_heads(const char* argument, const TensorView& view, const RopeArgs& args, Device device) {
  check::present(op, argument, view, device);
  check::rank(op, argument, view, 3, 3);
  check::same_dtype(op, argument, view, "q", args.q);
  check::extent(op, argument, view, 0, args.q.dim(0));
  check::extent(op, argument, view, 2, args.q.dim(2));
  check::inner_stride(op, argument, view);
  check::element_aligned(op, argument, view);
}

void check_out(const char* argument, const TensorView& view, const char* in_name, const TensorView& in,
               const RopeArgs& args, Device device) {
  check_heads(argument, view, args, device);
  check::same_extents(op, argument, view, in_name, in);
  check::no_self_overlap(op, argument, view);
  check::same_or_disjoint(op, argument, view, in_name, in);
  check::disjoint(op, argument, view, "positions", args.positions);
  check::disjoint(op, argument, view, "cos", args.cos);
  check::disjoint(op, argument, view, "sin", args.sin);
}

void check_table(const char* argument, const TensorView& view, int64_t half, Device device) {
  check::present(op, argument, view, device);
  check::rank(op, argument, view, 2, 2);
  check::dtype(op, argument, view, {DType::f32});
  check::extent(op, argument, view, 1, half);
  check::inner_stride(op, argument, view);
  check::element_aligned(op, argument, view);
  if (view.dim(0) < 1) check::fail(op, argument, "no positions", "max_position of 1 or more");
}

void check_args(const RopeArgs& args, Device device) {
  check::present(op, "q", args.q, device);
  check::rank(op, "q", args.q, 3, 3);
  check::dtype(op, "q", args.q, {DType::f32, DType::f16, DType::bf16});
  check_heads("q", args.q, args, device);
  const int64_t head_dim = args.q.dim(2);
  const int64_t rotary_dim = args.rotary_dim == 0 ? head_dim : args.rotary_dim;
  if (rotary_dim < 2 || rotary_dim % 2 != 0 || rotary_dim > head_dim) {
    check::fail(op, "rotary_dim", std::to_string(rotary_dim),
                "even, from 2 to the head_dim " + std::to_string(head_dim));
  }
  check_table("cos", args.cos, rotary_dim / 2, device);
  check_table("sin", args.sin, rotary_dim / 2, device);
  check::extent(op, "sin", args.sin, 0, args.cos.dim(0));

  check::indices(op, "positions", args.positions, device);
  check::extent(op, "positions", args.positions, 0, args.q.dim(0));

  check_out("q_out", args.q_out, "q", args.q, args, device);
  if (args.k.defined() || args.k_out.defined()) {
    check_heads("k", args.k, args, device);
    check_out("k_out", args.k_out, "k", args.k, args, device);
    check::disjoint(op, "q_out", args.q_out, "k", args.k);
    check::disjoint(op, "q_out", args.q_out, "k_out", args.k_out);
    check::disjoint(op, "k_out", args.k_out, "q", args.q);
  }
  check::optional_status(op, args.status, args.q.dim(0), device,
                         {{"q_out", args.q_out}, {"k_out", args.k_out}, {"q", args.q}, {"k", args.k}, {"positions", args.positions}, {"cos", args.cos},
                          {"sin", args.sin}});
}

RopeArgs typical(const DeviceInfo& info) {
  RopeArgs args;
  args.q = args.q_out = dummy_view(info, DType::bf16, {64, 32, 128});
  args.k = args.k_out = dummy_view(info, DType::bf16, {64, 8, 128});
  args.positions = dummy_view(info, DType::i32, {64});
  args.cos = args.sin = dummy_view(info, DType::f32, {8192, 64});
  return args;
}

}  // namespace

template <>
Plan<RopeArgs> plan(Device device, const RopeArgs& args, const TierPolicy& policy) {
  check_args(args, device);
  if (args.q_out.size() == 0 && args.k_out.size() == 0) return entry::empty_plan<RopeArgs>(device);
  return detail::choose<RopeArgs>(op, kImplementations, device, args, policy);
}

namespace ops {

const OperatorInfo rope_operator = {
    "rope",
    "rope",
    [](const DeviceInfo& info, const TierPolicy& policy) {
      return detail::explain<RopeArgs>(kImplementations, info, typical(info), policy);
    },
    [](const DeviceInfo& info) {
      return self_test<RopeArgs>(info, rope_reference_run, [](SelfTestCase& c) {
        RopeArgs args;
        args.q = c.random(DType::bf16, {5, 3, 66});
        args.k = c.random(DType::bf16, {5, 1, 66});
        args.q_out = c.output("q_out", DType::bf16, {5, 3, 66}, 0x1p-7);
        args.k_out = c.output("k_out", DType::bf16, {5, 1, 66}, 0x1p-7);
        args.positions = c.values(DType::i32, {0, 6, 3, 100, -1});
        args.cos = c.random(DType::f32, {7, 20});
        args.sin = c.random(DType::f32, {7, 20});
        args.status = c.compared("status", c.values(DType::i32, {0, 0, 0, 0, 0}), 0.0);
        args.rotary_dim = 40;
        return args;
      });
    },
};

}  // namespace ops

}  // namespace monotile
