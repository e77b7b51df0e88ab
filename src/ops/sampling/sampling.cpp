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

constexpr const Implementation<PenaltiesArgs>* kPenaltiesImplementations[] = {
    &penalties_portable,
    &penalties_reference,
};

constexpr const Implementation<LogprobsArgs>* kLogprobsImplementations[] = {
    &logprobs_portable,
    &logprobs_reference,
};

constexpr const Implementation<VerifyArgs>* kVerifyImplementations[] = {
    &verify_portable,
    &verify_reference,
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
  if (view.size() > 0 && view.dim(0) > 1 && view.step(0) != view.dim(1)) {
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

/// An optional vector of one value per row.
void check_parameter(const char* op, const char* argument, const TensorView& view, DType dtype, int64_t rows,
                     Device device) {
  if (!view.defined()) return;
  check::present(op, argument, view, device);
  check::rank(op, argument, view, 1, 1);
  check::dtype(op, argument, view, {dtype});
  check::extent(op, argument, view, 0, rows);
  check::inner_stride(op, argument, view);
  check::element_aligned(op, argument, view);
}

void check_penalties(const char* op, const PenaltiesArgs& args, const TensorView& logits, Device device) {
  const int64_t rows = logits.dim(0);
  if (args.history.defined()) {
    check::present(op, "history", args.history, device);
    check::rank(op, "history", args.history, 2, 2);
    check::dtype(op, "history", args.history, {DType::i32});
    check::extent(op, "history", args.history, 0, rows);
    check::inner_stride(op, "history", args.history);
    check::element_aligned(op, "history", args.history);
    check::disjoint(op, "logits", logits, "history", args.history);
  }
  check_parameter(op, "history_length", args.history_length, DType::i32, rows, device);
  check_parameter(op, "prompt_length", args.prompt_length, DType::i32, rows, device);
  check_parameter(op, "repetition", args.repetition, DType::f32, rows, device);
  check_parameter(op, "presence", args.presence, DType::f32, rows, device);
  check_parameter(op, "frequency", args.frequency, DType::f32, rows, device);
  if (args.bias_ids.defined() != args.bias.defined()) {
    check::fail(op, args.bias.defined() ? "bias_ids" : "bias", "undefined", "bias_ids and bias together");
  }
  if (args.bias.defined()) {
    check_packed_output(op, "bias_ids", args.bias_ids, DType::i32, rows, logits, device);
    check_packed_output(op, "bias", args.bias, DType::f32, rows, logits, device);
    check::same_extents(op, "bias", args.bias, "bias_ids", args.bias_ids);
  }
  if (args.any()) check::no_self_overlap(op, "logits", logits);
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
  constexpr const char* op = SampleArgs::op_name;
  check_rows(op, args.ids, args.logits, args.status, device);
  const int64_t rows = args.logits.dim(0);
  check_parameter(op, "temperature", args.temperature, DType::f32, rows, device);
  check_parameter(op, "top_k", args.top_k, DType::i32, rows, device);
  check_parameter(op, "top_p", args.top_p, DType::f32, rows, device);
  check_parameter(op, "min_p", args.min_p, DType::f32, rows, device);
  check_parameter(op, "seeds", args.seeds, DType::i64, rows, device);
  check_parameter(op, "positions", args.positions, DType::i64, rows, device);
  if (args.penalties.logits.defined())
    check::fail(op, "penalties.logits", "defined", "undefined: the logits of the call are meant");
  check_penalties(op, args.penalties, args.logits, device);
  if (args.ids.size() == 0) return entry::empty_plan<SampleArgs>(device);
  return detail::choose<SampleArgs>(op, kSampleImplementations, device, args, policy);
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
  check::optional_status(op, args.status, rows, device,
                         {{"values", args.values}, {"ids", args.ids}, {"logits", args.logits}});
  if (args.ids.size() == 0) return entry::empty_plan<TopKArgs>(device);
  return detail::choose<TopKArgs>(op, kTopKImplementations, device, args, policy);
}

template <>
Plan<PenaltiesArgs> plan(Device device, const PenaltiesArgs& args, const TierPolicy& policy) {
  constexpr const char* op = PenaltiesArgs::op_name;
  check_logits(op, args.logits, device);
  check_penalties(op, args, args.logits, device);
  if (args.logits.size() == 0 || !args.any()) return entry::empty_plan<PenaltiesArgs>(device);
  return detail::choose<PenaltiesArgs>(op, kPenaltiesImplementations, device, args, policy);
}

template <>
Plan<LogprobsArgs> plan(Device device, const LogprobsArgs& args, const TierPolicy& policy) {
  constexpr const char* op = LogprobsArgs::op_name;
  check_logits(op, args.logits, device);
  const int64_t rows = args.logits.dim(0), cols = args.logits.dim(1);
  if (cols > int64_t{1} << 24) check::fail(op, "logits", std::to_string(cols) + " columns", "1 to 2^24 columns");
  if (!args.tokens.defined() && !args.top_ids.defined())
    check::fail(op, "tokens", "undefined, top_ids too", "tokens with logprobs, top_ids with top_logprobs, or both");
  if (args.tokens.defined() || args.logprobs.defined()) {
    check_packed_output(op, "tokens", args.tokens, DType::i32, rows, args.logits, device);
    check_packed_output(op, "logprobs", args.logprobs, DType::f32, rows, args.logits, device);
    check::same_extents(op, "logprobs", args.logprobs, "tokens", args.tokens);
    check::disjoint(op, "logprobs", args.logprobs, "tokens", args.tokens);
  }
  if (args.top_ids.defined() || args.top_logprobs.defined()) {
    check_packed_output(op, "top_ids", args.top_ids, DType::i32, rows, args.logits, device);
    check_packed_output(op, "top_logprobs", args.top_logprobs, DType::f32, rows, args.logits, device);
    check::same_extents(op, "top_logprobs", args.top_logprobs, "top_ids", args.top_ids);
    check::disjoint(op, "top_logprobs", args.top_logprobs, "top_ids", args.top_ids);
    const int64_t k = args.top_ids.dim(1), most = std::min(cols, kMostTopK);
    if (k > most) check::fail(op, "top_ids", "k of " + std::to_string(k), "0 to " + std::to_string(most));
  }
  check::optional_status(op, args.status, rows, device,
                         {{"logits", args.logits},
                          {"tokens", args.tokens},
                          {"logprobs", args.logprobs},
                          {"top_ids", args.top_ids},
                          {"top_logprobs", args.top_logprobs}});
  if (rows == 0) return entry::empty_plan<LogprobsArgs>(device);
  return detail::choose<LogprobsArgs>(op, kLogprobsImplementations, device, args, policy);
}

template <>
Plan<VerifyArgs> plan(Device device, const VerifyArgs& args, const TierPolicy& policy) {
  constexpr const char* op = VerifyArgs::op_name;
  const auto check_probs = [&](const char* argument, const TensorView& view) {
    check::present(op, argument, view, device);
    check::rank(op, argument, view, 3, 3);
    check::dtype(op, argument, view, {DType::f32});
    check::inner_stride(op, argument, view);
    check::element_aligned(op, argument, view);
  };
  check_probs("target_probs", args.target_probs);
  const int64_t batch = args.target_probs.dim(0), drafts = args.target_probs.dim(1) - 1,
                cols = args.target_probs.dim(2);
  if (drafts < 0) check::fail(op, "target_probs", "no distributions", "one more than drafts");
  if (cols < 1 || cols > std::numeric_limits<int32_t>::max())
    check::fail(op, "target_probs", std::to_string(cols) + " columns", "1 to 2^31 - 1 columns");
  check_packed_output(op, "draft_tokens", args.draft_tokens, DType::i32, batch, args.target_probs, device);
  check::extent(op, "draft_tokens", args.draft_tokens, 1, drafts);
  if (args.draft_probs.defined()) {
    check_probs("draft_probs", args.draft_probs);
    check::extent(op, "draft_probs", args.draft_probs, 0, batch);
    check::extent(op, "draft_probs", args.draft_probs, 1, drafts);
    check::extent(op, "draft_probs", args.draft_probs, 2, cols);
  }
  check_packed_output(op, "tokens", args.tokens, DType::i32, batch, args.target_probs, device);
  check::extent(op, "tokens", args.tokens, 1, drafts + 1);
  check::disjoint(op, "tokens", args.tokens, "draft_tokens", args.draft_tokens);
  check::present(op, "accepted", args.accepted, device);
  check_parameter(op, "accepted", args.accepted, DType::i32, batch, device);
  check_parameter(op, "seeds", args.seeds, DType::i64, batch, device);
  check_parameter(op, "positions", args.positions, DType::i64, batch, device);
  check::optional_status(op, args.status, batch, device,
                         {{"tokens", args.tokens},
                          {"accepted", args.accepted},
                          {"target_probs", args.target_probs},
                          {"draft_probs", args.draft_probs},
                          {"draft_tokens", args.draft_tokens}});
  if (batch == 0) return entry::empty_plan<VerifyArgs>(device);
  return detail::choose<VerifyArgs>(op, kVerifyImplementations, device, args, policy);
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

const OperatorInfo penalties_operator = {
    "apply_penalties",
    "sampling",
    [](const DeviceInfo& info, const TierPolicy& policy) {
      PenaltiesArgs args;
      args.logits = dummy_view(info, DType::f32, {16, 128256});
      args.history = dummy_view(info, DType::i32, {16, 2048});
      args.repetition = args.presence = args.frequency = dummy_view(info, DType::f32, {16});
      return detail::explain<PenaltiesArgs>(kPenaltiesImplementations, info, args, policy);
    },
    [](const DeviceInfo& info) {
      return self_test<PenaltiesArgs>(info, penalties_reference_run, [](SelfTestCase& c) {
        PenaltiesArgs args;
        args.logits = c.compared("logits", c.random(DType::f32, {3, 1001}, -4.0, 4.0), 1e-6);
        args.history = c.random(DType::i32, {3, 200}, -1.0, 300.0);
        args.prompt_length = c.values(DType::i32, {0, 50, 200});
        args.repetition = c.values(DType::f32, {1.0, 1.5, 0.75});
        args.presence = c.values(DType::f32, {0.5, 0.0, -0.5});
        args.frequency = c.values(DType::f32, {0.25, 1.0, 0.0});
        args.bias_ids = c.random(DType::i32, {3, 5}, -1.0, 20.0);
        args.bias = c.random(DType::f32, {3, 5});
        return args;
      });
    },
};

const OperatorInfo logprobs_operator = {
    "logprobs",
    "sampling",
    [](const DeviceInfo& info, const TierPolicy& policy) {
      LogprobsArgs args;
      args.logits = dummy_view(info, DType::f32, {16, 128256});
      args.top_ids = dummy_view(info, DType::i32, {16, 20});
      args.top_logprobs = dummy_view(info, DType::f32, {16, 20});
      return detail::explain<LogprobsArgs>(kLogprobsImplementations, info, args, policy);
    },
    [](const DeviceInfo& info) {
      return self_test<LogprobsArgs>(info, logprobs_reference_run, [](SelfTestCase& c) {
        LogprobsArgs args;
        args.logits = c.random(DType::bf16, {3, 9001}, -4.0, 4.0);
        args.tokens = c.random(DType::i32, {3, 2}, 0.0, 9000.0);
        args.logprobs = c.output("logprobs", DType::f32, {3, 2}, 1e-5);
        args.top_ids = c.output("top_ids", DType::i32, {3, 5}, 0.0);
        args.top_logprobs = c.output("top_logprobs", DType::f32, {3, 5}, 1e-5);
        return args;
      });
    },
};

const OperatorInfo verify_operator = {
    "speculative_verify",
    "sampling",
    [](const DeviceInfo& info, const TierPolicy& policy) {
      VerifyArgs args;
      args.target_probs = dummy_view(info, DType::f32, {16, 5, 128256});
      args.draft_probs = dummy_view(info, DType::f32, {16, 4, 128256});
      args.draft_tokens = dummy_view(info, DType::i32, {16, 4});
      args.tokens = dummy_view(info, DType::i32, {16, 5});
      args.accepted = dummy_view(info, DType::i32, {16});
      return detail::explain<VerifyArgs>(kVerifyImplementations, info, args, policy);
    },
    [](const DeviceInfo& info) {
      return self_test<VerifyArgs>(info, verify_reference_run, [](SelfTestCase& c) {
        VerifyArgs args;
        args.target_probs = c.random(DType::f32, {4, 4, 501}, 0.0, 1.0);
        args.draft_probs = c.random(DType::f32, {4, 3, 501}, 0.0, 1.0);
        args.draft_tokens = c.random(DType::i32, {4, 3}, 0.0, 500.0);
        args.tokens = c.output("tokens", DType::i32, {4, 4}, 0.0);
        args.accepted = c.output("accepted", DType::i32, {4}, 0.0);
        return args;
      });
    },
};

}  // namespace ops

}  // namespace monotile
