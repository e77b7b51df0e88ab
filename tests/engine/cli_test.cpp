// `monotile generate` and `monotile inspect` as a user runs them: output, exit codes, one clear line for what is
// wrong, Ctrl-C. The binary is the one built beside this test.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "monotile/device.hpp"
#include "tests/engine/gguf_writer.hpp"
#include "tests/engine/golden.hpp"

namespace monotile::engine {
namespace {

using golden::Json;

std::string binary() { return (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "monotile").string(); }

/// A running command with both outputs in pipes.
class Process {
 public:
  explicit Process(std::vector<std::string> arguments) {
    int out[2], errors[2];
    if (pipe2(out, O_CLOEXEC) != 0 || pipe2(errors, O_CLOEXEC) != 0) throw std::runtime_error("pipe2 failed");
    arguments.insert(arguments.begin(), binary());
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    pid_ = fork();
    if (pid_ == 0) {
      dup2(out[1], STDOUT_FILENO);
      dup2(errors[1], STDERR_FILENO);
      unsetenv("MONOTILE_TIER");
      execv(argv[0], argv.data());
      _exit(127);
    }
    close(out[1]);
    close(errors[1]);
    fds_ = {out[0], errors[0]};
  }
  ~Process() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    close_output();
    if (fds_[1] >= 0) close(fds_[1]);
  }
  Process(const Process&) = delete;

  /// Waits until something has come on stdout.
  void wait_for_output() { read_once(true); }
  void close_output() {
    if (fds_[0] >= 0) close(fds_[0]);
    fds_[0] = -1;
  }
  void send(int number) { kill(pid_, number); }

  /// Reads to the end; the exit code, or 1000 + the signal that ended it.
  int finish() {
    while (read_once(false)) {
    }
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  }

  std::string out, errors;

 private:
  /// False at the end of both. `until_out`: goes on until there is output.
  bool read_once(bool until_out) {
    do {
      pollfd polls[2] = {{fds_[0], POLLIN, 0}, {fds_[1], POLLIN, 0}};
      if (fds_[0] < 0 && fds_[1] < 0) return false;
      poll(polls, 2, -1);
      std::array<char, 4096> buffer;
      for (size_t i = 0; i < 2; ++i) {
        if (fds_[i] < 0 || polls[i].revents == 0) continue;
        const ssize_t count = read(fds_[i], buffer.data(), buffer.size());
        if (count <= 0) {
          close(fds_[i]);
          fds_[i] = -1;
        } else {
          (i == 0 ? out : errors).append(buffer.data(), static_cast<size_t>(count));
        }
      }
    } while (until_out && out.empty() && fds_[0] >= 0);
    return true;
  }

  pid_t pid_ = -1;
  std::array<int, 2> fds_ = {-1, -1};
};

class CommandLine : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(binary())) GTEST_SKIP() << binary() << " is not built";
  }

  static std::vector<std::string> generate(std::vector<std::string> more, const std::string& model = kGemma) {
    more.insert(more.begin(), {"generate", "--model", golden::source_path("tests/models/" + model)});
    return more;
  }

  static Json run_json(std::vector<std::string> arguments) {
    arguments.push_back("--json");
    Process process(std::move(arguments));
    EXPECT_EQ(process.finish(), 0) << process.errors;
    return Json::parse(process.out);
  }

  /// Exit code, nothing on stdout, one line on stderr with all parts.
  static void expect_refused(std::vector<std::string> arguments, int code, std::initializer_list<const char*> parts) {
    Process process(arguments);
    std::string shown;
    for (const std::string& argument : arguments) shown += argument.substr(0, 60) + " ";
    EXPECT_EQ(process.finish(), code) << shown << process.errors;
    EXPECT_EQ(process.out, "") << shown;
    EXPECT_EQ(std::count(process.errors.begin(), process.errors.end(), '\n'), 1) << shown << process.errors;
    EXPECT_EQ(process.errors.rfind("monotile: error: ", 0), 0u) << shown << process.errors;
    for (const char* part : parts)
      EXPECT_NE(process.errors.find(part), std::string::npos) << part << " is not in " << process.errors;
  }

  static constexpr const char* kGemma = "small-gemma3-q8_0.gguf";
};

TEST_F(CommandLine, GreedyTokensAndLogitsAreTheGoldenOnes) {
  const Json goldens = golden::read_json("tests/golden/small-llama.json");
  for (const Json& entry : goldens.at("models")) {
    for (const Json& prompt : entry.at("prompts")) {
      const test::TempFile logits;
      const Json result = run_json(generate({"--prompt", prompt.at("prompt"), "--max-tokens", "16", "--ignore-eos",
                                             "--kv", "f32", "--product-cast", "none", "--logits-out", logits.path()},
                                            entry.at("file")));
      EXPECT_EQ(result.at("prompt_ids"), prompt.at("prompt_ids"));
      EXPECT_EQ(result.at("prompt_tokens"), prompt.at("prompt_ids").size());
      std::vector<int32_t> golden_ids;
      bool near_tie = false;
      for (const Json& step : prompt.at("steps")) {
        golden_ids.push_back(step[0]);
        near_tie = near_tie || step[1].get<double>() - step[3].get<double>() < 1e-2;
      }
      if (!near_tie) {
        EXPECT_EQ(result.at("tokens").get<std::vector<int32_t>>(), golden_ids) << entry.at("file");
      }
      const auto wanted = prompt.at("logits").get<std::vector<float>>();
      std::vector<float> ours(wanted.size());
      std::ifstream(logits.path(), std::ios::binary)
          .read(reinterpret_cast<char*>(ours.data()), static_cast<std::streamsize>(ours.size() * sizeof(float)));
      EXPECT_EQ(std::filesystem::file_size(logits.path()), ours.size() * sizeof(float));
      EXPECT_LE(golden::relative_error(ours, wanted), 2e-5);
    }
  }
}

TEST_F(CommandLine, JsonHasTheFields) {
  const Json result =
      run_json(generate({"--prompt", "where is the sea", "--max-tokens", "9", "--ignore-eos", "--threads", "1"}));
  EXPECT_EQ(result.at("tokens").size(), 9u);
  EXPECT_EQ(result.at("finish_reason"), "length");
  EXPECT_EQ(result.at("device"), "cpu");
  EXPECT_EQ(result.at("threads"), 1);
  EXPECT_EQ(result.at("model").at("architecture"), "gemma3");
  EXPECT_EQ(result.at("product_cast"), "auto");
  for (const char* key : {"prefill_tokens_per_second", "decode_tokens_per_second", "time_to_first_token_ms"})
    EXPECT_GT(result.at(key), 0) << key;
  // One step for the prompt, eight for the answer; 7 products per layer and the head.
  int64_t products = 0;
  for (const Json& op : result.at("ops")) products += op.at("operator") == "gemm" ? op.at("calls").get<int64_t>() : 0;
  EXPECT_EQ(products, 9 * (3 * 7 + 1));
}

TEST_F(CommandLine, StreamsTheTextAndPrintsTheTable) {
  const std::vector<std::string> arguments = {"--prompt", "one two three", "--max-tokens", "40", "--ignore-eos"};
  const std::string text = run_json(generate(arguments)).at("text");
  std::vector<std::string> with_table = arguments;
  with_table.push_back("--show-ops");
  Process process(generate(with_table));
  ASSERT_EQ(process.finish(), 0) << process.errors;
  EXPECT_EQ(process.out.substr(0, text.size() + 1), text + "\n");
  for (const char* part : {"operator", "implementation", "tier", "calls", "embedding", "rms_norm", "gemm", "rope",
                           "kv_append", "attention", "gated_activation", "argmax"}) {
    EXPECT_NE(process.out.find(part, text.size()), std::string::npos) << part;
  }
  EXPECT_NE(process.errors.find("tokens/s"), std::string::npos);
}

TEST_F(CommandLine, ChatUsesTheTemplateOfTheFile) {
  const Json goldens = golden::read_json("tests/golden/small-gemma3.json");
  for (const Json& chat : goldens.at("chat_template")) {
    const Json& messages = chat.at("messages");
    if (!chat.at("add_generation_prompt") || messages.size() > 2 || messages.back().at("role") != "user") continue;
    std::vector<std::string> arguments = {"--chat", "--prompt", messages.back().at("content"), "--max-tokens", "1"};
    if (messages.size() == 2) {
      if (messages[0].at("role") != "system") continue;
      arguments.insert(arguments.end(), {"--system", messages[0].at("content")});
    }
    const Json with_chat = run_json(generate(arguments));
    const Json as_text = run_json(generate({"--prompt", chat.at("rendered"), "--max-tokens", "1"}));
    EXPECT_EQ(with_chat.at("prompt_ids"), as_text.at("prompt_ids"));
    const Json plain = run_json(generate({"--prompt", messages.back().at("content"), "--max-tokens", "1"}));
    EXPECT_NE(with_chat.at("prompt_ids"), plain.at("prompt_ids"));
  }
}

TEST_F(CommandLine, TokenIdsSeedsAndTiers) {
  const Json ids = run_json(generate({"--token-ids", "1,262,270", "--max-tokens", "3"}));
  EXPECT_EQ(ids.at("prompt_ids"), (std::vector<int32_t>{1, 262, 270}));
  const auto sampled = [&](const char* seed, const char* tier) {
    return run_json(
               generate({"--prompt", "the sea", "--temperature", "2",  "--top-k",     "200", "--top-p",        "0.99",
                         "--min-p",  "0.001",   "--seed",        seed, "--tier",      tier,  "--product-cast", "none",
                         "--kv",     "f32",     "--max-tokens",  "12", "--ignore-eos"}))
        .at("tokens");
  };
  const Json first = sampled("1", "auto");
  EXPECT_EQ(sampled("1", "auto"), first);
  EXPECT_NE(sampled("2", "auto"), first);
  EXPECT_EQ(sampled("1", "reference"), first);
}

TEST_F(CommandLine, EmptyPromptIsTheBeginOfSequence) {
  EXPECT_EQ(run_json(generate({"--prompt", "", "--max-tokens", "1"})).at("prompt_ids"), (std::vector<int32_t>{1}));
}

TEST_F(CommandLine, WrongFlagsExitWith2) {
  const auto refused = [](std::vector<std::string> more, std::initializer_list<const char*> parts) {
    more.insert(more.begin(), {"--prompt", "x"});
    expect_refused(generate(more), 2, parts);
  };
  expect_refused({"generate", "--prompt", "x"}, 2, {"--model"});
  expect_refused(generate({}), 2, {"--prompt"});
  for (const char* const ids : {"1,x", "", "1,,2", "1,", ",1", "1 2"}) expect_refused(generate({"--token-ids", ids}), 2, {"--token-ids"});
  refused({"--token-ids", "1"}, {"--token-ids"});
  refused({"--bogus"}, {"--bogus"});
  refused({"--max-tokens", "-1"}, {"--max-tokens"});
  refused({"--max-tokens", "5x"}, {"--max-tokens"});
  refused({"--max-tokens", "1e30"}, {"--max-tokens"});
  refused({"--temperature", "nan"}, {"--temperature", "nan"});
  refused({"--temperature", "-1"}, {"--temperature"});
  refused({"--top-p", "1.5"}, {"--top-p", "0 to 1"});
  refused({"--min-p", "-0.1"}, {"--min-p"});
  refused({"--top-k", "-2"}, {"--top-k"});
  refused({"--seed", "-1"}, {"--seed"});
  refused({"--seed", "18446744073709551616"}, {"--seed", "18446744073709551615"});
  refused({"--threads", "0"}, {"--threads"});
  refused({"--context", "0"}, {"--context"});
  refused({"--residual", "f16"}, {"--residual"});
  refused({"--kv", "q8_0"}, {"--kv"});
  refused({"--product-cast", "fp8"}, {"--product-cast"});
  refused({"--device", "toaster"}, {"--device", "toaster", "cpu"});
  refused({"--tier", "magic"}, {"--tier", "magic", "portable"});
  refused({"--system", "be brief"}, {"--system", "--chat"});
}

TEST_F(CommandLine, FailuresExitWith1) {
  expect_refused({"generate", "--model", "/nonexistent.gguf", "--prompt", "x"}, 1, {"/nonexistent.gguf"});
  expect_refused({"generate", "--model", "/tmp", "--prompt", "x"}, 1, {"/tmp"});
  const test::TempFile damaged("GGUF and then nothing of use");
  expect_refused({"generate", "--model", damaged.path(), "--prompt", "x"}, 1, {damaged.path().c_str()});
  expect_refused(generate({"--prompt", "x", "--device", "cuda:77"}), 1, {"cuda:77", "cpu"});
  expect_refused(generate({"--prompt", "x", "--tier", "vendor"}), 1, {"vendor"});
  expect_refused(generate({"--token-ids", "1,331"}), 1, {"331", "0 to 330"});
  expect_refused(generate({"--token-ids", "-1"}), 1, {"-1", "0 to 330"});
  expect_refused(generate({"--prompt", "x", "--context", "513"}), 1, {"513", "512"});
  std::string long_prompt;
  for (int i = 0; i < 600; ++i) long_prompt += "sea ";
  const Json fits = run_json(generate({"--prompt", "the sea", "--max-tokens", "0"}));
  expect_refused(generate({"--prompt", long_prompt}), 1, {"tokens", "512", "511"});
  expect_refused(generate({"--prompt", "the sea", "--context", std::to_string(fits.at("prompt_tokens").get<int>())}), 1,
                 {"at most"});
  expect_refused(generate({"--prompt", "x", "--logits-out", "/nonexistent/logits"}), 1, {"/nonexistent/logits"});
}

/// The reference tier needs seconds for so many tokens, so the signal comes in the middle.
TEST_F(CommandLine, CtrlCEndsCleanly) {
  for (const auto& [number, code] : {std::pair{SIGINT, 130}, std::pair{SIGTERM, 143}}) {
    Process process(generate({"--prompt", "where is", "--max-tokens", "500", "--ignore-eos", "--tier", "reference"},
                             "small-gemma3-q6_k.gguf"));
    process.wait_for_output();
    process.send(number);
    EXPECT_EQ(process.finish(), code) << process.errors;
    EXPECT_EQ(process.out.back(), '\n');
    EXPECT_NE(process.errors.find("tokens/s"), std::string::npos) << process.errors;
  }
}

TEST_F(CommandLine, ClosedPipeEndsQuietly) {
  Process process(generate({"--prompt", "where is", "--max-tokens", "500", "--ignore-eos"}));
  process.close_output();
  const int code = process.finish();
  EXPECT_TRUE(code == 1000 + SIGPIPE || code == 1) << code;
}

TEST_F(CommandLine, HelpNamesEveryFlag) {
  Process process({"generate", "--help"});
  EXPECT_EQ(process.finish(), 0);
  for (const char* flag :
       {"--model",       "--prompt",       "--token-ids", "--chat",    "--system",        "--max-tokens",
        "--temperature", "--top-k",        "--top-p",     "--min-p",   "--seed",          "--ignore-eos",
        "--device",      "--tier",         "--threads",   "--context", "--prefill-chunk", "--residual",
        "--kv",          "--product-cast", "--show-ops",  "--json",    "--logits-out"}) {
    EXPECT_NE(process.out.find(flag), std::string::npos) << flag;
  }
}

TEST_F(CommandLine, InspectShowsTensors) {
  const std::string file = golden::source_path("tests/models/small-llama-q4_k.gguf");
  Process text({"inspect", file});
  EXPECT_EQ(text.finish(), 0);
  for (const char* part : {"llama.block_count", "token_embd.weight", "Q4_K"})
    EXPECT_NE(text.out.find(part), std::string::npos) << part;
  Process json({"inspect", file, "--json"});
  EXPECT_EQ(json.finish(), 0);
  EXPECT_EQ(Json::parse(json.out).at("tensors").size(), 2u * 9 + 3);
  expect_refused({"inspect"}, 2, {"FILE"});
  expect_refused({"inspect", "/nonexistent.gguf"}, 1, {"/nonexistent.gguf"});
}

TEST_F(CommandLine, CudaGivesTheGoldenTokens) {
  const Device device{DeviceKind::cuda, 0};
  if (std::none_of(devices().begin(), devices().end(), [&](const DeviceInfo& info) { return info.device == device; }))
    GTEST_SKIP() << "no cuda:0";
  const Json cpu = run_json(
      generate({"--prompt", "the sea", "--max-tokens", "24", "--ignore-eos", "--product-cast", "none", "--kv", "f32"}));
  const Json cuda = run_json(generate({"--prompt", "the sea", "--max-tokens", "24", "--ignore-eos", "--product-cast",
                                       "none", "--kv", "f32", "--residual", "f32", "--device", "cuda:0"}));
  EXPECT_EQ(cuda.at("tokens"), cpu.at("tokens"));
}

}  // namespace
}  // namespace monotile::engine
