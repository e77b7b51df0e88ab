#include "ops/softmax/softmax.hpp"

#include "ops/check.hpp"
#include "ops/entry.hpp"
#include "ops/self_test.hpp"
#include "runtime/choose.hpp"

namespace monotile {

namespace {

using namespace ops;

constexpr const char* op = SoftmaxArgs::op_name;

constexpr const Implementation<SoftmaxArgs>* kImplementations[] = {
    &softmax_portable,
    &softmax_masked,
    &softmax_reference,
};

constexpr int64_t kMostCols = int64_t{1} << 20;

void check_args(const SoftmaxArgs& args, Device device) {
  check::present(op, "x", args.x, device);
  check::rank(op, "x", args.x, 2, 2);
  check::dtype(op, "x", args.x, {DType::f32, DType::f16, DType::bf16});
  check::inner_stride(op, "x", args.x);
  check::element_aligned(op, "x", args.x);
  if (args.x.dim(1) < 1 || args.x.dim(1) > kMostCols) {
    check::fail(op, "x", std::to_string(args.x.dim(1)) + " columns", "1 to 2^20 columns");
  }
  check::present(op, "y", args.y, device);
  check::same_extents(op, "y", args.y, "x", args.x);
  check::dtype(op, "y", args.y, {args.x.dtype, DType::f32});
  check::inner_stride(op, "y", args.y);
  check::element_aligned(op, "y", args.y);
  check::no_self_overlap(op, "y", args.y);
  check::same_or_disjoint(op, "y", args.y, "x", args.x);
  if (args.mask.defined()) {
    check::present(op, "mask", args.mask, device);
    check::rank(op, "mask", args.mask, 2, 2);
    check::dtype(op, "mask", args.mask, {DType::f32, DType::f16, DType::bf16, DType::u8});
    if (args.mask.dim(0) != 1) check::extent(op, "mask", args.mask, 0, args.x.dim(0));
    check::extent(op, "mask", args.mask, 1, args.x.dim(1));
    check::inner_stride(op, "mask", args.mask);
    check::element_aligned(op, "mask", args.mask);
    check::disjoint(op, "y", args.y, "mask", args.mask);
  }
  if (!(args.scale - args.scale == 0.0f)) check::fail(op, "scale", std::to_string(args.scale), "a finite number");
}

}  // namespace

template <>
Plan<SoftmaxArgs> plan(Device device, const SoftmaxArgs& args, const TierPolicy& policy) {
  check_args(args, device);
  if (args.y.size() == 0) return entry::empty_plan<SoftmaxArgs>(device);
  return detail::choose<SoftmaxArgs>(op, kImplementations, device, args, policy);
}

namespace ops {

const OperatorInfo softmax_operator = {
    "softmax",
    "softmax",
    [](const DeviceInfo& info, const TierPolicy& policy) {
      const TensorView view = dummy_view(info, DType::bf16, {64, 4096});
      return detail::explain<SoftmaxArgs>(kImplementations, info, {view, view, 1.0f, false}, policy);
    },
    [](const DeviceInfo& info) {
      for (const bool log : {false, true}) {
        const std::string wrong = self_test<SoftmaxArgs>(info, softmax_reference_run, [log](SelfTestCase& c) {
          const TensorView x = c.random(DType::bf16, {5, 333}, -8.0, 8.0);
          return SoftmaxArgs{c.output("y", DType::f32, {5, 333}, 1e-5), x, 0.7f, log};
        });
        if (!wrong.empty()) return wrong;
      }
      return std::string();
    },
};

}  // namespace ops

}  // namespace monotile
