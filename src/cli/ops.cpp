// monotile ops: operator x device x implementation, the chosen one and why.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cli/commands.hpp"
#include "cli/table.hpp"
#include "monotile/dispatch.hpp"
#include "runtime/kernels.hpp"

namespace monotile::cli {
namespace {

struct Options {
  bool json = false;
  std::string device;
  std::string tier;
};

/// The parsed value of a flag; text that cannot be parsed is a usage error.
template <class Parse>
auto flag_value(const char* flag, const std::string& text, Parse parse) {
  try {
    return parse(text);
  } catch (const Error& error) {
    throw CLI::ValidationError(flag, error.what());
  }
}

std::vector<const DeviceInfo*> chosen_devices(const Options& options) {
  if (!options.device.empty())
    return {&device_info(
        flag_value("--device", options.device, [](const std::string& text) { return parse_device(text); }))};
  std::vector<const DeviceInfo*> all;
  for (const DeviceInfo& info : devices()) all.push_back(&info);
  return all;
}

std::string cost_text(const Choice& choice) {
  if (!choice.supported) return "-";
  return choice.cost >= 1e6 ? "last" : fmt::format("{:.1f} us", choice.cost);
}

std::string table(const std::vector<const DeviceInfo*>& on, const TierPolicy& policy) {
  std::string text =
      fmt::format("{:<13} {:<26} {:<9} {:>10}   why (* chosen)\n", "device", "implementation", "tier", "cost");
  for (const OperatorInfo& op : operators()) {
    text += fmt::format("\n{} ({})\n", op.name, op.family);
    for (const DeviceInfo* info : on) {
      std::string device = to_string(info->device);
      for (const Choice& choice : op.explain(*info, policy)) {
        const std::string head = fmt::format("  {:<11} {:<26} {:<9} {:>10} {} ", device, choice.implementation,
                                             to_string(choice.tier), cost_text(choice), choice.chosen ? '*' : ' ');
        text += head + wrap(choice.why, 64) + "\n";
        device.clear();  // named once per group
      }
    }
  }
  return text;
}

nlohmann::ordered_json to_json(const std::vector<const DeviceInfo*>& on, const TierPolicy& policy) {
  using Json = nlohmann::ordered_json;
  Json root = {{"version", MONOTILE_VERSION},
               {"tier", policy.tier ? to_string(*policy.tier) + std::string(policy.or_lower ? "+" : "") : "auto"}};
  root["operators"] = Json::array();
  for (const OperatorInfo& op : operators()) {
    Json rows = Json::array();
    for (const DeviceInfo* info : on) {
      for (const Choice& choice : op.explain(*info, policy)) {
        rows.push_back({{"device", to_string(info->device)},
                        {"path", info->path},
                        {"implementation", choice.implementation},
                        {"tier", to_string(choice.tier)},
                        {"supported", choice.supported},
                        {"chosen", choice.chosen},
                        {"cost_us", choice.supported ? Json(choice.cost) : Json(nullptr)},
                        {"why", choice.why}});
      }
    }
    root["operators"].push_back({{"name", op.name}, {"family", op.family}, {"implementations", rows}});
  }
  struct Built {
    int variants = 0;
    std::set<uint32_t> dtypes;  // by convention all but the low 8 bits of a variant
  };
  std::map<std::pair<std::string_view, Target>, Built> built;
  for (const KernelEntry& entry : built_kernels()) {
    Built& group = built[{entry.name, entry.target}];
    ++group.variants;
    group.dtypes.insert(entry.variant >> 8);
  }
  root["kernels"] = Json::array();
  for (const auto& [key, group] : built) {
    root["kernels"].push_back({{"name", key.first},
                               {"target", to_string(key.second)},
                               {"variants", group.variants},
                               {"dtypes", group.dtypes.size()}});
  }
  return root;
}

}  // namespace

void add_ops_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("ops", "List implementations per device, and why one is chosen");
  command->add_flag("--json", options->json, "Print JSON, with the kernels that were built");
  command->add_option("--device", options->device, "Only this device: cpu, cuda:0, emulated:32, ...");
  command
      ->add_option("--tier", options->tier,
                   "Force a tier: reference, portable, tuned, vendor, or\nwith lower ones as stand-ins: portable+, ...")
      ->type_name("TIER");
  command->footer(
      "Costs are estimates for a typical call of each operator; `last` is a last\nresort. MONOTILE_TIER sets the "
      "default of --tier.");
  command->callback([options, &exit_code] {
    const TierPolicy policy =
        options->tier.empty()
            ? default_tier()
            : flag_value("--tier", options->tier, [](const std::string& text) { return parse_tier(text); });
    const std::vector<const DeviceInfo*> on = chosen_devices(*options);
    print(options->json ? to_json(on, policy).dump(2) + "\n" : table(on, policy));
    exit_code = 0;
  });
}

}  // namespace monotile::cli
