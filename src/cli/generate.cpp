// monotile generate: a prompt in, streamed text out.

#include "engine/generate.hpp"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/commands.hpp"
#include "cli/table.hpp"
#include "engine/chat_template.hpp"
#include "engine/tokenizer.hpp"
#include "runtime/dtype_named.hpp"

namespace monotile::cli {
namespace {

using engine::EngineOptions;
using engine::FinishReason;
using engine::GenerateResult;

struct Options {
  std::string model;
  std::string prompt;
  std::string token_ids;
  bool chat = false;
  std::string system;
  engine::GenerateOptions generate;
  int64_t context = 0;
  std::string device = "cpu";
  std::string tier;
  int threads = 0;
  std::string residual = "auto";
  std::string kv = "auto";
  std::string product_cast = "auto";
  int64_t prefill_chunk = EngineOptions{}.prefill_chunk;
  bool show_ops = false;
  bool json = false;
  std::string logits_out;
};

// --- Ctrl-C
// -----------------------------------------------------------------------------------------------------------

volatile std::sig_atomic_t signal_seen = 0;

/// Notes the signal; a second one ends the process at once.
void on_signal(int number) {
  signal_seen = number;
  std::signal(number, SIG_DFL);
}

void catch_signals() {
  struct sigaction action = {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;  // a write that the signal meets is finished
  for (const int number : {SIGINT, SIGTERM}) sigaction(number, &action, nullptr);
}

// --- flags
// ------------------------------------------------------------------------------------------------------------

/// The parsed value of a flag; text that cannot be parsed is a usage error.
template <class Parse>
auto flag_value(const char* flag, const std::string& text, Parse parse) {
  try {
    return parse(text);
  } catch (const Error& error) {
    throw CLI::ValidationError(flag, error.what());
  }
}

/// NaN is in no range. The help shows the range only where it is a short one.
CLI::Validator within(double lowest, double highest) {
  return CLI::Validator(
      [lowest, highest](std::string& text) -> std::string {
        double value = 0;
        if (CLI::detail::lexical_cast(text, value) && value >= lowest && value <= highest) return {};
        return fmt::format("'{}' is not in the range {} to {}", text, lowest, highest);
      },
      highest <= 1024 ? fmt::format("{:g} to {:g}", lowest, highest) : std::string());
}

/// To stderr. That nobody can read it is no failure of the run.
void note(const std::string& text) { (void)std::fwrite(text.data(), 1, text.size(), stderr); }

constexpr DType kPlainTypes[] = {DType::f32, DType::f16, DType::bf16};

EngineOptions engine_options(const Options& options, int64_t context) {
  EngineOptions result;
  result.context = context;
  result.prefill_chunk = options.prefill_chunk;
  result.activations = dtype_named(options.residual, kPlainTypes);
  result.kv = dtype_named(options.kv, kPlainTypes);
  if (options.product_cast == "none") result.cast = ops::ProductCast::none;
  if (options.product_cast == "int8") result.cast = ops::ProductCast::int8_block;
  if (options.product_cast == "bf16") result.cast = ops::ProductCast::bf16;
  if (!options.tier.empty()) {
    result.tier = flag_value("--tier", options.tier, [](const std::string& text) { return parse_tier(text); });
  }
  result.count_uses = true;
  return result;
}

// --- parts of a run
// -----------------------------------------------------------------------------------------------------

engine::Model load_model(const Options& options, Device device) {
  engine::ModelOptions model_options{.device = device, .overrides = {}, .progress = {}};
  const bool terminal = isatty(STDERR_FILENO) != 0;
  int shown = -1;
  if (terminal && !options.json) {
    model_options.progress = [&shown, device](uint64_t done, uint64_t total) {
      const int percent = static_cast<int>(done * 100 / std::max<uint64_t>(total, 1));
      if (percent != shown) note(fmt::format("\rcopying weights to {}: {} %", to_string(device), percent));
      shown = percent;
    };
  }
  engine::Model model = engine::Model::load(options.model, model_options);
  if (shown >= 0) note("\r\x1b[K");
  return model;
}

/// "2,818,5279"; a hole is an error, not a token.
std::vector<int32_t> parse_token_ids(const std::string& text) {
  std::vector<int32_t> ids;
  for (const char* at = text.c_str(); ids.empty() || *at == ','; ) {
    if (!ids.empty()) ++at;
    int32_t id = 0;
    const auto [end, error] = std::from_chars(at, text.c_str() + text.size(), id);
    if (error != std::errc{} || (*end != ',' && *end != '\0')) {
      throw CLI::ValidationError("--token-ids", fmt::format("'{}' is not a list of whole numbers such as 2,818,5279", text));
    }
    ids.push_back(id);
    at = end;
  }
  return ids;
}

/// Everything that standard input gives.
std::string read_stdin() {
  std::string text;
  char buffer[1 << 16];
  for (size_t got = 0; (got = std::fread(buffer, 1, sizeof buffer, stdin)) > 0;) text.append(buffer, got);
  if (std::ferror(stdin) != 0) throw Error(ErrorCode::not_found, "--prompt -: standard input cannot be read");
  return text;
}

std::vector<int32_t> prompt_ids(const Options& options, const engine::Model& model) {
  if (!options.token_ids.empty()) return parse_token_ids(options.token_ids);
  const engine::Tokenizer& tokenizer = model.tokenizer();
  if (!options.chat) return tokenizer.encode(options.prompt, true, true);
  std::vector<engine::ChatMessage> messages;
  if (!options.system.empty()) messages.push_back({"system", options.system});
  messages.push_back({"user", options.prompt});
  return tokenizer.encode(engine::ChatTemplate::load(model.file(), tokenizer).render(messages), true, true);
}

void write_logits(const std::string& path, const std::vector<float>& logits) {
  std::FILE* const file = std::fopen(path.c_str(), "wb");
  const bool written =
      file != nullptr && std::fwrite(logits.data(), sizeof(float), logits.size(), file) == logits.size();
  if (file != nullptr && std::fclose(file) == 0 && written) return;
  throw Error(ErrorCode::not_found, "--logits-out: " + path + " could not be written: " + std::strerror(errno));
}

constexpr const char* kCastNames[] = {"none", "int8", "bf16"};  // by ops::ProductCast

double per_second(int64_t count, double seconds) { return seconds > 0 ? static_cast<double>(count) / seconds : 0.0; }

std::string ops_table(const std::vector<Context::Use>& uses) {
  std::string text = fmt::format("{:<18} {:<28} {:<10} {:>9}\n", "operator", "implementation", "tier", "calls");
  for (const Context::Use& use : uses) {
    text += fmt::format("{:<18} {:<28} {:<10} {:>9}\n", use.op, use.implementation, to_string(use.tier), use.calls);
  }
  return text;
}

struct Report {
  const Options& options;
  const engine::Model& model;
  engine::Engine& engine;
  const std::vector<int32_t>& prompt;
  const GenerateResult& result;
  Device device;

  bool on_cpu() const { return device.kind == DeviceKind::cpu; }

  std::string line() const {
    const auto prompt_tokens = static_cast<int64_t>(prompt.size());
    if (result.reason == FinishReason::interrupted && result.ids.empty()) return "interrupted before the first token\n";
    return fmt::format(
        "prefill: {} tokens, {:.1f} tokens/s; decode: {} tokens, {:.1f} tokens/s; first token after {:.0f} ms; {}{}\n",
        prompt_tokens, per_second(prompt_tokens, result.prefill_seconds), result.ids.size(),
        per_second(result.decode_steps, result.decode_seconds), result.first_token_seconds * 1e3, to_string(device),
        on_cpu() ? fmt::format(", {} threads", cpu_threads()) : "");
  }

  nlohmann::ordered_json json() const {
    using Json = nlohmann::ordered_json;
    const auto prompt_tokens = static_cast<int64_t>(prompt.size());
    const engine::Hyperparameters& h = model.hyperparameters();
    const EngineOptions& used = engine.options();
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    Json root = {
        {"text", result.text},
        {"tokens", result.ids},
        {"generated_tokens", result.ids.size()},
        {"prompt_tokens", prompt_tokens},
        {"prompt_ids", prompt},
        {"finish_reason", engine::to_string(result.reason)},
        {"prefill_tokens_per_second", per_second(prompt_tokens, result.prefill_seconds)},
        {"decode_tokens_per_second", per_second(result.decode_steps, result.decode_seconds)},
        {"time_to_first_token_ms", result.first_token_seconds * 1e3},
        {"device", to_string(device)},
        {"device_name", device_info(device).name},
        {"path", device_info(device).path},
        {"threads", on_cpu() ? Json(cpu_threads()) : Json(nullptr)},
        {"model",
         {{"file", options.model},
          {"architecture", h.architecture},
          {"name", h.name},
          {"parameters", model.parameters()},
          {"weight_bytes", model.weight_bytes()}}},
        {"context", used.context},
        {"residual", dtype_info(used.activations).name},
        {"kv", dtype_info(used.kv).name},
        {"product_cast", !used.cast ? "auto" : kCastNames[static_cast<size_t>(*used.cast)]},
        {"cache_bytes", engine.cache_bytes()},
        {"scratch_bytes", engine.scratch_bytes()},
        {"peak_resident_bytes", int64_t{usage.ru_maxrss} * 1024},
    };
    root["ops"] = Json::array();
    for (const Context::Use& use : engine.context().uses()) {
      root["ops"].push_back({{"operator", use.op},
                             {"implementation", use.implementation},
                             {"tier", to_string(use.tier)},
                             {"calls", use.calls}});
    }
    return root;
  }
};

int run_generate(const Options& options) {
  const Device wanted =
      flag_value("--device", options.device, [](const std::string& text) { return parse_device(text); });
  const Device device = device_info(wanted).device;
  if (options.threads > 0) set_cpu_threads(options.threads);
  (void)engine_options(options, 1);  // wrong flags before the model is read

  const engine::Model model = load_model(options, device);
  const std::vector<int32_t> prompt = prompt_ids(options, model);
  const int64_t context =
      engine::context_for(model, static_cast<int64_t>(prompt.size()), options.generate.max_tokens, options.context);
  engine::Engine engine(model, engine_options(options, context));
  engine::Session session(engine);

  catch_signals();
  engine::GenerateCallbacks callbacks;
  callbacks.stop = [] { return signal_seen != 0; };
  if (!options.json) callbacks.on_text = [](std::string_view text) { print(text); };
  if (!options.logits_out.empty())
    callbacks.after_prefill = [&] { write_logits(options.logits_out, session.logits()); };
  const GenerateResult result = engine::generate(session, model.tokenizer(), prompt, options.generate, callbacks);

  const Report report{options, model, engine, prompt, result, device};
  if (options.json) {
    print(report.json().dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  } else {
    print("\n");
    note(report.line());
    if (options.show_ops) print("\n" + ops_table(engine.context().uses()));
  }
  constexpr int kSignalExit = 128;
  return result.reason == FinishReason::interrupted ? kSignalExit + signal_seen : 0;
}

void add_prompt_flags(CLI::App& command, Options& options) {
  command.add_option("--model", options.model, "GGUF file")->required()->type_name("FILE");
  CLI::Option* prompt =
      command.add_option("--prompt", options.prompt, "What the model continues or answers; - reads it from\nstandard input")
          ->type_name("TEXT");
  CLI::Option* ids =
      command.add_option("--token-ids", options.token_ids, "The prompt as token ids, 2,818,5279; nothing is added")
          ->type_name("IDS");
  CLI::Option* chat = command.add_flag("--chat", options.chat, "Wrap the prompt in the model's chat template");
  command.add_option("--system", options.system, "System message of the chat")->needs(chat)->type_name("TEXT");
  ids->excludes(prompt)->excludes(chat);
}

void add_sampling_flags(CLI::App& command, Options& options) {
  engine::SamplingOptions& sampling = options.generate.sampling;
  command.add_option("--max-tokens", options.generate.max_tokens, "Most tokens to generate (default 256)")
      ->check(within(0, 1 << 30))
      ->type_name("N");
  command.add_option("--temperature", sampling.temperature, "0: always the best token (default)")
      ->check(within(0, 1e6))
      ->type_name("T");
  command.add_option("--top-k", sampling.top_k, "Sample from the K best tokens; 0: off")
      ->check(within(0, 2147483647))
      ->type_name("K");
  command.add_option("--top-p", sampling.top_p, "Sample from the best tokens with this share; 1: off")
      ->check(within(0, 1))
      ->type_name("P");
  command.add_option("--min-p", sampling.min_p, "Leave out tokens under P times the best; 0: off")
      ->check(within(0, 1))
      ->type_name("P");
  command.add_option("--seed", sampling.seed, "Of the random numbers (default 0)")
      ->check(CLI::Validator(
          [](std::string& text) -> std::string {
            uint64_t value = 0;
            const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
            if (error == std::errc{} && end == text.data() + text.size()) return {};
            return fmt::format("'{}' is not a whole number from 0 to 18446744073709551615", text);
          },
          std::string()))
      ->type_name("N");
  command.add_flag("--ignore-eos", options.generate.ignore_end, "Go on after end-of-generation tokens");
}

void add_engine_flags(CLI::App& command, Options& options) {
  command.add_option("--device", options.device, "cpu (default), cuda:0, emulated:32, ...")->type_name("DEVICE");
  command
      .add_option("--tier", options.tier,
                  "Force a tier: reference, portable, tuned, vendor, or\nwith lower ones as stand-ins: portable+, ...")
      ->type_name("TIER");
  command.add_option("--threads", options.threads, "CPU threads (default: all)")
      ->check(within(1, 1024))
      ->type_name("N");
  command.add_option("--context", options.context, "Most tokens of prompt and answer (default: the\nmodel's limit)")
      ->check(within(1, 1 << 30))
      ->type_name("N");
  command
      .add_option("--prefill-chunk", options.prefill_chunk,
                  fmt::format("Tokens per prefill step (default {})", options.prefill_chunk))
      ->check(within(1, 1 << 20))
      ->type_name("N");
  command
      .add_option("--residual", options.residual, "Activations: f32 or bf16 (default: f32 on the CPU,\nbf16 on GPUs)")
      ->check(CLI::IsMember({"auto", "f32", "bf16"}))
      ->type_name("TYPE");
  command.add_option("--kv", options.kv, "Key/value cache: f32, f16 or bf16; with bf16\nactivations bf16 only (default: bf16 there, else f16)")
      ->check(CLI::IsMember({"auto", "f32", "f16", "bf16"}))
      ->type_name("TYPE");
  command
      .add_option("--product-cast", options.product_cast,
                  "Operands of products with quantised weights: int8 (activations in\nblocks of 32), bf16 (both) or none; auto is the fastest for the\nrows of each on the CPU, none elsewhere")
      ->check(CLI::IsMember({"auto", "none", "int8", "bf16"}))
      ->type_name("CAST");
}

void add_output_flags(CLI::App& command, Options& options) {
  command.add_flag("--show-ops", options.show_ops, "Print which implementation ran, per operator");
  command.add_flag("--json", options.json, "Print one JSON object instead of streaming");
  command.add_option("--logits-out", options.logits_out, "Write the logits after the prompt (raw float32)")
      ->type_name("FILE");
}

}  // namespace

void add_generate_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("generate", "Answer or continue a prompt with a GGUF model");
  add_prompt_flags(*command, *options);
  add_sampling_flags(*command, *options);
  add_engine_flags(*command, *options);
  add_output_flags(*command, *options);
  command->footer(
      "The text goes to stdout, the speed to stderr. Ctrl-C ends with what there is so\nfar and exit code 130. "
      "MONOTILE_TIER sets the default of --tier.\n"
      "Exit codes: 0 ok, 1 failure, 2 wrong usage.");
  command->callback([options, command, &exit_code] {
    if (command->count("--prompt") + command->count("--token-ids") == 0)
      throw CLI::RequiredError("--prompt (or --token-ids)");
    if (options->prompt == "-") options->prompt = read_stdin();
    if (command->count("--token-ids") != 0) (void)parse_token_ids(options->token_ids);
    exit_code = run_generate(*options);
  });
}

}  // namespace monotile::cli
