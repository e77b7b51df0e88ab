#include "ops/norm/norm.hpp"

#include "ops/check.hpp"
#include "ops/entry.hpp"
#include "ops/self_test.hpp"
#include "runtime/choose.hpp"

namespace monotile {

namespace {

using namespace ops;

constexpr const Implementation<RmsNormArgs>* kImplementations[] = {
    &rms_norm_portable,
    &rms_norm_grouped,
    &rms_norm_reference,
};
constexpr const Implementation<RmsNormQuantiseArgs>* kQuantise[] = {&rms_norm_quantise_portable,
                                                                    &rms_norm_quantise_reference};
constexpr const Implementation<LayerNormArgs>* kLayerNorm[] = {&layer_norm_portable, &layer_norm_reference};

constexpr int64_t kMostCols = int64_t{1} << 20;

/// What all norms of this family take alike. `y` may be undefined where an operator allows that.
template <class Args>
void check_norm(const Args& args, Device device, int lowest_rank, int highest_rank, bool y_optional) {
  constexpr const char* op = Args::op_name;
  check::present(op, "x", args.x, device);
  check::rank(op, "x", args.x, lowest_rank, highest_rank);
  check::dtype(op, "x", args.x, {DType::f32, DType::f16, DType::bf16});
  check::inner_stride(op, "x", args.x);
  check::element_aligned(op, "x", args.x);
  const int64_t cols = args.x.dim(-1);
  if (cols < 1 || cols > kMostCols) check::fail(op, "x", std::to_string(cols) + " columns", "1 to 2^20 columns");

  if (args.y.defined() || !y_optional) {
    check::present(op, "y", args.y, device);
    check::same_extents(op, "y", args.y, "x", args.x);
    check::same_dtype(op, "y", args.y, "x", args.x);
    check::inner_stride(op, "y", args.y);
    check::element_aligned(op, "y", args.y);
    check::no_self_overlap(op, "y", args.y);
  }

  check::present(op, "gamma", args.gamma, device);
  check::rank(op, "gamma", args.gamma, 1, args.x.rank >= 2 && highest_rank == 3 ? 2 : 1);
  check::dtype(op, "gamma", args.gamma, {args.x.dtype, DType::f32});
  check::extent(op, "gamma", args.gamma, -1, cols);
  if (args.gamma.rank == 2) check::extent(op, "gamma", args.gamma, 0, args.x.dim(-2));
  check::inner_stride(op, "gamma", args.gamma);
  check::element_aligned(op, "gamma", args.gamma);
  check::disjoint(op, "y", args.y, "gamma", args.gamma);

  if (args.beta.defined()) {
    check::present(op, "beta", args.beta, device);
    check::same_extents(op, "beta", args.beta, "gamma", args.gamma);
    check::same_dtype(op, "beta", args.beta, "gamma", args.gamma);
    check::inner_stride(op, "beta", args.beta);
    check::element_aligned(op, "beta", args.beta);
    check::disjoint(op, "y", args.y, "beta", args.beta);
  }
  if (args.residual.defined()) {
    check::present(op, "residual", args.residual, device);
    check::same_extents(op, "residual", args.residual, "x", args.x);
    check::dtype(op, "residual", args.residual, {args.x.dtype, DType::f32});
    check::inner_stride(op, "residual", args.residual);
    check::element_aligned(op, "residual", args.residual);
    check::no_self_overlap(op, "residual", args.residual);
    check::disjoint(op, "residual", args.residual, "x", args.x);
    check::disjoint(op, "residual", args.residual, "y", args.y);
    check::disjoint(op, "residual", args.residual, "gamma", args.gamma);
    check::disjoint(op, "residual", args.residual, "beta", args.beta);
  }
  check::same_or_disjoint(op, "y", args.y, "x", args.x);
  if (!(args.eps >= 0.0f)) check::fail(op, "eps", std::to_string(args.eps), "0 or more");
}

void check_args(const RmsNormArgs& args, Device device) { check_norm(args, device, 1, 3, false); }
void check_args(const LayerNormArgs& args, Device device) { check_norm(args, device, 1, 3, false); }

void check_args(const RmsNormQuantiseArgs& args, Device device) {
  constexpr const char* op = RmsNormQuantiseArgs::op_name;
  check_norm(args, device, 2, 2, true);
  check::present(op, "codes", args.codes, device);
  check::same_extents(op, "codes", args.codes, "x", args.x);
  check::dtype(op, "codes", args.codes, {DType::f8_e4m3, DType::f8_e5m2, DType::i8});
  check::inner_stride(op, "codes", args.codes);
  check::no_self_overlap(op, "codes", args.codes);
  check::present(op, "scales", args.scales, device);
  check::rank(op, "scales", args.scales, 2, 2);
  check::dtype(op, "scales", args.scales, {DType::f32});
  check::extent(op, "scales", args.scales, 0, args.given_scales ? 1 : args.x.dim(0));
  check::extent(op, "scales", args.scales, 1, 1);
  check::element_aligned(op, "scales", args.scales);
  check::no_self_overlap(op, "scales", args.scales);
  for (const auto& [name, other] : {std::pair<const char*, const TensorView*>{"x", &args.x},
                                    {"y", &args.y},
                                    {"residual", &args.residual},
                                    {"gamma", &args.gamma},
                                    {"beta", &args.beta}}) {
    check::disjoint(op, "codes", args.codes, name, *other);
    check::disjoint(op, "scales", args.scales, name, *other);
  }
  check::disjoint(op, "codes", args.codes, "scales", args.scales);
}

RmsNormArgs typical(const DeviceInfo& info, bool residual) {
  const auto view = [&](std::initializer_list<int64_t> extents) { return dummy_view(info, DType::bf16, extents); };
  return {.y = view({64, 4096}),
          .residual = residual ? view({64, 4096}) : TensorView{},
          .x = view({64, 4096}),
          .gamma = view({4096}),
          .beta = {}};
}

template <bool kResidual>
std::vector<Choice> explain_norm(const DeviceInfo& info, const TierPolicy& policy) {
  return detail::explain<RmsNormArgs>(kImplementations, info, typical(info, kResidual), policy);
}

template <bool kResidual>
std::string test_norm(const DeviceInfo& info) {
  return self_test<RmsNormArgs>(info, rms_norm_reference_run, [](SelfTestCase& c) {
    RmsNormArgs args;
    args.x = c.random(DType::bf16, {5, 333});
    args.gamma = c.random(DType::bf16, {333});
    args.y = c.output("y", DType::bf16, {5, 333}, 0x1p-7);
    if (kResidual) args.residual = c.compared("residual", c.random(DType::bf16, {5, 333}), 0.0);
    return args;
  });
}

}  // namespace

template <>
Plan<RmsNormArgs> plan(Device device, const RmsNormArgs& args, const TierPolicy& policy) {
  check_args(args, device);
  if (args.y.size() == 0) return entry::empty_plan<RmsNormArgs>(device);
  return detail::choose<RmsNormArgs>(RmsNormArgs::op_name, kImplementations, device, args, policy);
}

template <>
Plan<RmsNormQuantiseArgs> plan(Device device, const RmsNormQuantiseArgs& args, const TierPolicy& policy) {
  check_args(args, device);
  if (args.x.size() == 0) return entry::empty_plan<RmsNormQuantiseArgs>(device);
  return detail::choose<RmsNormQuantiseArgs>(RmsNormQuantiseArgs::op_name, kQuantise, device, args, policy);
}

template <>
Plan<LayerNormArgs> plan(Device device, const LayerNormArgs& args, const TierPolicy& policy) {
  check_args(args, device);
  if (args.y.size() == 0) return entry::empty_plan<LayerNormArgs>(device);
  return detail::choose<LayerNormArgs>(LayerNormArgs::op_name, kLayerNorm, device, args, policy);
}

namespace ops {
const OperatorInfo rms_norm_quantise_operator = {
    "rms_norm_quantise", "norm",
    [](const DeviceInfo& info, const TierPolicy& policy) {
      const TensorView x = dummy_view(info, DType::bf16, {64, 4096});
      const RmsNormQuantiseArgs args{
          dummy_view(info, DType::f8_e4m3, {64, 4096}), dummy_view(info, DType::f32, {64, 1}), {}, x, x,
          dummy_view(info, DType::bf16, {4096})};
      return detail::explain<RmsNormQuantiseArgs>(kQuantise, info, args, policy);
    },
    [](const DeviceInfo& info) {
      return self_test<RmsNormQuantiseArgs>(info, rms_norm_quantise_reference_run, [](SelfTestCase& c) {
        RmsNormQuantiseArgs args;
        args.x = c.random(DType::bf16, {5, 333});
        args.residual = c.compared("residual", c.random(DType::bf16, {5, 333}), 0.0);
        args.gamma = c.random(DType::bf16, {333});
        args.y = c.output("y", DType::bf16, {5, 333}, 0x1p-7);
        args.codes =
            c.output("codes", DType::i8, {5, 333}, 2.0);  // where y or its largest is rounded to the other side
        args.scales = c.output("scales", DType::f32, {5, 1}, 0x1p-7);
        return args;
      });
    }};
const OperatorInfo layer_norm_operator = {
    "layer_norm", "norm",
    [](const DeviceInfo& info, const TierPolicy& policy) {
      const TensorView x = dummy_view(info, DType::bf16, {64, 4096}), gamma = dummy_view(info, DType::bf16, {4096});
      return detail::explain<LayerNormArgs>(kLayerNorm, info, {x, {}, x, gamma, gamma}, policy);
    },
    [](const DeviceInfo& info) {
      return self_test<LayerNormArgs>(info, layer_norm_reference_run, [](SelfTestCase& c) {
        LayerNormArgs args;
        args.x = c.random(DType::bf16, {5, 2, 333});
        args.residual = c.compared("residual", c.random(DType::bf16, {5, 2, 333}), 0.0);
        args.gamma = c.random(DType::bf16, {2, 333});
        args.beta = c.random(DType::bf16, {2, 333});
        args.y = c.output("y", DType::bf16, {5, 2, 333}, 0x1p-7);
        return args;
      });
    }};
const OperatorInfo rms_norm_operator = {"rms_norm", "norm", explain_norm<false>, test_norm<false>};
const OperatorInfo add_rms_norm_operator = {"add_rms_norm", "norm", explain_norm<true>, test_norm<true>};
}  // namespace ops

}  // namespace monotile
