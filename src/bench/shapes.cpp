#include "bench/shapes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

namespace monotile::bench {
namespace {

/// From the models' published configurations.
constexpr ModelShape kModels[] = {
    // name         layers hidden heads kv  dim    ffn  vocabulary
    {"llama-2-7b", 32, 4096, 32, 32, 128, 11008, 32000},
    {"llama-3-8b", 32, 4096, 32, 8, 128, 14336, 128256},
    {"llama-3-70b", 80, 8192, 64, 8, 128, 28672, 128256},
    {"qwen-3-8b", 36, 4096, 32, 8, 128, 12288, 151936},
    {"mixtral-8x7b", 32, 4096, 32, 8, 128, 14336, 32000, 8, 2},
    {"gemma-3-4b", 34, 2560, 8, 4, 256, 10240, 262144},
    {"gemma-3-270m", 18, 640, 4, 1, 256, 2048, 262144},
    {"tiny", 2, 64, 4, 2, 16, 128, 320},  // no real model: for tests
};

/// Single shapes that users compare libraries by.
const std::vector<WorkItem> kDefault = {
    {"add_rms_norm", {16384, 4096}},
    {"add_rms_norm", {4096, 8192}},
    {"add_rms_norm", {16384, 4090}},
    {"add_rms_norm", {64, 4096}},
    {"add_rms_norm", {1, 4096}},
    {"rms_norm", {16384, 4096}},
    {"rope", {16384, 32, 32, 128}},
    {"rope", {16384, 32, 8, 128}},
    {"rope", {64, 32, 8, 128}},
    {"silu_mul", {16384, 11008}},
    {"silu_mul", {64, 14336}},
    {"softmax", {16384, 4096}},
    {"softmax", {4096, 32000}},
    {"softmax", {64, 128256}},
    {"layer_norm", {16384, 4096}},
    {"bias_gelu", {16384, 11008}},
    {"quantise_fp8", {16384, 4096}},
    {"quantise_fp8_groups", {16384, 4096}},
    {"quantise_int8", {16384, 4096}},
    {"dequantise_fp8_groups", {16384, 4096}},
    {"dequantise_q4_k", {14336, 4096}},
    {"add_rms_norm_quantise", {16384, 4096}},
    {"add_rms_norm_quantise", {64, 4096}},
    {"silu_mul_quantise", {16384, 11008}},
    {"silu_mul_quantise", {64, 14336}},
    {"norm_rope_append", {16384, 32, 8, 128}},
    {"norm_rope_append", {64, 32, 8, 128}},
    {"kv_append", {16384, 8, 128}},
    {"kv_gather_fp8", {16384, 8, 128}},
    {"copy_blocks", {1024, 8, 128}},
    {"embedding", {16384, 128256, 4096}},
    {"gather_rows", {16384, 4096}},
    {"argmax", {64, 128256}},
    {"top_k", {64, 128256, 50}},
    {"logprobs", {64, 128256, 5}},
    {"apply_penalties", {64, 128256}},
    {"sample", {64, 128256}},
    {"sample_chain", {64, 128256}},
    {"speculative_verify", {64, 4, 128256}},
    {"moe_router", {16384, 128, 8}},
    {"moe_align", {16384, 128, 8}},
    {"moe_route", {16384, 128, 8}},
    {"moe_dispatch", {16384, 4096, 2}},
    {"moe_permute", {16384, 4096, 2}},
    {"moe_combine", {16384, 4096, 2}},
    {"gemm", {8192, 8192, 8192}},
    {"gemm", {4096, 4096, 4096}},
    {"gemm", {2048, 6144, 4096}},
    {"gemm", {16384, 11008, 4096}},
    {"gemm_fp8", {8192, 8192, 8192}},
    {"gemm_fp8", {4096, 4096, 4096}},
    {"gemm_fp8", {2048, 6144, 4096}},
    {"gemm_fp8", {16384, 11008, 4096}},
    {"gemm_int8", {8192, 8192, 8192}},
    {"gemm_int8", {4096, 4096, 4096}},
    {"gemm_int8_scaled", {8192, 8192, 8192}},
    {"gemm_int8_scaled", {1, 14336, 4096}},
    {"gemm", {1, 4096, 4096}},
    {"gemm", {1, 14336, 4096}},
    {"gemm", {1, 128256, 4096}},
    {"gemm", {16, 14336, 4096}},
    {"gemm_q8_0", {1, 14336, 4096}},
    {"gemm_q4_0", {1, 14336, 4096}},
    {"gemm_q4_k", {1, 14336, 4096}},
    {"gemm_q6_k", {1, 14336, 4096}},
    {"attention_causal", {8, 2048, 32, 32, 128}},
    {"attention_full", {8, 2048, 32, 32, 128}},
    {"attention_causal", {4, 4096, 32, 8, 128}},
    {"attention_causal", {8, 2048, 32, 32, 64}},
    {"attention_causal_paged", {8, 2048, 32, 32, 128}},
    {"attention_decode", {1, 4096, 32, 8, 128}},
    {"attention_decode", {16, 4096, 32, 8, 128}},
    {"attention_decode", {64, 4096, 32, 8, 128}},
    {"attention_decode", {1, 65536, 32, 8, 128}},
    {"attention_verify", {16, 31, 4096, 32, 8, 128}},
    // How the gap to the best implementation closes with size.
    {"add_rms_norm", {256, 4096}},
    {"add_rms_norm", {1024, 4096}},
    {"add_rms_norm", {4096, 4096}},
    {"silu_mul", {256, 14336}},
    {"silu_mul", {1024, 14336}},
    {"silu_mul", {4096, 14336}},
    {"softmax", {256, 4096}},
    {"softmax", {1024, 4096}},
};

/// For two CPU cores, in under a minute.
const std::vector<WorkItem> kQuick = {
    {"add_rms_norm", {1024, 2048}},
    {"rms_norm", {1024, 2048}},
    {"rope", {512, 16, 4, 128}},
    {"silu_mul", {512, 5632}},
    {"softmax", {256, 4096}},
    {"gemm", {256, 1024, 1024}},
    {"gemm", {1, 4096, 4096}},
    {"gemm_q8_0", {1, 4096, 4096}},
    {"gemm_q4_0", {1, 4096, 4096}},
    {"kv_append", {1024, 4, 128}},
    {"embedding", {1024, 8192, 1024}},
    {"argmax", {16, 128256}},
    {"attention_causal", {1, 256, 8, 2, 128}},
    {"attention_decode", {1, 2048, 8, 2, 128}},
    {"attention_verify", {1, 15, 512, 8, 2, 128}},
    {"sample", {4, 32000}},
    {"moe_route", {1024, 128, 8}},
    {"add_rms_norm_quantise", {1024, 2048}},
    {"silu_mul_quantise", {512, 5632}},
    {"norm_rope_append", {512, 16, 4, 128}},
    {"top_k", {4, 32000, 50}},
};

/// Streaming operators on data far beyond the caches: the share of memcpy that each reaches.
const std::vector<WorkItem> kStreams = {
    {"rms_norm", {8192, 4096}},
    {"add_rms_norm", {8192, 4096}},
    {"layer_norm", {8192, 4096}},
    {"softmax", {8192, 4096}},
    {"softmax", {1024, 32000}},
    {"rope", {8192, 24, 8, 128}},
    {"silu_mul", {4096, 11008}},
    {"bias_gelu", {4096, 11008}},
    {"quantise_fp8", {8192, 4096}},
    {"quantise_fp8_groups", {8192, 4096}},
    {"quantise_int8", {8192, 4096}},
    {"dequantise_fp8_groups", {8192, 4096}},
    {"dequantise_q4_k", {8192, 4096}},
    {"add_rms_norm_quantise", {8192, 4096}},
    {"silu_mul_quantise", {4096, 11008}},
    {"norm_rope_append", {8192, 16, 8, 128}},
    {"embedding", {8192, 32000, 4096}},
    {"gather_rows", {8192, 4096}},
    {"kv_append", {16384, 8, 128}},
    {"kv_gather_fp8", {16384, 8, 128}},
    {"copy_blocks", {1024, 8, 128}},
    {"moe_dispatch", {4096, 4096, 2}},
    {"moe_permute", {4096, 4096, 2}},
    {"moe_combine", {4096, 4096, 2}},
    {"argmax", {512, 128256}},
};

}  // namespace

const std::vector<ModelShape>& model_shapes() {
  static const std::vector<ModelShape> list(std::begin(kModels), std::end(kModels));
  return list;
}

const ModelShape& model_shape(const std::string& name) {
  std::string names;
  for (const ModelShape& model : model_shapes()) {
    if (name == model.name) return model;
    names += (names.empty() ? "" : ", ") + std::string(model.name);
  }
  throw Error(ErrorCode::not_found, "model \"" + name + "\"; there are " + names);
}

std::vector<WorkItem> model_step(const ModelShape& m, bool decode, int64_t batch, int64_t tokens) {
  const int64_t t = decode ? batch : batch * tokens;
  const std::string phase = fmt::format("{} {}x{}", decode ? "decode" : "prefill", batch, tokens);
  const double layers = static_cast<double>(m.layers);
  std::vector<WorkItem> step;
  const auto add = [&](const char* op, Dims dims, double calls) {
    step.push_back({op, std::move(dims), m.name, phase, calls});
  };
  add("embedding", {t, m.vocabulary, m.hidden}, 1);
  add("add_rms_norm", {t, m.hidden}, 2 * layers);
  add("gemm", {t, (m.heads + 2 * m.kv_heads) * m.head_dim, m.hidden}, layers);
  add("rope", {t, m.heads, m.kv_heads, m.head_dim}, layers);
  add("kv_append", {t, m.kv_heads, m.head_dim}, layers);
  if (decode) {
    add("attention_decode", {batch, tokens, m.heads, m.kv_heads, m.head_dim}, layers);
  } else {
    add("attention_causal", {batch, tokens, m.heads, m.kv_heads, m.head_dim}, layers);
  }
  add("gemm", {t, m.hidden, m.heads * m.head_dim}, layers);
  // Mixtures of experts: as many products as experts have tokens, each with its share of them.
  const int64_t used = m.experts == 0 ? 1 : std::min(m.experts, t * m.experts_per_token);
  const int64_t rows = m.experts == 0 ? t : std::max<int64_t>(1, t * m.experts_per_token / used);
  const double products = layers * static_cast<double>(used);
  if (m.experts != 0) add("moe_router", {t, m.experts, m.experts_per_token}, layers);
  add("gemm", {rows, 2 * m.feed_forward, m.hidden}, products);
  add("silu_mul", {rows, m.feed_forward}, products);
  add("gemm", {rows, m.hidden, m.feed_forward}, products);
  add("gemm", {batch, m.vocabulary, m.hidden}, 1);
  add("argmax", {batch, m.vocabulary}, 1);
  return step;
}

std::vector<WorkItem> work_for(const std::string& shapes, const std::vector<std::string>& ops, bool cpu) {
  const auto listed = [&](const WorkItem& item) { return std::find(ops.begin(), ops.end(), item.op) != ops.end(); };
  std::vector<WorkItem> work;
  const auto take = [&](const std::vector<WorkItem>& items) {
    std::copy_if(items.begin(), items.end(), std::back_inserter(work), listed);
  };
  if (shapes == "quick") {
    take(kQuick);
  } else if (shapes == "streams") {
    take(kStreams);
  } else if (shapes == "default") {
    if (cpu) {
      take(kQuick);
      take(model_step(model_shape("gemma-3-270m"), false, 1, 512));
      take(model_step(model_shape("gemma-3-270m"), true, 1, 2048));
    } else {
      take(kDefault);
      take(model_step(model_shape("llama-3-8b"), false, 1, 2048));
      take(model_step(model_shape("llama-3-8b"), true, 1, 2048));
      take(model_step(model_shape("llama-3-8b"), true, 16, 1024));
    }
  } else if (shapes.rfind("model:", 0) == 0) {
    const ModelShape& model = model_shape(shapes.substr(6));
    take(model_step(model, false, cpu ? 1 : 8, cpu ? 512 : 2048));
    take(model_step(model, true, 1, 2048));
    if (!cpu) take(model_step(model, true, 16, 2048));
  } else {
    Dims dims;
    std::istringstream in(shapes);
    for (std::string number; std::getline(in, number, ',');) {
      char* end = nullptr;
      dims.push_back(std::strtoll(number.c_str(), &end, 10));
      if (number.empty() || *end != '\0' || dims.back() < 1)
        throw Error(
            ErrorCode::invalid_argument,
            "--shapes: \"" + shapes + "\"; allowed: default, quick, streams, model:NAME, or positive numbers M,N,...");
    }
    for (const std::string& op : ops) work.push_back({op, dims, "", "", 0});
  }
  // The same call of two models or phases is measured for each: rows are told apart by model and phase.
  return work;
}

}  // namespace monotile::bench
