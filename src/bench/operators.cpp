// The operators that are benchmarked: what one call touches, what it computes, and how its result is checked.

#include <bit>

#include "bench/operator_families.hpp"
#include "monotile/ops/attention.hpp"
#include "ops/activation/activation.hpp"
#include "ops/attention/attention.hpp"
#include "ops/gemm/gemm.hpp"
#include "ops/norm/norm.hpp"
#include "ops/softmax/softmax.hpp"

namespace monotile::bench {
namespace {

using ops::AttentionArgs;
using ops::GemmArgs;
using ops::RmsNormArgs;

template <class Args>
int64_t rows_of_y(const Args& a) {
  return a.y.dim(0);
}

// Flops of memory-bound operators count additions and multiplications of the formula; they only place a point on the roofline.

template <bool kResidual>
Definition<RmsNormArgs> norm_definition(const char* name) {
  return {name,
          {"rows", "cols"},
          float_dtypes(),
          [](Data& d, const Dims& s, DType t) {
            RmsNormArgs a;
            a.x = d.input(t, {s[0], s[1]});
            if (kResidual) a.residual = d.in_place(t, {s[0], s[1]});
            a.gamma = d.input(t, {s[1]}, 0.5, 1.5);
            a.y = d.output(t, {s[0], s[1]});
            return a;
          },
          [](const Dims& s) { return (kResidual ? 5.0 : 4.0) * static_cast<double>(s[0] * s[1]); },
          ops::rms_norm_reference_run,
          rows_of_y<RmsNormArgs>,
          [](RmsNormArgs& a, int64_t row) {
            cut_rows({&a.x, &a.residual, &a.y}, row);
          },
          [](const RmsNormArgs& a) {
            return kResidual ? std::vector{a.y, a.residual} : std::vector{a.y};
          }};
}

Definition<ops::GatedActivationArgs> silu_definition() {
  return {"silu_mul",
          {"rows", "cols"},
          float_dtypes(),
          [](Data& d, const Dims& s, DType t) {
            const TensorView gate = d.input(t, {s[0], s[1]}, -4.0, 4.0), up = d.input(t, {s[0], s[1]});
            return ops::GatedActivationArgs{d.output(t, {s[0], s[1]}), gate, up, ops::Activation::silu};
          },
          [](const Dims& s) { return 5.0 * static_cast<double>(s[0] * s[1]); },
          ops::gated_activation_reference_run,
          rows_of_y<ops::GatedActivationArgs>,
          [](ops::GatedActivationArgs& a, int64_t row) {
            cut_rows({&a.y, &a.gate, &a.up}, row);
          },
          [](const ops::GatedActivationArgs& a) { return std::vector{a.y}; }};
}

Definition<ops::SoftmaxArgs> softmax_definition() {
  return {"softmax",
          {"rows", "cols"},
          float_dtypes(),
          [](Data& d, const Dims& s, DType t) {
            const TensorView x = d.input(t, {s[0], s[1]}, -4.0, 4.0);
            return ops::SoftmaxArgs{d.output(t, {s[0], s[1]}), x, 1.0f, false};
          },
          [](const Dims& s) { return 4.0 * static_cast<double>(s[0] * s[1]); },
          ops::softmax_reference_run,
          rows_of_y<ops::SoftmaxArgs>,
          [](ops::SoftmaxArgs& a, int64_t row) {
            cut_rows({&a.y, &a.x}, row);
          },
          [](const ops::SoftmaxArgs& a) { return std::vector{a.y}; },
          1e-4};
}

/// Weights of dtype B (none: that of the activations). `Whole`: sums of int8 as they are, without factors, which is what other libraries have.
template <DType B, bool Whole = false>
Definition<GemmArgs> gemm_definition(const char* name, std::vector<DType> dtypes) {
  constexpr int64_t kColumns = 16;  // of c, checked together
  constexpr bool codes = is_code(B);
  return {name,
          {"m", "n", "k"},
          std::move(dtypes),
          [](Data& d, const Dims& s, DType t) {
            GemmArgs a;
            const double low = t == DType::i8 ? -128 : -1, high = t == DType::i8 ? 127 : 1;
            a.a = d.input(t, {s[0], s[2]}, low, high);
            a.b = d.input(B == DType::none ? t : B, {s[1], s[2]}, low, high);
            a.c = d.output(Whole ? DType::i32 : is_code(t) ? DType::bf16 : t, {s[0], s[1]});
            if (is_code(t) && !Whole) {
              a.a_scale = d.input(DType::f32, {s[0]}, 0.5, 1.5);
              a.b_scale = d.input(DType::f32, {s[1]}, 0.5, 1.5);
            }
            return a;
          },
          [](const Dims& s) {
            return 2.0 * static_cast<double>(s[0]) * static_cast<double>(s[1]) * static_cast<double>(s[2]);
          },
          ops::gemm_reference_run,
          [](const GemmArgs& a) { return a.c.dim(0) * ((a.c.dim(1) + kColumns - 1) / kColumns); },
          [](GemmArgs& a, int64_t piece) {
            const int64_t groups = (a.c.dim(1) + kColumns - 1) / kColumns, first = piece % groups * kColumns;
            const int64_t last = std::min(first + kColumns, a.c.dim(1));
            cut_rows({&a.a, &a.c}, piece / groups);
            if (a.a_scale.defined()) a.a_scale = a.a_scale.slice(0, piece / groups, piece / groups + 1);
            if (a.b_scale.defined()) a.b_scale = a.b_scale.slice(0, first, last);
            a.b = a.b.slice(0, first, last);
            a.c = a.c.slice(1, first, last);
          },
          [](const GemmArgs& a) { return std::vector{a.c}; },
          1.0,
          // k 2^-24 sum |a||b|, of numbers whose mean size is a half; Hopper's sums of 8-bit floats of one sign 2^-9 more.
          [](const Dims& s) {
            const double k = static_cast<double>(s[2]);
            if (Whole) return 0.0;
            if (B == DType::i8) return 3 * 0x1p-24 * k * 4096 * 2.25;  // exact sums, factors in fp32
            return (k * 0x1p-24 + (codes ? 0x1p-9 : 0.0)) * k / 4 * (codes ? 2.25 : 1.0);
          }};
}

enum class Keys { dense, paged };

/// `batch` sequences of `keys` keys, of which the last `queries` are asked for; one after the other, or in pages of 16.
AttentionArgs attention_args(Data& d, DType t, Keys layout, int64_t batch, int64_t queries, int64_t keys, int64_t heads,
                             int64_t kv_heads, int64_t dim) {
  constexpr int64_t kPage = 16;
  const int64_t pages = (keys + kPage - 1) / kPage, tokens = batch * queries;
  const auto cache = [&] {
    return layout == Keys::dense ? d.input(t, {batch * keys, kv_heads, dim}) : d.input(t, {batch * pages, kv_heads, kPage, dim});
  };
  AttentionArgs a;
  a.q = d.input(t, {tokens, heads, dim});
  a.key_cache = cache();
  a.value_cache = cache();
  a.out = d.output(t, {tokens, heads, dim});
  std::vector<int64_t> starts(static_cast<size_t>(batch + 1)), lengths(static_cast<size_t>(batch), keys);
  for (int64_t s = 0; s <= batch; ++s) starts[static_cast<size_t>(s)] = s * queries;
  if (layout == Keys::dense) {
    std::vector<int64_t> first(static_cast<size_t>(batch));
    for (int64_t s = 0; s < batch; ++s) first[static_cast<size_t>(s)] = s * keys;
    a.kv_start = d.table(first);
  } else {
    // Pages of a sequence lie scattered, as in a cache that has been in use.
    a.block_table = d.table(scattered(batch * pages)).reshape({batch, pages});
  }
  a.q_start = d.table(starts);
  a.kv_length = d.table(lengths);
  a.max_query = queries;
  return a;
}

/// One query row of one head, against the keys that it sees.
void cut_attention(AttentionArgs& a, int64_t piece) {
  static thread_local int32_t starts[2], length, first;
  const int64_t heads = a.q.dim(1), token = piece / heads, head = piece % heads, group = heads / a.key_cache.dim(1);
  const int64_t sequence = token / a.max_query, query = token % a.max_query;
  const int64_t keys = a.kv_length.as<int32_t>()[sequence];
  starts[0] = 0, starts[1] = 1;
  length = static_cast<int32_t>(a.causal ? keys - (a.max_query - 1 - query) : keys);
  for (TensorView* view : {&a.q, &a.out}) *view = view->slice(0, token, token + 1).slice(1, head, head + 1);
  for (TensorView* view : {&a.key_cache, &a.value_cache}) *view = view->slice(1, head / group, head / group + 1);
  if (a.block_table.defined()) {
    a.block_table = a.block_table.slice(0, sequence, sequence + 1);
  } else {
    first = a.kv_start.as<int32_t>()[sequence];
    a.kv_start = TensorView(&first, DType::i32, {1});
  }
  a.q_start = TensorView(starts, DType::i32, {2});
  a.kv_length = TensorView(&length, DType::i32, {1});
  a.max_query = 1;
}

/// One head of a sequence, with all its drafts, since they see each other.
void cut_verify(AttentionArgs& a, int64_t piece) {
  static thread_local int32_t starts[2];
  const int64_t heads = a.q.dim(1), sequence = piece / heads, head = piece % heads, group = heads / a.key_cache.dim(1), drafts = a.max_query;
  starts[0] = 0, starts[1] = static_cast<int32_t>(drafts);
  for (TensorView* view : {&a.q, &a.out}) *view = view->slice(0, sequence * drafts, (sequence + 1) * drafts).slice(1, head, head + 1);
  for (TensorView* view : {&a.key_cache, &a.value_cache}) *view = view->slice(1, head / group, head / group + 1);
  a.tree_mask = a.tree_mask.slice(0, sequence * drafts, (sequence + 1) * drafts);
  a.block_table = a.block_table.slice(0, sequence, sequence + 1);
  a.q_start = TensorView(starts, DType::i32, {2});
  a.kv_length = a.kv_length.slice(0, sequence, sequence + 1);
}

double causal_pairs(int64_t queries, int64_t keys) {
  const double q = static_cast<double>(queries), k = static_cast<double>(keys);
  return q * (k - q) + 0.5 * q * (q + 1);
}

template <bool kCausal, Keys kLayout>
Definition<AttentionArgs> prefill_definition(const char* name) {
  return {name,
          {"batch", "tokens", "heads", "kv_heads", "head_dim"},
          {DType::bf16, DType::f16, DType::f32},
          [](Data& d, const Dims& s, DType t) {
            AttentionArgs a = attention_args(d, t, kLayout, s[0], s[1], s[1], s[2], s[3], s[4]);
            a.causal = kCausal;
            return a;
          },
          [](const Dims& s) {
            const double pairs =
                kCausal ? causal_pairs(s[1], s[1]) : static_cast<double>(s[1]) * static_cast<double>(s[1]);
            return 4.0 * static_cast<double>(s[0] * s[2] * s[4]) * pairs;
          },
          ops::attention_reference_run,
          [](const AttentionArgs& a) { return a.q.dim(0) * a.q.dim(1); },
          cut_attention,
          [](const AttentionArgs& a) { return std::vector{a.out}; }};
}

/// Drafts of each sequence: a binary tree, draft i behind draft (i - 1) / 2.
Definition<AttentionArgs> verify_definition() {
  return {"attention_verify",
          {"batch", "drafts", "keys", "heads", "kv_heads", "head_dim"},
          {DType::bf16, DType::f16, DType::f32},
          [](Data& d, const Dims& s, DType t) {
            AttentionArgs a = attention_args(d, t, Keys::paged, s[0], s[1], s[2], s[3], s[4], s[5]);
            const int64_t words = (s[1] + 31) / 32;
            std::vector<int32_t> parents(static_cast<size_t>(s[1])), rows(static_cast<size_t>(s[1] * words));
            for (size_t i = 0; i < parents.size(); ++i) parents[i] = i == 0 ? -1 : static_cast<int32_t>((i - 1) / 2);
            ops::tree_mask_of_parents(parents, words, rows.data());
            std::vector<int64_t> all;
            for (int64_t sequence = 0; sequence < s[0]; ++sequence) all.insert(all.end(), rows.begin(), rows.end());
            a.tree_mask = d.table(all).reshape({s[0] * s[1], words});
            return a;
          },
          [](const Dims& s) {
            double pairs = 0;  // a draft sees what is before the tree, its ancestors and itself
            for (int64_t i = 0; i < s[1]; ++i) pairs += static_cast<double>(s[2] - s[1] + std::bit_width(static_cast<uint64_t>(i + 1)));
            return 4.0 * static_cast<double>(s[0] * s[3] * s[5]) * pairs;
          },
          ops::attention_reference_run,
          [](const AttentionArgs& a) { return a.kv_length.dim(0) * a.q.dim(1); },
          cut_verify,
          [](const AttentionArgs& a) { return std::vector{a.out}; }};
}

Definition<AttentionArgs> decode_definition() {
  return {"attention_decode",
          {"batch", "keys", "heads", "kv_heads", "head_dim"},
          {DType::bf16, DType::f16, DType::f32},
          [](Data& d, const Dims& s, DType t) { return attention_args(d, t, Keys::paged, s[0], 1, s[1], s[2], s[3], s[4]); },
          [](const Dims& s) { return 4.0 * static_cast<double>(s[0] * s[1] * s[2] * s[4]); },
          ops::attention_reference_run,
          [](const AttentionArgs& a) { return a.q.dim(0) * a.q.dim(1); },
          cut_attention,
          [](const AttentionArgs& a) { return std::vector{a.out}; }};
}

}  // namespace

const std::vector<std::unique_ptr<Operator>>& bench_operators() {
  static const OperatorList operators = [] {
    OperatorList list;
    add(list, norm_definition<false>("rms_norm"));
    add(list, norm_definition<true>("add_rms_norm"));
    add(list, silu_definition());
    add(list, softmax_definition());
    add(list, gemm_definition<DType::none>("gemm", {DType::bf16, DType::f16, DType::f32}));
    add(list, gemm_definition<DType::f8_e4m3>("gemm_fp8", {DType::f8_e4m3}));  // with a scale for each row and column
    add(list, gemm_definition<DType::i8, true>("gemm_int8", {DType::i8}));     // int32 sums as they are
    add(list, gemm_definition<DType::i8>("gemm_int8_scaled", {DType::i8}));    // to bf16, with a scale for each row and column
    const std::vector<DType> activations = {DType::bf16, DType::f16, DType::f32};
    add(list, gemm_definition<DType::bf16>("gemm_mixed", {DType::f32}));  // bf16 weights under fp32 activations
    add(list, gemm_definition<DType::q4_0>("gemm_q4_0", activations));
    add(list, gemm_definition<DType::q5_0>("gemm_q5_0", activations));
    add(list, gemm_definition<DType::q8_0>("gemm_q8_0", activations));
    add(list, gemm_definition<DType::q4_k>("gemm_q4_k", activations));
    add(list, gemm_definition<DType::q6_k>("gemm_q6_k", activations));
    add(list, prefill_definition<true, Keys::dense>("attention_causal"));
    add(list, prefill_definition<false, Keys::dense>("attention_full"));
    add(list, prefill_definition<true, Keys::paged>("attention_causal_paged"));
    add(list, decode_definition());
    add(list, verify_definition());
    add_row_operators(list);
    add_expert_operators(list);
    add_sampling_operators(list);
    return list;
  }();
  return operators;
}

std::vector<int64_t> scattered(int64_t count) {
  constexpr int64_t kStep = 7919;  // prime to the count, or there is no such walk
  std::vector<int64_t> places(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i)
    places[static_cast<size_t>(i)] = count % kStep == 0 ? count - 1 - i : i * kStep % count;
  return places;
}

std::string shape_text(const Dims& dims) { return fmt::format("{}", fmt::join(dims, "x")); }

}  // namespace monotile::bench
