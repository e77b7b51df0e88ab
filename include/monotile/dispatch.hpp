#pragma once
// Choosing an implementation: tiers, plans, and the context of the one-line calls.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "monotile/device.hpp"
#include "monotile/tensor.hpp"

namespace monotile {

/// Kinds of implementation, from the plainest to the most special.
enum class Tier : uint8_t { reference = 0, portable = 1, tuned = 2, vendor = 3 };
const char* to_string(Tier tier);

/// Which tiers may be chosen. Default: all, the lowest cost wins.
struct TierPolicy {
  std::optional<Tier> tier;   ///< forced tier
  bool or_lower = false;      ///< "portable+": lower tiers may stand in where the forced one is absent
  bool allows(Tier candidate) const { return !tier || candidate == *tier || (or_lower && candidate < *tier); }
};
/// "reference", "portable", "tuned", "vendor", each with an optional "+"; "" and "auto" force nothing.
/// Throws Error(invalid_argument) for other text.
TierPolicy parse_tier(std::string_view text);
/// What MONOTILE_TIER says, read once per process.
const TierPolicy& default_tier();

template <class Args>
struct Implementation;

namespace detail {
[[noreturn]] void throw_no_workspace(const char* op, size_t bytes);
[[noreturn]] void throw_wrong_stream(const char* op, Device planned, Device given);
}  // namespace detail

/// A chosen implementation with everything that could be decided before the data is there. Trivially copyable; reusable
/// for any arguments of the same dtypes, column counts and layout classes whose sizes stay within those planned for.
template <class Args>
struct Plan {
  const Implementation<Args>* implementation = nullptr;
  const DeviceInfo* device = nullptr;
  size_t workspace_bytes = 0;
  const void* kernel = nullptr;       ///< the implementation's own: an entry of its kernel table
  std::array<int64_t, 8> config{};    ///< the implementation's own: tile sizes, threads, splits

  /// Queues the work; allocates nothing and waits for nothing. `workspace` holds workspace_bytes bytes on the device.
  /// Throws for a missing workspace and for a stream of another device.
  void run(Stream& stream, const Args& args, void* workspace = nullptr) const {
    if (workspace == nullptr && workspace_bytes != 0) detail::throw_no_workspace(Args::op_name, workspace_bytes);
    if (stream.device() != device->device) detail::throw_wrong_stream(Args::op_name, device->device, stream.device());
    implementation->run(*this, stream, args, workspace);
  }
};

/// One entry of an operator's ordered list.
template <class Args>
struct Implementation {
  const char* name;
  Tier tier;
  /// nullptr if it can do `args` on `device`, else why not (static text).
  const char* (*supports)(const Args& args, const DeviceInfo& device);
  /// Estimated microseconds; equal costs are broken by list order.
  double (*cost)(const Args& args, const DeviceInfo& device);
  /// Fills workspace_bytes, kernel and config.
  void (*plan)(const Args& args, const DeviceInfo& device, Plan<Args>& plan);
  void (*run)(const Plan<Args>& plan, Stream& stream, const Args& args, void* workspace);
};

/// One row of `monotile ops`: what was considered for an operator on a device, and why it was or was not chosen.
struct Choice {
  std::string implementation;
  Tier tier = Tier::reference;
  bool supported = false;
  bool chosen = false;
  double cost = 0;
  std::string why;
};

/// Checks arguments (throws Error), then picks the implementation. Specialised by each operator's source file.
template <class Args>
Plan<Args> plan(Device device, const Args& args, const TierPolicy& policy = default_tier());

/// Device, stream, tier policy and workspace of the one-line calls. One per thread; not thread-safe itself.
class Context {
 public:
  explicit Context(Device device);
  /// Uses the caller's stream, which must outlive the context.
  explicit Context(Stream& stream);
  ~Context();
  Context(const Context&) = delete;

  Device device() const { return stream_->device(); }
  Stream& stream() { return *stream_; }
  TierPolicy tier = default_tier();
  /// At least `bytes` of device memory, at one address until a larger request, valid as long as the context. Allocates on growth only.
  void* workspace(size_t bytes);
  /// Makes growth in the middle of a capture unnecessary.
  void reserve_workspace(size_t bytes) { (void)workspace(bytes); }

  /// If set, the name of each implementation that ran is counted here (for tables such as the demo's).
  struct Use {
    const char* op;
    const char* implementation;
    Tier tier;
    int64_t calls;
  };
  bool count_uses = false;
  const std::vector<Use>& uses() const { return uses_; }
  void note_use(const char* op, const char* implementation, Tier tier);

 private:
  std::optional<Stream> own_;
  Stream* stream_;
  Buffer workspace_;
  std::vector<Buffer> outgrown_;
  std::vector<Use> uses_;
};

/// Plans and runs `args` on the context's stream.
template <class Args>
void run(Context& context, const Args& args) {
  const Plan<Args> chosen = plan(context.device(), args, context.tier);
  if (context.count_uses) context.note_use(Args::op_name, chosen.implementation->name, chosen.implementation->tier);
  chosen.run(context.stream(), args, chosen.workspace_bytes != 0 ? context.workspace(chosen.workspace_bytes) : nullptr);
}

/// An operator as `monotile ops` and the self-test see it.
struct OperatorInfo {
  const char* name;
  const char* family;
  /// The implementation list judged on a typical call of this operator.
  std::vector<Choice> (*explain)(const DeviceInfo& device, const TierPolicy& policy);
  /// Runs a small case on `device` against the reference; empty if right, else what was wrong.
  std::string (*self_test)(const DeviceInfo& device);
};
/// All operators, in the order of operators' documentation.
const std::vector<OperatorInfo>& operators();

}  // namespace monotile
