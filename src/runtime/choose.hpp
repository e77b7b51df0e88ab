#pragma once
// The dispatcher: among the supported implementations of the allowed tiers the lowest cost wins, list order breaks ties.

#include <span>
#include <string>
#include <vector>

#include "monotile/dispatch.hpp"

namespace monotile::detail {

[[noreturn]] void throw_no_implementation(const char* op, const DeviceInfo& device, const TierPolicy& policy, const std::string& reasons);

template <class Args>
Plan<Args> choose(const char* op, std::span<const Implementation<Args>* const> list, Device device, const Args& args,
                  const TierPolicy& policy) {
  const DeviceInfo& info = device_info(device);
  const Implementation<Args>* best = nullptr;
  double best_cost = 0;
  for (const Implementation<Args>* candidate : list) {
    if (!policy.allows(candidate->tier) || candidate->supports(args, info) != nullptr) continue;
    const double cost = candidate->cost(args, info);
    const bool higher_tier_wanted = policy.tier && best != nullptr && candidate->tier > best->tier;
    if (best == nullptr || higher_tier_wanted || (cost < best_cost && !(policy.tier && candidate->tier < best->tier))) {
      best = candidate;
      best_cost = cost;
    }
  }
  if (best == nullptr) {
    std::string reasons;
    for (const Implementation<Args>* candidate : list) {
      const char* why = candidate->supports(args, info);
      reasons += std::string(reasons.empty() ? "" : "; ") + candidate->name + ": " + (why != nullptr ? why : "not of the forced tier");
    }
    throw_no_implementation(op, info, policy, reasons);
  }
  Plan<Args> result;
  result.implementation = best;
  result.device = &info;
  best->plan(args, info, result);
  return result;
}

/// The same judgement in words, for `monotile ops`.
template <class Args>
std::vector<Choice> explain(std::span<const Implementation<Args>* const> list, const DeviceInfo& info, const Args& args,
                            const TierPolicy& policy) {
  std::vector<Choice> rows;
  const Implementation<Args>* best = nullptr;
  try {
    best = choose<Args>(Args::op_name, list, info.device, args, policy).implementation;
  } catch (const Error&) {
    best = nullptr;
  }
  for (const Implementation<Args>* candidate : list) {
    Choice row;
    row.implementation = candidate->name;
    row.tier = candidate->tier;
    const char* why = candidate->supports(args, info);
    row.supported = why == nullptr;
    row.chosen = candidate == best;
    if (row.supported) row.cost = candidate->cost(args, info);
    if (!row.supported) {
      row.why = why;
    } else if (row.chosen) {
      row.why = policy.tier ? "forced tier" : "lowest cost";
    } else {
      row.why = policy.allows(candidate->tier) ? "higher cost" : "tier not allowed";
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace monotile::detail
