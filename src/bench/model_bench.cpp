#include "bench/model_bench.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>

#include "bench/run_ops.hpp"
#include "bench/shapes.hpp"
#include "engine/model.hpp"
#include "ops/random_data.hpp"

namespace monotile::bench {
namespace {

double now_us() {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double percentile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[std::min(values.size() - 1, static_cast<size_t>(share * static_cast<double>(values.size())))];
}

/// A file that is gone when the model is.
struct TemporaryFile {
  std::string path;
  ~TemporaryFile() {
    if (!path.empty()) std::remove(path.c_str());
  }
};

/// Zeros, which the holes of a synthetic file read as, become random numbers: constant data would flatter a power-limited chip.
void randomise(const engine::Model& model, Stream& stream) {
  std::vector<uint16_t> random(1 << 22);
  ops::RandomData(3).fill(random.data(), DType::bf16, static_cast<int64_t>(random.size()), -0.03, 0.03);
  const auto fill = [&](const TensorView& w) {
    if (!w.defined() || w.rank < 2) return;
    const auto bytes = static_cast<size_t>(storage_bytes(w.dtype, w.size()));
    const size_t first = std::min(bytes, random.size() * 2);
    copy_to_device(stream, w.data, random.data(), first);
    for (size_t done = first; done < bytes; done *= 2)
      copy_on_device(stream, w.as<char>() + done, w.data, std::min(done, bytes - done));
  };
  const engine::Weights& w = model.weights();
  fill(w.embedding);
  fill(w.output);
  for (const engine::LayerWeights& layer : w.layers) {
    for (const TensorView* view : {&layer.q, &layer.k, &layer.v, &layer.o, &layer.gate, &layer.up, &layer.down})
      fill(*view);
  }
  stream.synchronize();
}

std::vector<int32_t> random_prompt(const engine::Model& model, int64_t tokens) {
  ops::RandomData random(5);
  std::vector<int32_t> ids(static_cast<size_t>(tokens));
  for (int32_t& id : ids) id = static_cast<int32_t>(random.integer(3, model.hyperparameters().vocabulary - 1));
  return ids;
}

struct Decoded {
  std::vector<double> itl_us;
};

/// One answer: the prompt, then `generate` tokens, each chosen and waited for, as a user sees them.
Decoded answer(engine::Session& session, const std::vector<int32_t>& prompt, int64_t generate, double* prompt_us,
               double* ttft_us) {
  session.clear();
  session.synchronize();
  const double begin = now_us();
  session.prefill(prompt);
  session.synchronize();
  *prompt_us = now_us() - begin;
  int32_t token = session.choose();
  double last = now_us();
  *ttft_us = last - begin;
  Decoded result;
  for (int64_t i = 0; i < generate; ++i) {
    session.decode(token);
    token = session.choose();
    const double now = now_us();
    result.itl_us.push_back(now - last);
    last = now;
  }
  return result;
}

/// Stated limits of both devices. Throws Error(not_found) unless both are known.
std::pair<Spec, Spec> projection(const std::string& from, const std::string& to) {
  const Spec here = spec_of(from), there = spec_of(to);
  if (here.gbs <= 0 || there.gbs <= 0) {
    throw Error(ErrorCode::not_found,
                "--project: no specified limits are known for \"" + (here.gbs <= 0 ? from : to) + "\"");
  }
  return {here, there};
}

}  // namespace

std::vector<std::pair<WorkItem, DType>> step_work(const engine::Model& model, const engine::EngineOptions& options,
                                                  int64_t context) {
  const engine::Hyperparameters& h = model.hyperparameters();
  const engine::Weights& w = model.weights();
  const DType activations = options.activations;
  const std::string phase = fmt::format("decode 1x{}", context);
  std::vector<std::pair<WorkItem, DType>> work;
  const auto add = [&](const std::string& op, Dims dims, DType dtype) {
    for (auto& [item, type] : work) {
      if (item.op == op && item.dims == dims && type == dtype) {
        item.calls += 1;
        return;
      }
    }
    work.push_back({{op, std::move(dims), h.name, phase, 1}, dtype});
  };
  const auto product = [&](const TensorView& weight) {
    const std::string op = is_quantised(weight.dtype)    ? std::string("gemm_") + dtype_info(weight.dtype).name
                           : weight.dtype != activations ? "gemm_mixed"
                                                         : "gemm";
    add(op, {1, weight.dim(0), weight.dim(1)}, activations);
  };
  const auto norm = [&](const TensorView& weight, int64_t rows) {
    if (weight.defined()) add("rms_norm", {rows, weight.dim(0)}, activations);
  };
  add("embedding", {1, h.vocabulary, h.hidden}, activations);
  for (size_t i = 0; i < w.layers.size(); ++i) {
    const engine::LayerWeights& layer = w.layers[i];
    add(i == 0 ? "rms_norm" : "add_rms_norm", {1, h.hidden}, activations);
    if (layer.qkv.defined()) {
      product(layer.qkv);
    } else {
      for (const TensorView* weight : {&layer.q, &layer.k, &layer.v}) product(*weight);
    }
    norm(layer.q_norm, h.heads);
    norm(layer.k_norm, h.kv_heads);
    add("rope", {1, h.heads, h.kv_heads, h.head_dim_qk}, activations);
    add("kv_append", {1, h.kv_heads, h.head_dim_qk}, activations);
    const int64_t keys = h.windowed[i] ? std::min(context, h.window) : context;
    add("attention_decode", {1, keys, h.heads, h.kv_heads, h.head_dim_qk}, options.kv);
    product(layer.o);
    norm(layer.post_attention_norm, 1);
    add("add_rms_norm", {1, h.hidden}, activations);
    product(layer.gate);
    product(layer.up);
    add("silu_mul", {1, h.feed_forward}, activations);
    product(layer.down);
    norm(layer.post_feed_forward_norm, 1);
  }
  add("add_rms_norm", {1, h.hidden}, activations);
  product(w.output);
  add("argmax", {1, h.vocabulary}, DType::f32);
  return work;
}

ModelResult bench_model(const ModelBenchOptions& options) {
  if (!options.project.empty()) (void)projection(device_info(options.device).name, options.project);
  TemporaryFile file;
  std::string path = options.path;
  const bool holes = !options.device.host_memory();
  if (!options.synthetic.empty()) {
    const auto folder = std::filesystem::temp_directory_path();
    path = file.path = (folder / fmt::format("monotile-{}-{}.gguf", options.synthetic, getpid())).string();
    write_synthetic_gguf(path, options.synthetic, holes);
  }
  engine::ModelOptions model_options;
  model_options.device = options.device;
  const engine::Model model = engine::Model::load(path, model_options);
  if (!options.synthetic.empty() && holes) {
    Stream stream(options.device);
    randomise(model, stream);
  }
  ModelResult result;
  result.name = model.hyperparameters().name;
  result.weights = dtype_info(model.weights().layers.front().down.dtype).name;
  result.parameters = static_cast<double>(model.parameters());
  result.weight_bytes = static_cast<double>(model.weight_bytes());
  result.environment = environment_json(device_info(options.device));
  // What fails after the answers were timed must not take their figures with it.
  const auto attempt = [&result](const char* what, const auto& measure) {
    try {
      measure();
    } catch (const Error& error) {
      result.notes.push_back(std::string(what) + ": failed: " + error.what());
    }
  };

  engine::EngineOptions engine_options;
  engine_options.context = options.prompt + options.generate + 8;
  engine_options.prefill_chunk =
      options.device.host_memory() ? 256 : std::max<int64_t>(256, std::min<int64_t>(options.prompt, 2048));
  const std::vector<int32_t> prompt = random_prompt(model, options.prompt);
  {
    engine::Engine engine(model, engine_options);
    engine::Session session(engine);
    double prompt_us = 0, ttft_us = 0;
    answer(session, prompt, std::min<int64_t>(options.generate, 4), &prompt_us, &ttft_us);  // warm-up
    const int repetitions = options.repetitions > 0 ? options.repetitions
                                                    : std::clamp(static_cast<int>(20e6 / std::max(ttft_us, 1.0)), 2, 5);
    std::vector<double> prompts, ttfts;
    for (int r = 0; r < repetitions; ++r) {
      const Decoded decoded = answer(session, prompt, options.generate, &prompt_us, &ttft_us);
      prompts.push_back(prompt_us);
      ttfts.push_back(ttft_us);
      result.itl_us.insert(result.itl_us.end(), decoded.itl_us.begin(), decoded.itl_us.end());
    }
    result.prompt_us = spread_of(prompts);
    result.ttft_us = spread_of(ttfts);
    result.itl_p50 = percentile(result.itl_us, 0.5);
    result.itl_p90 = percentile(result.itl_us, 0.9);
    result.itl_p99 = percentile(result.itl_us, 0.99);
    if (options.profile) {
      OpsOptions ops;
      ops.device = options.device;
      ops.columns = {"portable", "tuned", "vendor"};
      ops.work = step_work(model, engine.options(), options.prompt);
      attempt("profile of a step", [&] { result.step = run_ops(ops); });
      const engine::Hyperparameters& h = model.hyperparameters();
      const double cache = 2.0 * static_cast<double>(h.layers * h.kv_heads * h.head_dim_qk * options.prompt) *
                           dtype_info(engine.options().kv).block_bytes;
      const double embedding =
          h.tied_output
              ? 0
              : static_cast<double>(storage_bytes(model.weights().embedding.dtype, model.weights().embedding.size()));
      if (result.step.ceilings.peak_gbs > 0)
        result.floor_us = (result.weight_bytes - embedding + cache) * 1e-3 / result.step.ceilings.peak_gbs;
    }
  }
  if (options.portable_too) {
    attempt("tier forced to portable", [&] {
      engine_options.tier = parse_tier("portable");
      engine::Engine engine(model, engine_options);
      engine::Session session(engine);
      double prompt_us = 0, ttft_us = 0;
      answer(session, prompt, std::min<int64_t>(options.generate, 4), &prompt_us, &ttft_us);
      result.itl_portable_p50 = percentile(answer(session, prompt, options.generate, &prompt_us, &ttft_us).itl_us, 0.5);
    });
  }
  return result;
}

namespace {

/// Per operator of a step: what the dispatcher chose, weighted by its calls.
struct Share {
  std::string op;
  double us = 0, bytes = 0, limit_us = 0;
};
std::vector<Share> shares_of(const Report& step) {
  std::vector<Share> list;
  for (const Row& row : step.rows) {
    if (row.status != "ok" || !row.chosen) continue;
    auto found = std::find_if(list.begin(), list.end(), [&](const Share& s) { return s.op == row.op; });
    if (found == list.end()) found = list.insert(list.end(), Share{row.op});
    found->us += row.calls * row.us.median;
    found->bytes += row.calls * row.bytes;
    found->limit_us += row.calls * row.best_us;
  }
  std::sort(list.begin(), list.end(), [](const Share& a, const Share& b) { return a.us > b.us; });
  return list;
}

double tokens_per_second(int64_t tokens, double us) { return us > 0 ? static_cast<double>(tokens) * 1e6 / us : 0.0; }

double price_per_million(const ModelBenchOptions& options, double tokens_per_second) {
  return options.price_per_hour / 3600 / tokens_per_second * 1e6;
}

struct Projected {
  std::string name;
  double memory = 1, compute = 1;  ///< how much more of each the other device has, by specified limits
};
Projected projected(const ModelResult& r, const ModelBenchOptions& options) {
  const auto [here, there] = projection(r.environment.value("device_name", std::string()), options.project);
  return {there.name, there.gbs / here.gbs, there.flops_of(DType::bf16) / here.flops_of(DType::bf16)};
}

}  // namespace

std::string text_table(const ModelResult& r, const ModelBenchOptions& options) {
  const double decode = tokens_per_second(1, r.itl_p50), read = tokens_per_second(options.prompt, r.prompt_us.median);
  std::string text = fmt::format("{}, {}\n\n", r.name, r.environment.value("device_name", std::string("?")));
  if (const std::string line = busy_line(r.environment); options.device.host_memory() && !line.empty())
    text += line + "\n";
  const double spread_prompt =
      r.prompt_us.median > 0 ? (r.prompt_us.p90 - r.prompt_us.p10) / 2 / r.prompt_us.median : 0;
  text += fmt::format("| {:<22} | {:>9} | {:>8} | {:<8} | {:>6} | {:>16} |\n", "model", "size", "params", "backend",
                      "test", "t/s");
  text += fmt::format("| {:-<22} | {:->8}: | {:->7}: | {:-<8} | {:->5}: | {:->15}: |\n", "", "", "", "", "", "");
  const auto line = [&](const std::string& test, double tokens_per_second, double spread) {
    text += fmt::format("| {:<22} | {:>5.2f} GiB | {:>6.2f} B | {:<8} | {:>6} | {:>8.2f} ± {:>5.2f} |\n",
                        (r.name + " " + r.weights).substr(0, 22), r.weight_bytes / 1073741824.0, r.parameters * 1e-9,
                        to_string(options.device), test, tokens_per_second, tokens_per_second * spread);
  };
  line(fmt::format("pp{}", options.prompt), read, spread_prompt);
  line(fmt::format("tg{}", options.generate), decode, r.itl_p50 > 0 ? (r.itl_p90 / r.itl_p50 - 1) / 2 : 0);
  text += fmt::format("\nTTFT {:.2f} ms (p10 {:.2f}, p90 {:.2f}, n {})\n", r.ttft_us.median * 1e-3,
                      r.ttft_us.p10 * 1e-3, r.ttft_us.p90 * 1e-3, r.ttft_us.n);
  text += fmt::format("ITL  p50 {:.3f} ms, p90 {:.3f}, p99 {:.3f} (n {}); one sequence, {:.1f} tokens/s\n",
                      r.itl_p50 * 1e-3, r.itl_p90 * 1e-3, r.itl_p99 * 1e-3, r.itl_us.size(), decode);
  if (r.floor_us > 0)
    text += fmt::format("floor {:.3f} ms: weights and cache read once at {:.0f} GB/s; reached {:.0f} %\n",
                        r.floor_us * 1e-3, r.step.ceilings.peak_gbs, 100 * r.floor_us / r.itl_p50);
  if (r.itl_portable_p50 > 0)
    text += fmt::format("tier forced to portable: ITL p50 {:.3f} ms; price of portability {:.2f}x\n",
                        r.itl_portable_p50 * 1e-3, r.itl_portable_p50 / r.itl_p50);
  const std::vector<Share> shares = shares_of(r.step);
  if (!shares.empty()) {
    double sum = 0;
    for (const Share& s : shares) sum += s.us;
    text += fmt::format("\n{:<20}{:>10}{:>8}{:>12}{:>10}\n", "one decode step", "us", "share", "MB", "of limit");
    for (const Share& s : shares)
      text += fmt::format("{:<20}{:>10.1f}{:>7.1f}%{:>12.2f}{:>9.0f}%\n", s.op, s.us, 100 * s.us / sum, s.bytes * 1e-6,
                          s.us > 0 ? 100 * s.limit_us / s.us : 0);
    text += fmt::format("{:<20}{:>10.1f}   operators one by one, cold; the whole step took {:.1f}\n", "sum", sum,
                        r.itl_p50);
  }
  for (const Row& row : r.step.rows) {
    if (row.status != "ok")
      text += fmt::format("{} {} {}: {}: {}\n", row.op, row.shape, row.dtype, row.status, row.note);
  }
  for (const std::string& note : r.notes) text += note + "\n";
  if (options.price_per_hour > 0 && decode > 0 && read > 0) {
    text += fmt::format(
        "\nat {:g} per hour: {:.3f} per million output tokens, {:.4f} per million prompt tokens (one sequence)\n",
        options.price_per_hour, price_per_million(options, decode), price_per_million(options, read));
  }
  if (!options.project.empty()) {
    const Projected p = projected(r, options);
    text += fmt::format(
        "\nprojected, not measured: {}: decode {:.1f} tokens/s (memory x{:.2f}), prompt {:.0f} tokens/s (arithmetic "
        "x{:.2f})\n",
        p.name, decode * p.memory, p.memory, read * p.compute, p.compute);
  }
  return text;
}

Json to_json(const ModelResult& r, const ModelBenchOptions& options) {
  Json profile = Json::array();
  for (const Share& s : shares_of(r.step))
    profile.push_back({{"op", s.op}, {"us", s.us}, {"bytes", s.bytes}, {"limit_us", s.limit_us}});
  const auto spread = [](const Spread& s) {
    return Json{{"median", s.median}, {"p10", s.p10}, {"p90", s.p90}, {"n", s.n}};
  };
  const double decode = tokens_per_second(1, r.itl_p50), read = tokens_per_second(options.prompt, r.prompt_us.median);
  Json json = {{"schema", 1},
               {"environment", r.environment},
               {"model", r.name},
               {"weights", r.weights},
               {"parameters", r.parameters},
               {"weight_bytes", r.weight_bytes},
               {"prompt_tokens", options.prompt},
               {"generated_tokens", options.generate},
               {"prompt_us", spread(r.prompt_us)},
               {"ttft_us", spread(r.ttft_us)},
               {"itl_us", {{"p50", r.itl_p50}, {"p90", r.itl_p90}, {"p99", r.itl_p99}, {"n", r.itl_us.size()}}},
               {"itl_portable_p50_us", r.itl_portable_p50},
               {"floor_us", r.floor_us},
               {"tokens_per_second", {{"decode", decode}, {"prompt", read}}},
               {"notes", r.notes},
               {"step", profile},
               {"step_rows", to_json(r.step)["rows"]}};
  if (options.price_per_hour > 0 && decode > 0 && read > 0) {
    json["price_per_million_tokens"] = {{"per_hour", options.price_per_hour},
                                        {"output", price_per_million(options, decode)},
                                        {"prompt", price_per_million(options, read)}};
  }
  if (!options.project.empty()) {
    const Projected p = projected(r, options);
    json["projected"] = {{"device", p.name}, {"decode", decode * p.memory}, {"prompt", read * p.compute}};
  }
  return json;
}

}  // namespace monotile::bench
