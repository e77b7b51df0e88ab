#include "monotile/dispatch.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "runtime/choose.hpp"
#include "runtime/driver.hpp"

namespace monotile {
namespace {

constexpr Tier kTiers[] = {Tier::reference, Tier::portable, Tier::tuned, Tier::vendor};
constexpr size_t kSmallestWorkspace = size_t{64} << 10;

std::string policy_text(const TierPolicy& policy) {
  if (!policy.tier) return "";
  return std::string(" (forced tier ") + to_string(*policy.tier) + (policy.or_lower ? "+)" : ")");
}

}  // namespace

const char* to_string(Tier tier) {
  switch (tier) {
    case Tier::reference: return "reference";
    case Tier::portable: return "portable";
    case Tier::tuned: return "tuned";
    case Tier::vendor: return "vendor";
  }
  return "unknown tier";
}

TierPolicy parse_tier(std::string_view text) {
  if (text.empty() || text == "auto") return {};
  TierPolicy policy;
  std::string_view name = text;
  if (name.back() == '+') {
    policy.or_lower = true;
    name.remove_suffix(1);
  }
  for (const Tier tier : kTiers) {
    if (name == to_string(tier)) policy.tier = tier;
  }
  if (!policy.tier) {
    throw Error(ErrorCode::invalid_argument,
                "tier: \"" + std::string(text) +
                    "\"; allowed: auto, reference, portable, tuned, vendor, each but auto with an optional \"+\"");
  }
  return policy;
}

const TierPolicy& default_tier() {
  static const TierPolicy policy = [] {
    const char* const text = std::getenv("MONOTILE_TIER");
    try {
      return parse_tier(text != nullptr ? text : "");
    } catch (const Error& error) {
      throw Error(error.code(), std::string("MONOTILE_TIER: ") + error.what());
    }
  }();
  return policy;
}

Context::Context(Device device) : own_(std::in_place, device), stream_(&*own_) {}

Context::Context(Stream& stream) : stream_(&stream) {}

Context::~Context() = default;

void* Context::workspace(size_t bytes) {
  if (bytes <= workspace_.size()) return workspace_.data();
  if (Graph::supported(device()) && driver_of(device().kind).is_capturing(device().index, stream_->native())) {
    throw Error(ErrorCode::invalid_argument,
                "Context: the workspace must grow from " + std::to_string(workspace_.size()) + " to " +
                    std::to_string(bytes) +
                    " bytes in the middle of a graph capture; call reserve_workspace before it");
  }
  // Growing by half at least keeps a slowly rising demand from allocating each time. The old one stays: a captured graph
  // may hold its address. All of them together stay under three times the largest.
  Buffer larger(*stream_, std::max({bytes, workspace_.size() + workspace_.size() / 2, kSmallestWorkspace}));
  if (workspace_.size() != 0) outgrown_.push_back(std::move(workspace_));
  workspace_ = std::move(larger);
  return workspace_.data();
}

void Context::note_use(const char* op, const char* implementation, Tier tier) {
  const auto same = [](const char* a, const char* b) { return a == b || std::strcmp(a, b) == 0; };
  for (Use& use : uses_) {
    if (use.tier == tier && same(use.op, op) && same(use.implementation, implementation)) {
      ++use.calls;
      return;
    }
  }
  uses_.push_back({op, implementation, tier, 1});
}

void detail::throw_no_workspace(const char* op, size_t bytes) {
  throw Error(ErrorCode::invalid_argument, std::string(op) + ": workspace: null; this plan needs " + std::to_string(bytes) +
                                               " bytes (Plan::workspace_bytes)");
}

void detail::throw_wrong_stream(const char* op, Device planned, Device given) {
  throw Error(ErrorCode::invalid_argument, std::string(op) + ": stream: of " + to_string(given) + "; the plan is for " + to_string(planned));
}

void detail::throw_no_implementation(const char* op, const DeviceInfo& device, const TierPolicy& policy,
                                     const std::string& reasons) {
  throw Error(ErrorCode::unsupported, std::string(op) + ": no implementation for this call on " +
                                          to_string(device.device) + policy_text(policy) +
                                          (reasons.empty() ? "; none exists" : ": " + reasons));
}

}  // namespace monotile
