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
    &rms_norm_reference,
};

constexpr int64_t kMostCols = int64_t{1} << 20;

void check_args(const RmsNormArgs& args, Device device) {
  constexpr const char* op = RmsNormArgs::op_name;
  check::present(op, "x", args.x, device);
  check::rank(op, "x", args.x, 1, 3);
  check::dtype(op, "x", args.x, {DType::f32, DType::f16, DType::bf16});
  check::inner_stride(op, "x", args.x);
  check::element_aligned(op, "x", args.x);
  const int64_t cols = args.x.dim(-1);
  if (cols < 1 || cols > kMostCols) check::fail(op, "x", std::to_string(cols) + " columns", "1 to 2^20 columns");

  check::present(op, "y", args.y, device);
  check::same_extents(op, "y", args.y, "x", args.x);
  check::same_dtype(op, "y", args.y, "x", args.x);
  check::inner_stride(op, "y", args.y);
  check::element_aligned(op, "y", args.y);
  check::no_self_overlap(op, "y", args.y);

  check::present(op, "gamma", args.gamma, device);
  check::rank(op, "gamma", args.gamma, 1, 1);
  check::dtype(op, "gamma", args.gamma, {args.x.dtype, DType::f32});
  check::extent(op, "gamma", args.gamma, 0, cols);
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

namespace ops {
const OperatorInfo rms_norm_operator = {"rms_norm", "norm", explain_norm<false>, test_norm<false>};
const OperatorInfo add_rms_norm_operator = {"add_rms_norm", "norm", explain_norm<true>, test_norm<true>};
}  // namespace ops

}  // namespace monotile
