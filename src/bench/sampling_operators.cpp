// Benchmarked operators from logits to tokens.

#include "bench/operator_families.hpp"
#include "ops/sampling/sampling.hpp"

namespace monotile::bench {
namespace {

const std::vector<DType> kLogits = {DType::f32, DType::f16, DType::bf16};

Definition<ops::ArgmaxArgs> argmax_definition() {
  return {"argmax",
          {"rows", "cols"},
          {DType::f32, DType::f16, DType::bf16},
          [](Data& d, const Dims& s, DType t) {
            ops::ArgmaxArgs a;
            a.logits = d.input(t, {s[0], s[1]}, -8.0, 8.0);
            a.ids = d.output(DType::i32, {s[0]});
            return a;
          },
          [](const Dims& s) { return static_cast<double>(s[0] * s[1]); },
          ops::argmax_reference_run,
          [](const ops::ArgmaxArgs& a) { return a.ids.dim(0); },
          [](ops::ArgmaxArgs& a, int64_t row) {
            cut_rows({&a.logits, &a.ids}, row);
          },
          [](const ops::ArgmaxArgs& a) { return std::vector{a.ids}; }};
}

/// Top-k 50, top-p 0.95, temperature 0.8: the filters of a chat service.
Definition<ops::SampleArgs> sample_definition() {
  return {"sample",
          {"rows", "cols"},
          {DType::f32, DType::f16, DType::bf16},
          [](Data& d, const Dims& s, DType t) {
            ops::SampleArgs a;
            const auto rows = static_cast<size_t>(s[0]);
            a.logits = d.input(t, {s[0], s[1]}, -8.0, 8.0);
            a.ids = d.output(DType::i32, {s[0]});
            a.temperature = d.values(std::vector<float>(rows, 0.8f), {s[0]});
            a.top_p = d.values(std::vector<float>(rows, 0.95f), {s[0]});
            a.top_k = d.table(std::vector<int64_t>(rows, 50));
            return a;
          },
          [](const Dims& s) { return 2.0 * static_cast<double>(s[0] * s[1]); },
          ops::sample_reference_run,
          [](const ops::SampleArgs& a) { return a.ids.dim(0); },
          [](ops::SampleArgs& a, int64_t row) {
            cut_rows({&a.logits, &a.ids, &a.temperature, &a.top_p, &a.top_k}, row);
          },
          [](const ops::SampleArgs& a) { return std::vector{a.ids}; }};
}

/// `count` random tokens of a vocabulary of `cols`, for each row.
TensorView random_tokens(Data& d, int64_t rows, int64_t count, int64_t cols, uint64_t seed) {
  std::vector<int64_t> tokens(static_cast<size_t>(rows * count));
  ops::RandomData random(seed);
  for (int64_t& token : tokens) token = random.integer(0, cols - 1);
  return d.table(tokens).reshape({rows, count});
}

/// Penalties for 1,024 tokens of history, half of them the prompt's.
ops::PenaltiesArgs penalties_of(Data& d, const Dims& s) {
  constexpr int64_t kHistory = 1024;
  const auto rows = static_cast<size_t>(s[0]);
  ops::PenaltiesArgs a;
  a.history = random_tokens(d, s[0], kHistory, s[1], 5);
  a.prompt_length = d.table(std::vector<int64_t>(rows, kHistory / 2));
  a.repetition = d.values(std::vector<float>(rows, 1.1f), {s[0]});
  a.presence = d.values(std::vector<float>(rows, 0.3f), {s[0]});
  a.frequency = d.values(std::vector<float>(rows, 0.2f), {s[0]});
  return a;
}

void cut_penalties(ops::PenaltiesArgs& a, int64_t row) {
  cut_rows({&a.logits, &a.history, &a.prompt_length, &a.repetition, &a.presence, &a.frequency}, row);
}

Definition<ops::PenaltiesArgs> penalties_definition() {
  return {"apply_penalties",
          {"rows", "cols"},
          kLogits,
          [](Data& d, const Dims& s, DType t) {
            ops::PenaltiesArgs a = penalties_of(d, s);
            const double history = d.read_bytes(), touched = history * dtype_info(t).block_bytes / 4;
            a.logits = d.in_place(t, {s[0], s[1]}, -8.0, 8.0);
            d.traffic(history + touched, touched);
            return a;
          },
          [](const Dims&) { return 0.0; },
          ops::penalties_reference_run,
          [](const ops::PenaltiesArgs& a) { return a.logits.dim(0); },
          cut_penalties,
          [](const ops::PenaltiesArgs& a) { return std::vector{a.logits}; }};
}

/// The whole chain of a chat service: penalties, then what `sample` has.
Definition<ops::SampleArgs> sample_chain_definition() {
  return {"sample_chain",
          {"rows", "cols"},
          kLogits,
          [](Data& d, const Dims& s, DType t) {
            ops::SampleArgs a;
            const auto rows = static_cast<size_t>(s[0]);
            a.ids = d.output(DType::i32, {s[0]});
            a.penalties = penalties_of(d, s);
            a.temperature = d.values(std::vector<float>(rows, 0.8f), {s[0]});
            a.top_p = d.values(std::vector<float>(rows, 0.95f), {s[0]});
            a.min_p = d.values(std::vector<float>(rows, 0.02f), {s[0]});
            a.top_k = d.table(std::vector<int64_t>(rows, 50));
            const double read = d.read_bytes();
            a.logits = d.in_place(t, {s[0], s[1]}, -8.0, 8.0);
            d.traffic(read + static_cast<double>(storage_bytes(t, s[0] * s[1])), d.written_bytes());
            return a;
          },
          [](const Dims& s) { return 2.0 * static_cast<double>(s[0] * s[1]); },
          ops::sample_reference_run,
          [](const ops::SampleArgs& a) { return a.ids.dim(0); },
          [](ops::SampleArgs& a, int64_t row) {
            cut_rows({&a.logits, &a.ids, &a.temperature, &a.top_p, &a.min_p, &a.top_k}, row);
            cut_penalties(a.penalties, row);
          },
          [](const ops::SampleArgs& a) { return std::vector{a.ids}; }};
}

Definition<ops::TopKArgs> top_k_definition() {
  return {"top_k",
          {"rows", "cols", "top"},
          kLogits,
          [](Data& d, const Dims& s, DType t) {
            ops::TopKArgs a;
            a.logits = d.input(t, {s[0], s[1]}, -8.0, 8.0);
            a.values = d.output(DType::f32, {s[0], s[2]});
            a.ids = d.output(DType::i32, {s[0], s[2]});
            return a;
          },
          [](const Dims& s) { return static_cast<double>(s[0] * s[1]); },
          ops::top_k_reference_run,
          [](const ops::TopKArgs& a) { return a.logits.dim(0); },
          [](ops::TopKArgs& a, int64_t row) {
            cut_rows({&a.values, &a.ids, &a.logits}, row);
          },
          [](const ops::TopKArgs& a) {
            return std::vector{a.values, a.ids};
          }};
}

/// Of the drawn token and of the `top` most likely ones.
Definition<ops::LogprobsArgs> logprobs_definition() {
  return {"logprobs",
          {"rows", "cols", "top"},
          kLogits,
          [](Data& d, const Dims& s, DType t) {
            ops::LogprobsArgs a;
            a.logits = d.input(t, {s[0], s[1]}, -8.0, 8.0);
            a.tokens = random_tokens(d, s[0], 1, s[1], 6);
            a.logprobs = d.output(DType::f32, {s[0], 1});
            a.top_logprobs = d.output(DType::f32, {s[0], s[2]});
            a.top_ids = d.output(DType::i32, {s[0], s[2]});
            return a;
          },
          [](const Dims& s) { return 3.0 * static_cast<double>(s[0] * s[1]); },
          ops::logprobs_reference_run,
          [](const ops::LogprobsArgs& a) { return a.logits.dim(0); },
          [](ops::LogprobsArgs& a, int64_t row) {
            cut_rows({&a.logits, &a.tokens, &a.logprobs, &a.top_logprobs, &a.top_ids}, row);
          },
          [](const ops::LogprobsArgs& a) {
            return std::vector{a.logprobs, a.top_logprobs, a.top_ids};
          }};
}

/// Probabilities need not sum to 1, so uniform numbers do.
Definition<ops::VerifyArgs> verify_definition() {
  return {"speculative_verify",
          {"batch", "drafts", "cols"},
          {DType::f32},
          [](Data& d, const Dims& s, DType) {
            ops::VerifyArgs a;
            a.target_probs = d.input(DType::f32, {s[0], s[1] + 1, s[2]}, 0.0, 1.0);
            a.draft_probs = d.input(DType::f32, {s[0], s[1], s[2]}, 0.0, 1.0);
            a.draft_tokens = random_tokens(d, s[0], s[1], s[2], 8);
            a.tokens = d.output(DType::i32, {s[0], s[1] + 1});
            a.accepted = d.output(DType::i32, {s[0]});
            // One row of p - q a sequence and two numbers a draft: what must be read whatever is drawn.
            d.traffic(8.0 * static_cast<double>(s[0] * s[2]) + 12.0 * static_cast<double>(s[0] * s[1]),
                      4.0 * static_cast<double>(s[0] * (s[1] + 2)));
            return a;
          },
          [](const Dims& s) { return 4.0 * static_cast<double>(s[0] * s[2]); },
          ops::verify_reference_run,
          [](const ops::VerifyArgs& a) { return a.accepted.dim(0); },
          [](ops::VerifyArgs& a, int64_t row) {
            cut_rows({&a.target_probs, &a.draft_probs, &a.draft_tokens, &a.tokens, &a.accepted}, row);
          },
          [](const ops::VerifyArgs& a) {
            return std::vector{a.tokens, a.accepted};
          }};
}

}  // namespace

void add_sampling_operators(OperatorList& list) {
  add(list, argmax_definition());
  add(list, top_k_definition());
  add(list, logprobs_definition());
  add(list, penalties_definition());
  add(list, sample_definition());
  add(list, sample_chain_definition());
  add(list, verify_definition());
}

}  // namespace monotile::bench
