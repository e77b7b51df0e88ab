#include "ops/sampling/sampling.hpp"

#include <algorithm>
#include <limits>

#include "ops/check.hpp"
#include "ops/entry.hpp"
#include "ops/self_test.hpp"
#include "runtime/choose.hpp"

namespace monotile {

namespace {

using namespace ops;

constexpr const Implementation<ArgmaxArgs>* kArgmaxImplementations[] = {
    &argmax_portable,
    &argmax_reference,
};

constexpr const Implementation<SampleArgs>* kSampleImplementations[] = {
    &sample_portable,
    &sample_reference,
};

constexpr const Implementation<TopKArgs>* kTopKImplementations[] = {
    &top_k_portable,
    &top_k_reference,
};

constexpr int64_t kMostTopK = 2048;

void check_logits(const char* op, const TensorView& logits, Device device) {
  check::present(op, "logits", logits, device);
  check::rank(op, "logits", logits, 2, 2);
  check::dtype(op, "logits", logits, {DType::f32, DType::f16, DType::bf16});
  check::inner_stride(op, "logits", logits);
  check::element_aligned(op, "logits", logits);
  if (logits.dim(1) < 1 || logits.dim(1) > std::numeric_limits<int32_t>::max()) {
    check::fail(op, "logits", std::to_string(logits.dim(1)) + " columns", "1 to 2^31 - 1 columns");
  }
}

/// A packed output [rows, width] that shares no memory with the logits.
void check_packed_output(const char* op, const char* argument, const TensorView& view, DType dtype, int64_t rows,
                         const TensorView& logits, Device device) {
  check::present(op, argument, view, device);
  check::rank(op, argument, view, 2, 2);
  check::dtype(op, argument, view, {dtype});
  check::extent(op, argument, view, 0, rows);
  check::inner_stride(op, argument, view);
  check::element_aligned(op, argument, view);
  if (view.dim(0) > 1 && view.step(0) != view.dim(1)) {
    check::fail(op, argument, "row stride " + std::to_string(view.step(0)),
                "packed rows of " + std::to_string(view.dim(1)));
  }
  check::disjoint(op, argument, view, "logits", logits);
}

void check_rows(const char* op, const TensorView& ids, const TensorView& logits, const TensorView& status,
                Device device) {
  check_logits(op, logits, device);
  check::present(op, "ids", ids, device);
  check::rank(op, "ids", ids, 1, 1);
  check::dtype(op, "ids", ids, {DType::i32});
  check::extent(op, "ids", ids, 0, logits.dim(0));
  check::inner_stride(op, "ids", ids);
  check::element_aligned(op, "ids", ids);
  check::disjoint(op, "ids", ids, "logits", logits);
  check::optional_status(op, status, logits.dim(0), device, {{"ids", ids}, {"logits", logits}});
}

void check_parameter(const char* argument, const TensorView& view, DType dtype, const SampleArgs& args, Device device) {
  constexpr const char* op = SampleArgs::op_name;
  if (!view.defined()) return;
  check::present(op, argument, view, device);
  check::rank(op, argument, view, 1, 1);
  check::dtype(op, argument, view, {dtype});
  check::extent(op, argument, view, 0, args.logits.dim(0));
  check::inner_stride(op, argument, view);
  check::element_aligned(op, argument, view);
}

constexpr float kInfinity = std::numeric_limits<float>::infinity();

}  // namespace

template <>
Plan<ArgmaxArgs> plan(Device device, const ArgmaxArgs& args, const TierPolicy& policy) {
  check_rows(ArgmaxArgs::op_name, args.ids, args.logits, args.status, device);
  if (args.ids.size() == 0) return entry::empty_plan<ArgmaxArgs>(device);
  return detail::choose<ArgmaxArgs>(ArgmaxArgs::op_name, kArgmaxImplementations, device, args, policy);
}

template <>
Plan<SampleArgs> plan(Device device, const SampleArgs& args, const TierPolicy& policy) {
  check_rows(SampleArgs::op_name, args.ids, args.logits, args.status, device);
  check_parameter("temperature", args.temperature, DType::f32, args, device);
  check_parameter("top_k", args.top_k, DType::i32, args, device);
  check_parameter("top_p", args.top_p, DType::f32, args, device);
  check_parameter("min_p", args.min_p, DType::f32, args, device);
  check_parameter("seeds", args.seeds, DType::i64, args, device);
  check_parameter("positions", args.positions, DType::i64, args, device);
  if (args.ids.size() == 0) return entry::empty_plan<SampleArgs>(device);
  return detail::choose<SampleArgs>(SampleArgs::op_name, kSampleImplementations, device, args, policy);
}

template <>
Plan<TopKArgs> plan(Device device, const TopKArgs& args, const TierPolicy& policy) {
  constexpr const char* op = TopKArgs::op_name;
  check_logits(op, args.logits, device);
  const int64_t rows = args.logits.dim(0), cols = args.logits.dim(1);
  if (cols > int64_t{1} << 24) check::fail(op, "logits", std::to_string(cols) + " columns", "1 to 2^24 columns");
  check_packed_output(op, "ids", args.ids, DType::i32, rows, args.logits, device);
  check_packed_output(op, "values", args.values, DType::f32, rows, args.logits, device);
  check::same_extents(op, "values", args.values, "ids", args.ids);
  const int64_t k = args.ids.dim(1), most = std::min(cols, kMostTopK);
  if (k < 1 || k > most) check::fail(op, "ids", "k of " + std::to_string(k), "1 to " + std::to_string(most));
  check::disjoint(op, "values", args.values, "ids", args.ids);
  check::optional_status(op, args.status, rows, device);
  if (args.ids.size() == 0) return entry::empty_plan<TopKArgs>(device);
  return detail::choose<TopKArgs>(op, kTopKImplementations, device, args, policy);
}

namespace ops {

const OperatorInfo argmax_operator = {
    "argmax",
    "sampling",
    [](const DeviceInfo& info, const TierPolicy& policy) {
      const ArgmaxArgs args = {dummy_view(info, DType::i32, {16}), dummy_view(info, DType::f32, {16, 128256}), {}};
      return detail::explain<ArgmaxArgs>(kArgmaxImplementations, info, args, policy);
    },
    [](const DeviceInfo& info) {
      return self_test<ArgmaxArgs>(info, argmax_reference_run, [](SelfTestCase& c) {
        const TensorView logits = c.random(DType::bf16, {5, 1001}, -4.0, 4.0);
        return ArgmaxArgs{c.output("ids", DType::i32, {5}, 0.0), logits, c.output("status", DType::i32, {5}, 0.0)};
      });
    },
};

const OperatorInfo sample_operator = {
    "sample",
    "sampling",
    [](const DeviceInfo& info, const TierPolicy& policy) {
      SampleArgs args;
      args.ids = dummy_view(info, DType::i32, {16});
      args.logits = dummy_view(info, DType::f32, {16, 128256});
      args.temperature = args.top_p = args.min_p = dummy_view(info, DType::f32, {16});
      args.top_k = dummy_view(info, DType::i32, {16});
      args.seeds = args.positions = dummy_view(info, DType::i64, {16});
      return detail::explain<SampleArgs>(kSampleImplementations, info, args, policy);
    },
    [](const DeviceInfo& info) {
      return self_test<SampleArgs>(info, sample_reference_run, [](SelfTestCase& c) {
        SampleArgs args;
        args.logits = c.random(DType::f32, {6, 1001}, -4.0, 4.0);
        args.temperature = c.values(DType::f32, {1.0, 0.0, 0.5, 2.0, 1.0, kInfinity});
        args.top_k = c.values(DType::i32, {0, 5, 40, 2000, -1, 0});
        args.top_p = c.values(DType::f32, {1.0, 0.5, 1.0, 0.75, 0.9, 0.0});
        args.min_p = c.values(DType::f32, {0.0, 0.0, 0.1, 0.0, 0.25, 0.0});
        args.seeds = c.values(DType::i64, {1, 2, 3, 4, 5, 6});
        args.positions = c.values(DType::i64, {0, 1, 2, 3, 4, 5});
        args.ids = c.output("ids", DType::i32, {6}, 0.0);
        args.status = c.output("status", DType::i32, {6}, 0.0);
        return args;
      });
    },
};

const OperatorInfo top_k_operator = {
    "top_k",
    "sampling",
    [](const DeviceInfo& info, const TierPolicy& policy) {
      const TopKArgs args = {dummy_view(info, DType::f32, {16, 50}),
                             dummy_view(info, DType::i32, {16, 50}),
                             dummy_view(info, DType::f32, {16, 128256}),
                             {}};
      return detail::explain<TopKArgs>(kTopKImplementations, info, args, policy);
    },
    [](const DeviceInfo& info) {
      return self_test<TopKArgs>(info, top_k_reference_run, [](SelfTestCase& c) {
        const TensorView logits = c.random(DType::bf16, {3, 9001}, -4.0, 4.0);
        return TopKArgs{c.output("values", DType::f32, {3, 20}, 0.0), c.output("ids", DType::i32, {3, 20}, 0.0), logits,
                        c.output("status", DType::i32, {3}, 0.0)};
      });
    },
};

}  // namespace ops

}  // namespace monotile
