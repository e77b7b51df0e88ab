// Benchmarked operators on rows: quantisation, fused norms, heads, copies.

#include "bench/operator_families.hpp"
#include "ops/activation/activation.hpp"
#include "ops/embedding/embedding.hpp"
#include "ops/kv_cache/kv_cache.hpp"
#include "ops/norm/norm.hpp"
#include "ops/quant/quant.hpp"
#include "ops/rope/rope.hpp"

namespace monotile::bench {
namespace {

using ops::Activation;

double per_element(const Dims& s, double flops) { return flops * static_cast<double>(s[0] * s[1]); }

/// A scale for each row, or for each `group` columns of it.
TensorView scales_of(Data& d, const Dims& s, int64_t group) {
  return d.output(DType::f32, {s[0], group == 0 ? 1 : (s[1] + group - 1) / group});
}

template <DType Codes, int64_t kGroup>
Definition<ops::QuantiseArgs> quantise_definition(const char* name) {
  return {name,
          {"rows", "cols"},
          float_dtypes(),
          [](Data& d, const Dims& s, DType t) {
            ops::QuantiseArgs a;
            a.x = d.input(t, {s[0], s[1]}, -4.0, 4.0);
            a.codes = d.output(Codes, {s[0], s[1]});
            a.scales = scales_of(d, s, kGroup);
            a.block_cols = kGroup;
            return a;
          },
          [](const Dims& s) { return per_element(s, 3); },
          ops::quantise_reference_run,
          [](const ops::QuantiseArgs& a) { return a.x.dim(0); },
          [](ops::QuantiseArgs& a, int64_t row) {
            cut_rows({&a.x, &a.codes, &a.scales}, row);
          },
          [](const ops::QuantiseArgs& a) {
            return std::vector{a.codes, a.scales};
          }};
}

/// fp8 codes with a scale for each 128 columns, or GGUF blocks, which carry theirs.
template <DType Codes>
Definition<ops::DequantiseArgs> dequantise_definition(const char* name) {
  return {name,
          {"rows", is_quantised(Codes) ? "k" : "cols"},
          {DType::bf16, DType::f16, DType::f32},
          [](Data& d, const Dims& s, DType t) {
            constexpr int64_t kGroup = 128;
            ops::DequantiseArgs a;
            a.codes = d.input(Codes, {s[0], s[1]});
            if (!is_quantised(Codes)) {
              a.scales = d.input(DType::f32, {s[0], (s[1] + kGroup - 1) / kGroup}, 0.5, 2.0);
              a.block_cols = kGroup;
            }
            a.y = d.output(t, {s[0], s[1]});
            return a;
          },
          [](const Dims& s) { return per_element(s, 1); },
          ops::dequantise_reference_run,
          [](const ops::DequantiseArgs& a) { return a.y.dim(0); },
          [](ops::DequantiseArgs& a, int64_t row) {
            cut_rows({&a.y, &a.codes, &a.scales}, row);
          },
          [](const ops::DequantiseArgs& a) { return std::vector{a.y}; }};
}

Definition<ops::GatedQuantiseArgs> gated_quantise_definition() {
  Definition<ops::GatedQuantiseArgs> definition = {
      "silu_mul_quantise",
      {"rows", "cols"},
      float_dtypes(),
      [](Data& d, const Dims& s, DType t) {
        const TensorView gate = d.input(t, {s[0], s[1]}, -4.0, 4.0), up = d.input(t, {s[0], s[1]});
        const TensorView codes = d.output(DType::f8_e4m3, {s[0], s[1]});
        return ops::GatedQuantiseArgs{codes, scales_of(d, s, 0), gate, up};
      },
      [](const Dims& s) { return per_element(s, 8); },
      ops::gated_quantise_reference_run,
      [](const ops::GatedQuantiseArgs& a) { return a.gate.dim(0); },
      [](ops::GatedQuantiseArgs& a, int64_t row) {
        cut_rows({&a.codes, &a.scales, &a.gate, &a.up}, row);
      },
      [](const ops::GatedQuantiseArgs& a) {
        return std::vector{a.codes, a.scales};
      }};
  definition.code_steps = 1;
  definition.fp32_of_rounded = true;
  return definition;
}

Definition<ops::RmsNormQuantiseArgs> norm_quantise_definition() {
  Definition<ops::RmsNormQuantiseArgs> definition = {"add_rms_norm_quantise",
                                                     {"rows", "cols"},
                                                     float_dtypes(),
                                                     [](Data& d, const Dims& s, DType t) {
                                                       ops::RmsNormQuantiseArgs a;
                                                       a.x = d.input(t, {s[0], s[1]});
                                                       a.residual = d.in_place(t, {s[0], s[1]});
                                                       a.gamma = d.input(t, {s[1]}, 0.5, 1.5);
                                                       a.codes = d.output(DType::f8_e4m3, {s[0], s[1]});
                                                       a.scales = scales_of(d, s, 0);
                                                       return a;
                                                     },
                                                     [](const Dims& s) { return per_element(s, 7); },
                                                     ops::rms_norm_quantise_reference_run,
                                                     [](const ops::RmsNormQuantiseArgs& a) { return a.x.dim(0); },
                                                     [](ops::RmsNormQuantiseArgs& a, int64_t row) {
                                                       cut_rows({&a.codes, &a.scales, &a.residual, &a.x}, row);
                                                     },
                                                     [](const ops::RmsNormQuantiseArgs& a) {
                                                       return std::vector{a.codes, a.scales, a.residual};
                                                     }};
  definition.code_steps = 1;
  definition.fp32_of_rounded = true;
  return definition;
}

Definition<ops::LayerNormArgs> layer_norm_definition() {
  return {"layer_norm",
          {"rows", "cols"},
          float_dtypes(),
          [](Data& d, const Dims& s, DType t) {
            ops::LayerNormArgs a;
            a.x = d.input(t, {s[0], s[1]});
            a.gamma = d.input(t, {s[1]}, 0.5, 1.5);
            a.beta = d.input(t, {s[1]});
            a.y = d.output(t, {s[0], s[1]});
            return a;
          },
          [](const Dims& s) { return per_element(s, 7); },
          ops::layer_norm_reference_run,
          [](const ops::LayerNormArgs& a) { return a.y.dim(0); },
          [](ops::LayerNormArgs& a, int64_t row) {
            cut_rows({&a.x, &a.y}, row);
          },
          [](const ops::LayerNormArgs& a) { return std::vector{a.y}; }};
}

Definition<ops::BiasActivationArgs> bias_activation_definition() {
  return {"bias_gelu",
          {"rows", "cols"},
          float_dtypes(),
          [](Data& d, const Dims& s, DType t) {
            ops::BiasActivationArgs a;
            a.x = d.input(t, {s[0], s[1]}, -4.0, 4.0);
            a.bias = d.input(t, {s[1]});
            a.residual = d.input(t, {s[0], s[1]});
            a.y = d.output(t, {s[0], s[1]});
            return a;
          },
          [](const Dims& s) { return per_element(s, 10); },
          ops::bias_activation_reference_run,
          [](const ops::BiasActivationArgs& a) { return a.y.dim(0); },
          [](ops::BiasActivationArgs& a, int64_t row) {
            cut_rows({&a.x, &a.y, &a.residual}, row);
          },
          [](const ops::BiasActivationArgs& a) { return std::vector{a.y}; }};
}

/// Positions that start over every 2,048 tokens, and a table for them. Returns the bytes of both that a call must read.
template <class Args>
double add_positions(Data& d, Args& a, int64_t tokens, int64_t head_dim) {
  constexpr int64_t kPositions = 2048;
  const int64_t pairs = head_dim / 2;
  std::vector<int64_t> positions(static_cast<size_t>(tokens));
  for (size_t i = 0; i < positions.size(); ++i) positions[i] = static_cast<int64_t>(i) % kPositions;
  a.positions = d.table(positions);
  std::vector<float> cos(static_cast<size_t>(kPositions * pairs)), sin(cos.size());
  ops::build_rope_table(cos.data(), sin.data(), kPositions, static_cast<int>(head_dim), 10000.0);
  a.cos = d.values(cos, {kPositions, pairs});
  a.sin = d.values(sin, {kPositions, pairs});
  return 8.0 * static_cast<double>(std::min(tokens, kPositions) * pairs) + 4.0 * static_cast<double>(tokens);
}

/// q and k of `tokens` tokens at consecutive positions, in place as the engine does it.
Definition<ops::RopeArgs> rope_definition() {
  return {"rope",
          {"tokens", "heads", "kv_heads", "head_dim"},
          float_dtypes(),
          [](Data& d, const Dims& s, DType t) {
            ops::RopeArgs a;
            a.q = a.q_out = d.in_place(t, {s[0], s[1], s[3]});
            a.k = a.k_out = d.in_place(t, {s[0], s[2], s[3]});
            const double moved = d.read_bytes() + d.written_bytes();
            const double table = add_positions(d, a, s[0], s[3]);
            d.traffic(moved / 2 + table, moved / 2);
            return a;
          },
          [](const Dims& s) { return 3.0 * static_cast<double>(s[0] * (s[1] + s[2]) * s[3]); },
          ops::rope_reference_run,
          [](const ops::RopeArgs& a) { return a.q.dim(0); },
          [](ops::RopeArgs& a, int64_t token) {
            cut_rows({&a.q, &a.q_out, &a.k, &a.k_out, &a.positions}, token);
          },
          [](const ops::RopeArgs& a) {
            return std::vector{a.q_out, a.k_out};
          },
          1.0};
}

constexpr int64_t kPage = 16;

/// The row of slot `slots[0]` in both caches.
std::vector<TensorView> rows_of_slot(const TensorView& key_cache, const TensorView& value_cache,
                                     const TensorView& slots) {
  const int64_t slot = slots.as<int32_t>()[0], page = slot / kPage, at = slot % kPage;
  return {key_cache.slice(0, page, page + 1).slice(2, at, at + 1),
          value_cache.slice(0, page, page + 1).slice(2, at, at + 1)};
}

Definition<ops::NormRopeAppendArgs> norm_rope_append_definition() {
  return {"norm_rope_append",
          {"tokens", "heads", "kv_heads", "head_dim"},
          float_dtypes(),
          [](Data& d, const Dims& s, DType t) {
            const int64_t pages = (s[0] + kPage - 1) / kPage + 1;
            ops::NormRopeAppendArgs a;
            a.q = a.q_out = d.in_place(t, {s[0], s[1], s[3]});
            a.k = d.input(t, {s[0], s[2], s[3]});
            a.v = d.input(t, {s[0], s[2], s[3]});
            const double moved = d.read_bytes();
            a.q_gamma = d.input(t, {s[3]}, 0.5, 1.5);
            a.k_gamma = d.input(t, {s[3]}, 0.5, 1.5);
            const double table = add_positions(d, a, s[0], s[3]);
            a.key_cache = d.in_place(t, {pages, s[2], kPage, s[3]});
            a.value_cache = d.in_place(t, {pages, s[2], kPage, s[3]});
            a.slots = d.table(scattered(s[0]));
            d.traffic(moved + table + 4.0 * static_cast<double>(s[0]), moved);
            return a;
          },
          [](const Dims& s) { return 7.0 * static_cast<double>(s[0] * (s[1] + s[2]) * s[3]); },
          ops::norm_rope_append_reference_run,
          [](const ops::NormRopeAppendArgs& a) { return a.q.dim(0); },
          [](ops::NormRopeAppendArgs& a, int64_t token) {
            cut_rows({&a.q, &a.q_out, &a.k, &a.v, &a.positions, &a.slots}, token);
          },
          [](const ops::NormRopeAppendArgs& a) {
            std::vector<TensorView> views = rows_of_slot(a.key_cache, a.value_cache, a.slots);
            views.push_back(a.q_out);
            return views;
          },
          // A 16-bit rounding between norm and rotation can go either way, and each rotated number takes two of them.
          2.0};
}

Definition<ops::KvAppendArgs> kv_append_definition() {
  return {"kv_append",
          {"tokens", "kv_heads", "head_dim"},
          float_dtypes(),
          [](Data& d, const Dims& s, DType t) {
            const int64_t pages = (s[0] + kPage - 1) / kPage + 1;
            ops::KvAppendArgs a;
            a.k = d.input(t, {s[0], s[1], s[2]});
            a.v = d.input(t, {s[0], s[1], s[2]});
            const double moved = d.read_bytes();
            a.key_cache = d.in_place(t, {pages, s[1], kPage, s[2]});
            a.value_cache = d.in_place(t, {pages, s[1], kPage, s[2]});
            std::vector<int64_t> slots(static_cast<size_t>(s[0]));
            for (size_t i = 0; i < slots.size(); ++i) slots[i] = static_cast<int64_t>(slots.size() - 1 - i);
            a.slots = d.table(slots);
            d.traffic(moved + 4.0 * static_cast<double>(s[0]), moved);
            return a;
          },
          [](const Dims&) { return 0.0; },
          ops::kv_append_reference_run,
          [](const ops::KvAppendArgs& a) { return a.k.dim(0); },
          [](ops::KvAppendArgs& a, int64_t token) {
            cut_rows({&a.k, &a.v, &a.slots}, token);
          },
          [](const ops::KvAppendArgs& a) { return rows_of_slot(a.key_cache, a.value_cache, a.slots); }};
}

Definition<ops::KvGatherArgs> kv_gather_definition() {
  return {"kv_gather_fp8",
          {"tokens", "kv_heads", "head_dim"},
          {DType::bf16, DType::f16, DType::f32},
          [](Data& d, const Dims& s, DType t) {
            const int64_t pages = (s[0] + kPage - 1) / kPage + 1;
            ops::KvGatherArgs a;
            a.k_out = d.output(t, {s[0], s[1], s[2]});
            a.v_out = d.output(t, {s[0], s[1], s[2]});
            const double written = d.written_bytes();
            a.key_cache = d.input(DType::f8_e4m3, {pages, s[1], kPage, s[2]});
            a.value_cache = d.input(DType::f8_e4m3, {pages, s[1], kPage, s[2]});
            a.key_scale = d.input(DType::f32, {s[1]}, 0.5, 2.0);
            a.value_scale = d.input(DType::f32, {s[1]}, 0.5, 2.0);
            a.slots = d.table(scattered(s[0]));
            d.traffic(2.0 * static_cast<double>(s[0] * s[1] * s[2]) + 4.0 * static_cast<double>(s[0]), written);
            return a;
          },
          [](const Dims&) { return 0.0; },
          ops::kv_gather_reference_run,
          [](const ops::KvGatherArgs& a) { return a.k_out.dim(0); },
          [](ops::KvGatherArgs& a, int64_t token) {
            cut_rows({&a.k_out, &a.v_out, &a.slots}, token);
          },
          [](const ops::KvGatherArgs& a) {
            return std::vector{a.k_out, a.v_out};
          }};
}

/// `blocks` pages of 16 tokens to as many others.
Definition<ops::CopyBlocksArgs> copy_blocks_definition() {
  return {"copy_blocks",
          {"blocks", "kv_heads", "head_dim"},
          float_dtypes(),
          [](Data& d, const Dims& s, DType t) {
            ops::CopyBlocksArgs a;
            a.key_cache = d.in_place(t, {2 * s[0], s[1], kPage, s[2]});
            a.value_cache = d.in_place(t, {2 * s[0], s[1], kPage, s[2]});
            const double copied = d.read_bytes() / 2;
            const std::vector<int64_t> from = scattered(s[0]);
            std::vector<int64_t> pairs;
            for (size_t i = 0; i < from.size(); ++i) {
              pairs.push_back(from[i]);
              pairs.push_back(s[0] + static_cast<int64_t>(i));
            }
            a.pairs = d.table(pairs).reshape({s[0], 2});
            d.traffic(copied + 8.0 * static_cast<double>(s[0]), copied);
            return a;
          },
          [](const Dims&) { return 0.0; },
          ops::copy_blocks_reference_run,
          [](const ops::CopyBlocksArgs& a) { return a.pairs.dim(0); },
          [](ops::CopyBlocksArgs& a, int64_t pair) { cut_rows({&a.pairs}, pair); },
          [](const ops::CopyBlocksArgs& a) {
            const int64_t to = a.pairs.as<int32_t>()[1];
            return std::vector{a.key_cache.slice(0, to, to + 1), a.value_cache.slice(0, to, to + 1)};
          }};
}

Definition<ops::EmbeddingArgs> embedding_definition() {
  return {"embedding",
          {"tokens", "vocabulary", "cols"},
          float_dtypes(),
          [](Data& d, const Dims& s, DType t) {
            ops::EmbeddingArgs a;
            a.table = d.input(t, {s[1], s[2]});
            a.y = d.output(t, {s[0], s[2]});
            std::vector<int64_t> ids(static_cast<size_t>(s[0]));
            ops::RandomData random(11);
            for (int64_t& id : ids) id = random.integer(0, s[1] - 1);
            a.ids = d.table(ids);
            const double rows = static_cast<double>(storage_bytes(t, s[0] * s[2]));
            d.traffic(rows + 4.0 * static_cast<double>(s[0]), rows);
            return a;
          },
          [](const Dims&) { return 0.0; },
          ops::embedding_reference_run,
          [](const ops::EmbeddingArgs& a) { return a.y.dim(0); },
          [](ops::EmbeddingArgs& a, int64_t row) {
            cut_rows({&a.y, &a.ids}, row);
          },
          [](const ops::EmbeddingArgs& a) { return std::vector{a.y}; }};
}

Definition<ops::GatherRowsArgs> gather_rows_definition() {
  return {"gather_rows",
          {"tokens", "cols"},
          float_dtypes(),
          [](Data& d, const Dims& s, DType t) {
            ops::GatherRowsArgs a;
            a.x = d.input(t, {s[0], s[1]});
            a.y = d.output(t, {s[0], s[1]});
            a.ids = d.table(scattered(s[0]));
            return a;
          },
          [](const Dims&) { return 0.0; },
          ops::gather_rows_reference_run,
          [](const ops::GatherRowsArgs& a) { return a.y.dim(0); },
          [](ops::GatherRowsArgs& a, int64_t row) {
            cut_rows({&a.y, &a.ids}, row);
          },
          [](const ops::GatherRowsArgs& a) { return std::vector{a.y}; }};
}

}  // namespace

void add_row_operators(OperatorList& list) {
  add(list, rope_definition());
  add(list, quantise_definition<DType::f8_e4m3, 0>("quantise_fp8"));
  add(list, quantise_definition<DType::f8_e4m3, 128>("quantise_fp8_groups"));
  add(list, quantise_definition<DType::i8, 0>("quantise_int8"));
  add(list, dequantise_definition<DType::f8_e4m3>("dequantise_fp8_groups"));
  add(list, dequantise_definition<DType::q4_k>("dequantise_q4_k"));
  add(list, gated_quantise_definition());
  add(list, norm_quantise_definition());
  add(list, layer_norm_definition());
  add(list, bias_activation_definition());
  add(list, norm_rope_append_definition());
  add(list, kv_append_definition());
  add(list, kv_gather_definition());
  add(list, copy_blocks_definition());
  add(list, embedding_definition());
  add(list, gather_rows_definition());
}

}  // namespace monotile::bench
