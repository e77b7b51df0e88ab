// monotile tune: measures the implementations and tiles of products on a device, and writes the table that dispatch loads.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "bench/data.hpp"
#include "bench/measure.hpp"
#include "cli/commands.hpp"
#include "cli/table.hpp"
#include "ops/gemm/gemm.hpp"
#include "ops/gemm/tuning.hpp"
#include "runtime/dtype_named.hpp"

namespace monotile::cli {
namespace {

namespace tiles = ops::tiles;

struct Options {
  std::string device, shapes, a = "bf16", b, cast = "none", out;
  double seconds = 60;
};
struct Shape {
  int64_t m, n, k;
};

constexpr DType kTypes[] = {DType::f32,  DType::f16,  DType::bf16, DType::i8,   DType::f8_e4m3, DType::f8_e5m2,
                            DType::q4_0, DType::q5_0, DType::q8_0, DType::q4_k, DType::q6_k};
DType type_of(const char* flag, const std::string& name) {
  if (const DType t = dtype_named(name, kTypes); t != DType::none) return t;
  throw CLI::ValidationError(
      flag, "'" + name + "'; allowed: f32, f16, bf16, i8, f8_e4m3, f8_e5m2, and for b q4_0, q5_0, q8_0, q4_k, q6_k");
}
ops::ProductCast cast_of(const std::string& name) {
  const auto* const found = std::find(std::begin(tiles::kCastNames), std::end(tiles::kCastNames), name);
  if (found != std::end(tiles::kCastNames)) return static_cast<ops::ProductCast>(found - std::begin(tiles::kCastNames));
  throw CLI::ValidationError("--cast", "'" + name + "'; allowed: none, int8_block, bf16, tf32");
}

/// "MxNxK,MxNxK"; by default those of an 8-billion-parameter layer with one row to many.
std::vector<Shape> shapes_of(const std::string& text) {
  std::vector<Shape> shapes;
  if (text.empty()) {
    for (const int64_t m : {1, 16, 64, 256, 1024, 4096}) {
      for (const auto& [n, k] : {std::pair<int64_t, int64_t>{6144, 4096}, {4096, 4096}, {28672, 4096}, {4096, 14336}})
        shapes.push_back({m, n, k});
    }
    return shapes;
  }
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string one = text.substr(begin, end - begin);
    Shape s{};
    char x = 0, y = 0, rest = 0;
    if (std::sscanf(one.c_str(), "%ld%c%ld%c%ld%c", &s.m, &x, &s.n, &y, &s.k, &rest) != 5 || x != 'x' || y != 'x' ||
        s.m < 1 || s.n < 1 || s.k < 1)
      throw CLI::ValidationError("--shapes", "'" + one + "'; allowed: MxNxK with numbers from 1, separated by commas");
    shapes.push_back(s);
    begin = end + 1;
  }
  return shapes;
}

std::string default_path() {
  const char* const cache = std::getenv("XDG_CACHE_HOME");
  const char* const home = std::getenv("HOME");
  const std::filesystem::path base = cache != nullptr && *cache != '\0'
                                         ? std::filesystem::path(cache)
                                         : std::filesystem::path(home != nullptr ? home : ".") / ".cache";
  return (base / "monotile" / "tuning.json").string();
}

std::string name_of(const std::string& implementation, const std::string& tile, int split) {
  return implementation + (tile.empty() ? "" : " " + tile) + (split > 1 ? std::to_string(split) : "");
}

int tune(const Options& options) {
  const Device device = parse_device(options.device.empty() ? "cpu" : options.device);
  const DeviceInfo& info = device_info(device);
  const DType a = type_of("--a", options.a), b = type_of("--b", options.b.empty() ? options.a : options.b);
  const std::vector<Shape> shapes = shapes_of(options.shapes);
  Stream stream(device);
  const std::unique_ptr<bench::Timeline> timeline = bench::timeline_of(stream);
  tiles::TuningTable table;
  table.path = options.out.empty() ? default_path() : options.out;
  table.device = info.name, table.code_path = info.path;
  const tiles::ScopedTuning without(nullptr);  // what the cost model chooses, whatever the environment says
  const auto begin = std::chrono::steady_clock::now();
  std::string text = fmt::format("{}, path {}: {} x {}, cast {}\n", info.name, info.path, dtype_info(a).name,
                                 dtype_info(b).name, options.cast);
  for (const Shape& s : shapes) {
    if (std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() > options.seconds) {
      text += fmt::format("stopped: {:.0f} s are over (--seconds)\n", options.seconds);
      break;
    }
    struct Set {
      bench::Data data;
      ops::GemmArgs args;
    };
    std::vector<std::unique_ptr<Set>> sets;
    int wanted = 1;
    for (int i = 0; i < wanted; ++i) {
      auto set = std::make_unique<Set>(Set{bench::Data(stream, static_cast<uint64_t>(i)), {}});
      const double most = a == DType::i8 ? 127.0 : 1.0;
      set->args.a = set->data.input(a, {s.m, s.k}, -most, most);
      set->args.b = set->data.input(b, {s.n, s.k}, -most, most);
      set->args.c = set->data.output(is_code(a) ? DType::bf16 : a, {s.m, s.n});
      set->args.cast = cast_of(options.cast);
      const size_t bytes = set->data.bytes();
      sets.push_back(std::move(set));
      if (i == 0) wanted = bench::cold_sets(*timeline, bytes, bytes, size_t{256} << 20);
    }
    const ops::GemmArgs& args = sets.front()->args;
    const Plan<ops::GemmArgs> chosen = plan(device, args);  // refuses what cannot be multiplied
    tiles::Tuned best;
    double chosen_us = 0;
    // Twice, the second time in reverse, and the better of both: what else the machine does meanwhile should not pick the tile.
    const std::vector<tiles::Candidate> all = tiles::candidates(args, info);
    std::vector<double> times(all.size(), 0.0);
    for (size_t turn = 0; turn < 2 * all.size(); ++turn) {
      const size_t i = turn < all.size() ? turn : 2 * all.size() - 1 - turn;
      const tiles::Candidate& candidate = all[i];
      Buffer workspace(device, std::max<size_t>(candidate.plan.workspace_bytes, 1));
      bench::Method method;
      method.warmups = 3, method.samples = 15, method.budget_us = 50e3;
      try {
        const bench::Timing timing = bench::time_device(
            *timeline,
            {[&](int set) { candidate.plan.run(stream, sets[static_cast<size_t>(set)]->args, workspace.data()); },
             static_cast<int>(sets.size()), sets.front()->data.bytes()},
            method);
        times[i] = times[i] == 0 ? timing.us.median : std::min(times[i], timing.us.median);
      } catch (const bench::Fault& fault) {
        text += fmt::format("  {}: not measured: {}\n",
                            name_of(candidate.implementation, candidate.tile, candidate.split), fault.what());
      }
    }
    for (size_t i = 0; i < all.size(); ++i) {
      const tiles::Candidate& candidate = all[i];
      if (times[i] == 0) continue;
      if (chosen.kernel == candidate.plan.kernel && chosen.config[1] == candidate.plan.config[1]) chosen_us = times[i];
      if (best.us == 0 || times[i] < best.us) {
        best.implementation = candidate.implementation, best.tile = candidate.tile, best.split = candidate.split,
        best.us = times[i];
      }
    }
    if (best.us == 0) continue;
    best.range = *tiles::range_of(args);
    best.chosen_us = chosen_us != 0 ? chosen_us : best.us;
    best.m = s.m, best.n = s.n, best.k = s.k;
    // Within what repeated measurements differ by, the cost model's choice stays: no row, nothing that could be noise.
    constexpr double kWorthARow = 0.97;
    const bool worth = best.us < kWorthARow * best.chosen_us;
    text +=
        fmt::format("{:>6} x {:>6} x {:>6}  {:>10.1f} us {:<18} chosen without {:>10.1f} us{}\n", s.m, s.n, s.k,
                    best.us, name_of(best.implementation, best.tile, best.split), best.chosen_us, worth ? "  *" : "");
    if (!worth) continue;
    // One row for a range: that of the shape for which most is gained.
    const auto same = std::find_if(table.rows.begin(), table.rows.end(),
                                   [&](const tiles::Tuned& row) { return row.range == best.range; });
    if (same == table.rows.end()) {
      table.rows.push_back(best);
    } else if (best.us / best.chosen_us < same->us / same->chosen_us) {
      *same = best;
    }
  }
  if (const std::filesystem::path folder = std::filesystem::path(table.path).parent_path(); !folder.empty())
    std::filesystem::create_directories(folder);
  std::ofstream file(table.path);
  file << tiles::to_json(table);
  file.close();
  if (!file) throw Error(ErrorCode::bad_file, "tune: " + table.path + ": cannot be written");
  text += fmt::format(
      "* {} ranges gain 3 % or more. Written: {}\nTo use it: export MONOTILE_TUNING={}   (monotile ops says where it "
      "decides)\n",
      table.rows.size(), table.path, table.path);
  print(text);
  return 0;
}

}  // namespace

void add_tune_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("tune", "Measure the tiles of products and write a tuning table");
  command->add_option("--device", options->device, "cpu (the default), cuda:0, ...");
  command->add_option(
      "--shapes", options->shapes,
      "MxNxK,MxNxK,...: sizes to measure, each for its\nrange between powers of two (default: 24 sizes)");
  command->add_option("--a", options->a, "dtype of the activations (default: bf16)");
  command->add_option("--b", options->b, "dtype of the weights (default: that of a)");
  command->add_option("--cast", options->cast, "none (default), int8_block, bf16, tf32");
  command->add_option("--seconds", options->seconds, "Stop after this many seconds (default: 60)")
      ->check(CLI::Range(1.0, 3600.0));
  command->add_option("--out", options->out, "The table (default: ~/.cache/monotile/tuning.json)");
  command->footer(
      "The table holds for this device, path and version. MONOTILE_TUNING names the one\nthat dispatch uses.");
  command->callback([options, &exit_code] { exit_code = tune(*options); });
}

}  // namespace monotile::cli
