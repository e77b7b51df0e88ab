// monotile devices: what was found, its versions and limits, and a self-test per device and operator.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/commands.hpp"
#include "cli/table.hpp"
#include "monotile/c_api.h"
#include "monotile/dispatch.hpp"

namespace monotile::cli {
namespace {

struct Outcome {
  enum class Kind { ok, absent, failed } kind = Kind::ok;
  std::string text;  ///< why it is absent or what was wrong
};

const char* word(Outcome::Kind kind) {
  switch (kind) {
    case Outcome::Kind::ok: return "ok";
    case Outcome::Kind::absent: return "absent";
    case Outcome::Kind::failed: break;
  }
  return "FAILED";
}

Outcome self_test(const OperatorInfo& op, const DeviceInfo& device) {
  try {
    const std::string wrong = op.self_test(device);
    if (!wrong.empty()) return {Outcome::Kind::failed, wrong};
    return {};
  } catch (const Error& error) {
    return {error.code() == ErrorCode::unsupported ? Outcome::Kind::absent : Outcome::Kind::failed, error.what()};
  } catch (const std::exception& error) {
    return {Outcome::Kind::failed, error.what()};
  }
}

/// outcomes[device][operator]
using Outcomes = std::vector<std::vector<Outcome>>;

Outcomes run_self_tests() {
  Outcomes outcomes;
  for (const DeviceInfo& device : devices()) {
    std::vector<Outcome>& row = outcomes.emplace_back();
    for (const OperatorInfo& op : operators()) row.push_back(self_test(op, device));
  }
  return outcomes;
}

bool any_failed(const Outcomes& outcomes) {
  for (const auto& row : outcomes) {
    for (const Outcome& outcome : row) {
      if (outcome.kind == Outcome::Kind::failed) return true;
    }
  }
  return false;
}

std::string device_table() {
  std::string text = fmt::format("{:<12} {:<10} {:>5} {:>4} {:>10} {:>10} {:>10}\n", "device", "path", "units", "wave",
                                 "memory", "L2", "scratch");
  for (const DeviceInfo& info : devices()) {
    text +=
        fmt::format("{:<12} {:<10} {:>5} {:>4} {:>10} {:>10} {:>10}\n", to_string(info.device), info.path, info.units,
                    info.wave, size_text(info.memory_bytes), size_text(info.l2_bytes), size_text(info.shared_bytes));
    std::string about = info.name + " (" + info.architecture + ")";
    if (!info.driver.empty()) about += "; " + info.driver;
    text += "  " + wrap(about, 2) + "\n";
  }
  if (!absent_backends().empty()) text += "\nnot available\n";
  for (const std::string& line : absent_backends()) text += "  " + wrap(line, 2) + "\n";
  return text;
}

std::string self_test_table(const Outcomes& outcomes) {
  constexpr size_t per_table = 4;  // devices side by side in 80 columns
  std::string text;
  for (size_t first = 0; first < outcomes.size(); first += per_table) {
    const size_t last = std::min(first + per_table, outcomes.size());
    text += fmt::format("\n{:<20}", "self-test");
    for (size_t d = first; d < last; ++d) text += fmt::format(" {:>12}", to_string(devices()[d].device));
    for (size_t o = 0; o < operators().size(); ++o) {
      text += fmt::format("\n{:<20}", operators()[o].name);
      for (size_t d = first; d < last; ++d) text += fmt::format(" {:>12}", word(outcomes[d][o].kind));
    }
    text += "\n";
  }
  for (size_t d = 0; d < outcomes.size(); ++d) {
    for (size_t o = 0; o < operators().size(); ++o) {
      const Outcome& outcome = outcomes[d][o];
      if (outcome.kind == Outcome::Kind::ok) continue;
      text += wrap(fmt::format("{} on {}: {}: {}", operators()[o].name, to_string(devices()[d].device),
                               word(outcome.kind), outcome.text),
                   2) +
              "\n";
    }
  }
  return text;
}

nlohmann::ordered_json to_json(const Outcomes* outcomes) {
  nlohmann::ordered_json root = {{"version", MONOTILE_VERSION},
                                 {"abi_version", MONOTILE_ABI_VERSION},
                                 {"devices", nlohmann::ordered_json::array()}};
  for (size_t d = 0; d < devices().size(); ++d) {
    const DeviceInfo& info = devices()[d];
    nlohmann::ordered_json entry = {{"device", to_string(info.device)},
                                    {"name", info.name},
                                    {"architecture", info.architecture},
                                    {"path", info.path},
                                    {"units", info.units},
                                    {"wave", info.wave},
                                    {"memory_bytes", info.memory_bytes},
                                    {"l2_bytes", info.l2_bytes},
                                    {"scratch_bytes", info.shared_bytes},
                                    {"driver", info.driver}};
    for (size_t o = 0; outcomes != nullptr && o < operators().size(); ++o) {
      const Outcome& outcome = (*outcomes)[d][o];
      nlohmann::ordered_json result = {
          {"result", outcome.kind == Outcome::Kind::failed ? "failed" : word(outcome.kind)}};
      if (!outcome.text.empty()) result["text"] = outcome.text;
      entry["self_test"][operators()[o].name] = result;
    }
    root["devices"].push_back(entry);
  }
  root["not_available"] = absent_backends();
  return root;
}

}  // namespace

void add_devices_command(CLI::App& app, int& exit_code) {
  struct Options {
    bool json = false;
    bool no_self_test = false;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("devices", "List devices and limits, test the operators on each");
  command->add_flag("--json", options->json, "Print JSON");
  command->add_flag("--no-self-test", options->no_self_test, "Do not run the operators");
  command->footer(
      "Exit code 1 if a self-test fails. MONOTILE_CPU_PATH=plain and\nMONOTILE_CUDA_PATH=sm80 force the plainer code "
      "path.");
  command->callback([options, &exit_code] {
    Outcomes outcomes;
    if (!options->no_self_test) outcomes = run_self_tests();
    if (options->json) {
      print(to_json(options->no_self_test ? nullptr : &outcomes).dump(2) + "\n");
    } else {
      print(device_table() + (options->no_self_test ? "" : self_test_table(outcomes)));
    }
    exit_code = any_failed(outcomes) ? 1 : 0;
  });
}

}  // namespace monotile::cli
