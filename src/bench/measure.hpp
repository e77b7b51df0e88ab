#pragma once
// The measuring core: how long a call takes on the device and how long it takes to issue, with every known way to fool
// oneself turned into a Fault.

#include <functional>
#include <string>
#include <vector>

#include "bench/timeline.hpp"

namespace monotile::bench {

struct Spread {
  double median = 0, p10 = 0, p90 = 0;
  int n = 0;
};
/// Of a copy of `values`; all zero if there are none.
Spread spread_of(std::vector<double> values);

/// What is timed: one call on one of several sets of buffers.
struct Subject {
  std::function<void(int set)> launch;
  int sets = 1;
  size_t set_bytes = 0;  ///< memory that one call touches
};

enum class Cache { cold, hot };

struct Method {
  Cache cache = Cache::cold;
  int warmups = 10;
  int samples = 100;
  double budget_us = 150e3;  ///< of all samples together; at least five are taken
  double gap_us = 0;         ///< pause before each sample, so that a power-limited chip cools down
  double spin_us = 30;       ///< head start of the host
  double node_us = 20;       ///< shorter calls are timed `nodes` in a row
  int nodes = 50;
  bool record = true;  ///< false: events around each call
};

struct Timing {
  Spread us;                          ///< device time of one call
  double first_call_us = 0;           ///< host time until the first call had ended: loading, compiling, tuning
  std::string method;                 ///< "graph of 50, cold", "events, cold", "clock, hot", ...
  std::vector<LaunchShape> launches;  ///< of one call, where it could be recorded
};

/// Throws Fault. Asynchronous devices: one replay of recorded calls per sample (events around a single call where it
/// cannot be recorded), queued behind a spin and, for cold figures, behind an eviction of the cache; buffer sets rotate.
Timing time_device(Timeline& timeline, const Subject& subject, const Method& method);

/// Sets that a cold measurement needs of calls that touch `touched_bytes` of the `set_bytes` that a set takes, within `budget_bytes` of memory.
int cold_sets(const Timeline& timeline, size_t touched_bytes, size_t set_bytes, size_t budget_bytes,
              const Method& method = {});

struct HostCost {
  Spread call, bare, difference;  ///< microseconds; the difference is taken pairwise
};
/// The time to issue `call`, in batches interleaved with batches of `bare` whose order changes.
HostCost time_host(Timeline& timeline, const std::function<void()>& call, const std::function<void()>& bare);

}  // namespace monotile::bench
