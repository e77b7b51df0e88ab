#include <algorithm>
#include <cmath>
#include <limits>

#include "monotile/kernels/attention/merge_states_params.hpp"
#include "ops/attention/attention.hpp"
#include "ops/check.hpp"
#include "ops/entry.hpp"
#include "ops/row_tiles.hpp"
#include "ops/self_test.hpp"
#include "runtime/choose.hpp"

namespace monotile {

namespace {

using namespace ops;

constexpr const char* op = MergeStatesArgs::op_name;
constexpr int64_t kLargestDim = 256;

// --- reference -------------------------------------------------------------------------------------------------------
void merge_states_reference_run(const MergeStatesArgs& args) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (int64_t token = 0; token < args.out.dim(0); ++token) {
    for (int64_t head = 0; head < args.out.dim(1); ++head) {
      const auto value = [&](const TensorView& t, int64_t i) {
        return reference::get(t, token * t.step(0) + head * t.step(1) + i);
      };
      const auto logarithm = [&](const TensorView& t) {
        return reference::get(t, token * t.step(0) + head * t.step(1));
      };
      const double a = logarithm(args.log_sum_exp_a), b = logarithm(args.log_sum_exp_b);
      const bool has_a = a != -kInfinity, has_b = b != -kInfinity;
      // sum = e^a + e^b, as e^a (1 + e^(b - a)) or the other way round.
      const double more = std::isnan(a) || std::isnan(b) ? std::nan("") : std::max(a, b);
      const double whole = !has_a && !has_b ? -kInfinity
                           : !has_a         ? b
                           : !has_b         ? a
                                            : more + std::log1p(std::exp(std::min(a, b) - more));
      for (int64_t i = 0; i < args.out.dim(2); ++i) {
        double sum = 0;
        if (has_a) sum += std::exp(a - whole) * value(args.a, i);
        if (has_b) sum += std::exp(b - whole) * value(args.b, i);
        reference::set(args.out, token * args.out.step(0) + head * args.out.step(1) + i, sum);
      }
      const TensorView& lse = args.log_sum_exp;
      if (lse.defined()) reference::set(lse, token * lse.step(0) + head * lse.step(1), whole);
    }
  }
}

// --- portable --------------------------------------------------------------------------------------------------------
RowTile tile_of(const MergeStatesArgs& a, const DeviceInfo& device) {
  if (device.device.kind == DeviceKind::cpu) return {kHeads16, 1, 1};
  const int threads = lanes_on(device, 128);
  return a.out.dim(2) <= 128 ? RowTile{kHeads16, threads, threads / 16} : RowTile{kHeads32, threads, threads / 32};
}
auto kernel_of(const MergeStatesArgs& a, const DeviceInfo& device) {
  return find_kernel("merge_states", target_of(device), tile_of(a, device).layout);
}

const char* supports(const MergeStatesArgs& a, const DeviceInfo& device) {
  if (row_count(a.out) > INT32_MAX) return "more than 2^31 - 1 heads of all tokens";
  return kernel_of(a, device) == nullptr ? "not built for this target" : nullptr;
}
double cost(const MergeStatesArgs&, const DeviceInfo&) { return 1.0; }
void make_plan(const MergeStatesArgs& a, const DeviceInfo& device, Plan<MergeStatesArgs>& plan) {
  const RowTile tile = tile_of(a, device);
  plan.kernel = reinterpret_cast<const void*>(kernel_of(a, device));
  plan.config = {static_cast<int64_t>(tile.layout), tile.threads, tile.rows_per_program};
}

kernels::MergeStatesParams::State state_of(const TensorView& out, const TensorView& log_sum_exp) {
  kernels::MergeStatesParams::State state{any_rows_view(out), {}};
  if (!log_sum_exp.defined()) return state;
  lang::view<float>& lse = state.log_sum_exp;
  lse.data = log_sum_exp.as<float>();
  lse.cols = 1;
  lse.split_rows(static_cast<uint32_t>(log_sum_exp.dim(1)));
  lse.outer_stride = log_sum_exp.step(0);
  lse.inner_stride = log_sum_exp.step(1);
  return state;
}

void run(const Plan<MergeStatesArgs>& plan, Stream& stream, const MergeStatesArgs& a, void*) {
  if (a.out.size() == 0) return;
  kernels::MergeStatesParams p{};
  p.a = state_of(a.a, a.log_sum_exp_a);
  p.b = state_of(a.b, a.log_sum_exp_b);
  p.merged = state_of(a.out, a.log_sum_exp);
  p.rows = row_count(a.out);
  p.cols = a.out.dim(2);
  const RowTile tile{static_cast<uint32_t>(plan.config[0]), static_cast<int>(plan.config[1]),
                     static_cast<int>(plan.config[2])};
  const Grid grid{programs_for(tile, p.rows), tile.threads, 0, cpu_grain(p.cols * 4)};
  reinterpret_cast<KernelFn<kernels::MergeStatesParams>>(const_cast<void*>(plan.kernel))(stream, grid, p);
}

constexpr Implementation<MergeStatesArgs> kPortable{"portable", Tier::portable, supports, cost, make_plan, run};
constinit const Implementation<MergeStatesArgs> kReference =
    reference::implementation<MergeStatesArgs, merge_states_reference_run>("merge_states_reference");
constexpr const Implementation<MergeStatesArgs>* kImplementations[] = {&kPortable, &kReference};

// --- checks ----------------------------------------------------------------------------------------------------------
void check_rows(const char* argument, const TensorView& view, const TensorView& out, Device device) {
  check::present(op, argument, view, device);
  check::rank(op, argument, view, 3, 3);
  check::dtype(op, argument, view, {DType::f32, DType::f16, DType::bf16});
  check::same_extents(op, argument, view, "out", out);
  check::inner_stride(op, argument, view);
  check::element_aligned(op, argument, view);
}
void check_logarithms(const char* argument, const TensorView& view, const TensorView& out, Device device) {
  check::present(op, argument, view, device);
  check::rank(op, argument, view, 2, 2);
  check::dtype(op, argument, view, {DType::f32});
  check::extent(op, argument, view, 0, out.dim(0));
  check::extent(op, argument, view, 1, out.dim(1));
  check::element_aligned(op, argument, view);
  for (int axis = 0; axis < 2; ++axis) {
    if (view.step(axis) < 0) check::fail(op, argument, "stride " + std::to_string(view.step(axis)), "0 or more");
  }
}

void check_args(const MergeStatesArgs& args, Device device) {
  check_rows("out", args.out, args.out, device);
  check_rows("a", args.a, args.out, device);
  check_rows("b", args.b, args.out, device);
  check::no_self_overlap(op, "out", args.out);
  check::same_dtype(op, "b", args.b, "a", args.a);
  if (args.out.dim(2) < 1 || args.out.dim(2) > kLargestDim)
    check::fail(op, "out", "head dimension " + std::to_string(args.out.dim(2)), "1 to 256");
  check_logarithms("log_sum_exp_a", args.log_sum_exp_a, args.out, device);
  check_logarithms("log_sum_exp_b", args.log_sum_exp_b, args.out, device);
  check::same_or_disjoint(op, "out", args.out, "a", args.a);
  check::same_or_disjoint(op, "out", args.out, "b", args.b);
  check::disjoint(op, "out", args.out, "log_sum_exp_a", args.log_sum_exp_a);
  check::disjoint(op, "out", args.out, "log_sum_exp_b", args.log_sum_exp_b);
  if (!args.log_sum_exp.defined()) return;
  check_logarithms("log_sum_exp", args.log_sum_exp, args.out, device);
  check::no_self_overlap(op, "log_sum_exp", args.log_sum_exp);
  check::disjoint(op, "log_sum_exp", args.log_sum_exp, "out", args.out);
  check::disjoint(op, "log_sum_exp", args.log_sum_exp, "a", args.a);
  check::disjoint(op, "log_sum_exp", args.log_sum_exp, "b", args.b);
  check::same_or_disjoint(op, "log_sum_exp", args.log_sum_exp, "log_sum_exp_a", args.log_sum_exp_a);
  check::same_or_disjoint(op, "log_sum_exp", args.log_sum_exp, "log_sum_exp_b", args.log_sum_exp_b);
}

}  // namespace

template <>
Plan<MergeStatesArgs> plan(Device device, const MergeStatesArgs& args, const TierPolicy& policy) {
  check_args(args, device);
  if (args.out.size() == 0) return entry::empty_plan<MergeStatesArgs>(device);
  return detail::choose<MergeStatesArgs>(op, kImplementations, device, args, policy);
}

namespace ops {

void merge_states_reference(const MergeStatesArgs& args) { merge_states_reference_run(args); }

const OperatorInfo merge_states_operator = {
    "merge_states",
    "attention",
    [](const DeviceInfo& info, const TierPolicy& policy) {
      MergeStatesArgs args;
      args.out = args.a = args.b = dummy_view(info, DType::bf16, {64, 32, 128});
      args.log_sum_exp_a = args.log_sum_exp_b = dummy_view(info, DType::f32, {64, 32});
      return detail::explain<MergeStatesArgs>(kImplementations, info, args, policy);
    },
    [](const DeviceInfo& info) {
      return self_test<MergeStatesArgs>(info, merge_states_reference_run, [](SelfTestCase& c) {
        MergeStatesArgs args;
        args.a = c.random(DType::f32, {3, 2, 40});
        args.b = c.random(DType::f32, {3, 2, 40});
        args.log_sum_exp_a = c.random(DType::f32, {3, 2}, -3, 3);
        args.log_sum_exp_b = c.random(DType::f32, {3, 2}, -3, 3);
        args.out = c.output("out", DType::f16, {3, 2, 40}, 1e-3);
        args.log_sum_exp = c.output("log_sum_exp", DType::f32, {3, 2}, 1e-5);
        return args;
      });
    },
};

}  // namespace ops

}  // namespace monotile
