// monotile bench: operators, models, comparisons.

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>

#include "bench/claims.hpp"
#include "bench/compare.hpp"
#include "bench/model_bench.hpp"
#include "bench/run_ops.hpp"
#include "cli/commands.hpp"
#include "cli/table.hpp"

namespace monotile::cli {
namespace {

constexpr int kRefused = 3;  ///< exit code for measurements that cannot be true

void write_file(const std::string& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  if (!out.flush()) throw Error(ErrorCode::device_error, path + ": cannot be written");
}

/// Before minutes of measuring: can this be written at the end?
void check_writable(const std::string& flag, const std::string& path) {
  if (path.empty()) return;
  const bool existed = std::ifstream(path).good();
  if (!std::ofstream(path, std::ios::app)) throw Error(ErrorCode::not_found, flag + ": " + path + " cannot be written");
  if (!existed) std::remove(path.c_str());
}

/// Errors about a flag are wrong usage.
template <class Call>
auto with_usage(Call call) {
  try {
    return call();
  } catch (const Error& error) {
    if (std::string_view(error.what()).substr(0, 2) == "--")
      throw CLI::ValidationError(error.what(), CLI::ExitCodes::ValidationError);
    throw;
  }
}

bool any_slower(const std::vector<bench::Comparison>& comparisons) {
  return std::any_of(comparisons.begin(), comparisons.end(),
                     [](const bench::Comparison& c) { return c.judgement == bench::Judgement::slower; });
}

/// Runs a program with its output thrown away; refused measurements (exit code 3) are rows like others.
void run_quietly(const std::vector<std::string>& words) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = 0;
  const int failed = posix_spawn(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  int status = 0;
  if (failed != 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status) ||
      (WEXITSTATUS(status) != 0 && WEXITSTATUS(status) != kRefused))
    throw Error(ErrorCode::device_error,
                words.front() + " bench ops: could not be run to its end; is it a build of this program?");
}

bool wide_terminal() {
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 150;
}

struct OpsFlags {
  bench::OpsOptions options;
  std::string device, baseline, json, html, markdown;
  bool cold = false, hot = false, wide = false, quiet = false;
};

/// A result of ours is compared; a table of published figures is checked against physics.
int use_baseline(const OpsFlags& flags, const bench::Report& report) {
  std::ifstream in(flags.baseline);
  if (!in) throw Error(ErrorCode::not_found, flags.baseline + ": cannot be read");
  const bench::Json json = bench::Json::parse(in, nullptr, false);
  if (json.is_discarded()) throw Error(ErrorCode::bad_file, flags.baseline + ": not JSON");
  if (!json.contains("published")) {
    print("\n" + bench::comparison_text(bench::compare(bench::read_report(flags.baseline), report, 0.97), 0.97));
    return 0;
  }
  const std::vector<std::string> refusals = bench::refuse_published(json.at("published"));
  for (const std::string& line : refusals) print("refused: " + wrap(line, 9) + "\n");
  print(fmt::format("{}: {} of {} rows refused\n", flags.baseline, refusals.size(),
                    json.at("published").at("rows").size()));
  return refusals.empty() ? 0 : kRefused;
}

int run_ops_command(OpsFlags& flags) {
  // A published table alone is judged without measuring anything.
  if (!flags.baseline.empty()) {
    std::ifstream in(flags.baseline);
    const bench::Json json = bench::Json::parse(in, nullptr, false);
    if (!json.is_discarded() && json.contains("published")) return use_baseline(flags, {});
  }
  flags.options.device = flags.device.empty() ? devices().front().device : parse_device(flags.device);
  if (flags.device.empty()) {
    for (const DeviceInfo& info : devices()) {
      if (info.device.kind == DeviceKind::cuda) {
        flags.options.device = info.device;
        break;
      }
    }
  }
  flags.options.cache = flags.hot ? bench::Cache::hot : bench::Cache::cold;
  if (!flags.quiet && isatty(STDERR_FILENO) != 0) {
    flags.options.progress = [](const std::string& line) { std::fprintf(stderr, "\r\033[K%.100s", line.c_str()); };
  }
  check_writable("--json", flags.json);
  check_writable("--html", flags.html);
  check_writable("--md", flags.markdown);
  const bench::Report report = with_usage([&] { return bench::run_ops(flags.options); });
  if (flags.options.progress) std::fprintf(stderr, "\r\033[K");
  print(bench::text_table(report, flags.wide || wide_terminal()));
  if (!flags.json.empty()) write_file(flags.json, bench::to_json(report).dump(1) + "\n");
  if (!flags.markdown.empty()) write_file(flags.markdown, bench::markdown(report));
  int exit_code = report.refused() ? kRefused : 0;
  std::optional<bench::Report> other;
  if (!flags.baseline.empty()) {
    exit_code = std::max(exit_code, use_baseline(flags, report));
    other = bench::read_report(flags.baseline);
  }
  if (!flags.html.empty()) write_file(flags.html, bench::html(report, other ? &*other : nullptr));
  return exit_code;
}

void add_ops(CLI::App& bench_app, int& exit_code) {
  auto flags = std::make_shared<OpsFlags>();
  CLI::App* command =
      bench_app.add_subcommand("ops", "How fast each operator is, in each tier, and how far from the limit");
  command->add_option("--op", flags->options.patterns, "Operators by name, with * and ? (default: all)")
      ->delimiter(',')
      ->type_name("PATTERNS");
  command->add_option("--shapes", flags->options.shapes, "default, quick, streams, model:NAME,\nor numbers M,N,...")
      ->type_name("SHAPES");
  command->add_option("--dtype", flags->options.dtypes, "f16, bf16, f32 (default: one per operator)")
      ->delimiter(',')
      ->type_name("TYPES");
  command
      ->add_option("--tier", flags->options.columns,
                   "all, or of: portable, portable_sm80, tuned, vendor,\nnative, naive, reference")
      ->delimiter(',')
      ->type_name("TIERS");
  command->add_option("--device", flags->device, "cpu, cuda:0, ... (default: the GPU if there is one)")
      ->type_name("DEVICE");
  CLI::Option* cold = command->add_flag("--cold", flags->cold, "Buffers rotate, the cache is emptied (default)");
  command->add_flag("--hot", flags->hot, "The same buffers again and again")->excludes(cold);
  command
      ->add_option("--threads", flags->options.threads,
                   "On the CPU: everything with each of these numbers of\nthreads, beside memcpy with as many")
      ->delimiter(',')
      ->check(CLI::Range(1, 1024))
      ->type_name("N,...");
  command->add_flag("--graph", flags->options.every_call_in_graphs, "50 calls per graph for long ones too");
  command->add_flag("--gaps", flags->options.gaps, "Pause before each sample: a power-limited chip cools");
  command->add_option("--seconds", flags->options.seconds, "Stop after this time")->type_name("S");
  command->add_option("--budget", flags->options.budget_us, "Microseconds of samples per row")->type_name("US");
  command->add_option("--spec", flags->options.spec_file, "Limits of the device, instead of the table's (JSON)")
      ->type_name("FILE");
  command
      ->add_option("--baseline", flags->baseline, "An earlier result to compare with, or published\nfigures to check")
      ->type_name("FILE");
  command->add_option("--json", flags->json, "Write the result")->type_name("FILE");
  command->add_option("--html", flags->html, "Write one self-contained page with plots")->type_name("FILE");
  command->add_option("--md", flags->markdown, "Write a Markdown table")->type_name("FILE");
  command->add_flag("--wide", flags->wide, "All columns, whatever the terminal's width");
  command->footer("Exit code 3: a measurement is faster than the device can be, or its output is wrong.");
  command->callback([flags, &exit_code] {
    if (flags->options.columns == std::vector<std::string>{"all"}) flags->options.columns.clear();
    exit_code = run_ops_command(*flags);
  });
}

void add_model(CLI::App& bench_app, int& exit_code) {
  struct Flags {
    bench::ModelBenchOptions options;
    std::string device, json, tier;
    bool no_portable = false, no_profile = false;
  };
  auto flags = std::make_shared<Flags>();
  bench::ModelBenchOptions& options = flags->options;
  CLI::App* command = bench_app.add_subcommand("model", "How fast a whole model answers, and where a step's time goes");
  CLI::Option* model = command->add_option("--model", options.path, "GGUF file")->type_name("FILE");
  CLI::Option* synthetic = command
                               ->add_option("--synthetic", options.synthetic,
                                            "Random bf16 weights in the shape of a model:\nllama-3-8b, ...")
                               ->type_name("NAME");
  synthetic->excludes(model);
  command->add_option("--device", flags->device, "cpu (default), cuda:0, ...")->type_name("DEVICE");
  command->add_option("--prompt", options.prompt, "Tokens of the prompt (default 512)")
      ->check(CLI::Range(1, 1 << 20))
      ->type_name("N");
  command->add_option("--generate", options.generate, "Tokens to generate (default 128)")
      ->check(CLI::Range(1, 1 << 20))
      ->type_name("N");
  command->add_option("--repetitions", options.repetitions, "Answers to time (default: 2 to 5, by speed)")
      ->type_name("N");
  command->add_flag("--no-portable", flags->no_portable, "Leave out the run with the tier forced to portable");
  command->add_flag("--no-profile", flags->no_profile, "Leave out the operators of one step");
  command->add_option("--price-per-hour", options.price_per_hour, "Of the machine: prints the cost per million tokens")
      ->type_name("X");
  command->add_option("--project", options.project, "Scale to another device by specified limits")->type_name("DEVICE");
  command->add_option("--json", flags->json, "Write the result")->type_name("FILE");
  command->callback([flags, model, synthetic, &exit_code] {
    if (model->count() + synthetic->count() == 0) throw CLI::RequiredError("--model (or --synthetic)");
    flags->options.device = flags->device.empty() ? Device{} : parse_device(flags->device);
    flags->options.portable_too = !flags->no_portable;
    flags->options.profile = !flags->no_profile;
    const bench::ModelResult result = bench::bench_model(flags->options);
    print(bench::text_table(result, flags->options));
    if (!flags->json.empty()) write_file(flags->json, bench::to_json(result, flags->options).dump(1) + "\n");
    exit_code = result.step.refused() ? kRefused : 0;
  });
}

void add_compare(CLI::App& bench_app, int& exit_code) {
  struct Flags {
    std::string before, after, html;
    double fail_under = 0.97;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App* command = bench_app.add_subcommand("compare", "Is the second result slower than the first?");
  command->add_option("BEFORE", flags->before, "A result of monotile bench")->required()->type_name("");
  command->add_option("AFTER", flags->after, "Another one")->required()->type_name("");
  command
      ->add_option("--fail-under", flags->fail_under,
                   "Exit code 1 if a row has less than this share of its\nspeed (default 0.97)")
      ->type_name("X");
  command->add_option("--html", flags->html, "Write the page of AFTER with the comparison")->type_name("FILE");
  command->callback([flags, &exit_code] {
    const bench::Report before = bench::read_report(flags->before), after = bench::read_report(flags->after);
    const auto comparisons = bench::compare(before, after, flags->fail_under);
    print(bench::comparison_text(comparisons, flags->fail_under));
    if (!flags->html.empty()) write_file(flags->html, bench::html(after, &before));
    exit_code = any_slower(comparisons) ? 1 : 0;
  });
}

/// Replaces what stands between the two marks of `file`.
void replace_table(const std::string& file, const std::string& text) {
  constexpr const char *kBegin = "<!-- bench: begin -->\n", *kEnd = "<!-- bench: end -->";
  std::ifstream in(file, std::ios::binary);
  std::string page((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  const size_t begin = page.find(kBegin), end = page.find(kEnd);
  if (begin == std::string::npos || end == std::string::npos || end < begin)
    throw Error(ErrorCode::bad_file, file + ": no marks <!-- bench: begin --> and <!-- bench: end -->");
  page.replace(begin + std::strlen(kBegin), end - begin - std::strlen(kBegin), text);
  write_file(file, page);
}

void add_report(CLI::App& bench_app, int& exit_code) {
  struct Flags {
    std::string result, html, markdown, claims, readme, baseline, source = ".";
    bool wide = false, quiet = false;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App* command = bench_app.add_subcommand("report", "Pages and tables from a result");
  command->add_option("RESULT", flags->result, "A result of monotile bench ops or of the peers")
      ->required()
      ->type_name("");
  command->add_option("--html", flags->html, "Write the page")->type_name("FILE");
  command->add_option("--md", flags->markdown, "Write a Markdown table")->type_name("FILE");
  command->add_option("--claims", flags->claims, "Write the claims of the field with verdicts")->type_name("FILE");
  command->add_option("--readme", flags->readme, "Replace the table between its marks in this file")->type_name("FILE");
  command->add_option("--baseline", flags->baseline, "Another result, compared on the page")->type_name("FILE");
  command->add_option("--source", flags->source, "Root of the repository (default: here)")->type_name("DIR");
  command->add_flag("--wide", flags->wide, "All columns");
  command->add_flag("--quiet", flags->quiet, "Print no table");
  command->callback([flags, &exit_code] {
    const bench::Report report = bench::read_report(flags->result);
    std::optional<bench::Report> other;
    if (!flags->baseline.empty()) other = bench::read_report(flags->baseline);
    if (!flags->quiet) print(bench::text_table(report, flags->wide || wide_terminal()));
    if (!flags->html.empty()) write_file(flags->html, bench::html(report, other ? &*other : nullptr));
    if (!flags->markdown.empty()) write_file(flags->markdown, bench::markdown(report));
    if (!flags->claims.empty()) write_file(flags->claims, bench::claims_markdown(report, flags->source, flags->result));
    if (!flags->readme.empty()) replace_table(flags->readme, bench::readme_table(report));
    exit_code = 0;
  });
}

/// Runs both builds in turns, each with the same options, and compares the medians of all rounds.
void add_ab(CLI::App& bench_app, int& exit_code) {
  struct Flags {
    std::string a, b, op = "*", shapes = "quick", device;
    int rounds = 4;
    double fail_under = 0.97;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App* command = bench_app.add_subcommand("ab", "Two builds of this program, interleaved");
  command->add_option("BINARY_A", flags->a, "A monotile program")->required()->check(CLI::ExistingFile)->type_name("");
  command->add_option("BINARY_B", flags->b, "Another one")->required()->check(CLI::ExistingFile)->type_name("");
  command->add_option("--op", flags->op, "Operators by name")->type_name("PATTERN");
  command->add_option("--shapes", flags->shapes, "As in bench ops (default quick)")->type_name("SHAPES");
  command->add_option("--device", flags->device, "As in bench ops")->type_name("DEVICE");
  command->add_option("--rounds", flags->rounds, "Runs of each (default 4)")->check(CLI::Range(2, 100))->type_name("N");
  command->add_option("--fail-under", flags->fail_under, "Exit code 1 if B has less than this share of A's speed")
      ->type_name("X");
  command->callback([flags, &exit_code] {
    const auto run = [&](const std::string& binary) {
      const std::string file = fmt::format("/tmp/monotile-ab-{}.json", getpid());
      std::vector<std::string> words = {binary,           "bench",    "ops",         "--op",
                                        flags->op,        "--shapes", flags->shapes, "--tier",
                                        "portable,tuned", "--json",   file};
      if (!flags->device.empty()) words.insert(words.end(), {"--device", flags->device});
      run_quietly(words);
      bench::Report report = bench::read_report(file);
      std::remove(file.c_str());
      return report;
    };
    std::vector<bench::Report> a, b;
    for (int round = 0; round < flags->rounds; ++round) {
      if (round % 2 == 0) a.push_back(run(flags->a));
      b.push_back(run(flags->b));
      if (round % 2 != 0) a.push_back(run(flags->a));
    }
    const bench::Report before = bench::merged(a), after = bench::merged(b);
    const auto comparisons = bench::compare(before, after, flags->fail_under);
    print(bench::comparison_text(comparisons, flags->fail_under));
    exit_code = any_slower(comparisons) ? 1 : 0;
  });
}

}  // namespace

void add_bench_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("bench", "Measure operators and models; compare results");
  command->require_subcommand(1);
  add_ops(*command, exit_code);
  add_model(*command, exit_code);
  add_compare(*command, exit_code);
  add_ab(*command, exit_code);
  add_report(*command, exit_code);
}

}  // namespace monotile::cli
