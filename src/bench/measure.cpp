#include "bench/measure.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace monotile::bench {
namespace {

constexpr int kFewestSamples = 5;
constexpr int kFewestNodes = 25;  ///< short calls in a row: what a replay costs itself is shared by as many
constexpr double kSlow = 10.0;    ///< a first sample this many times the p90 holds a cost that the others do not

const char* word(Cache cache) { return cache == Cache::cold ? "cold" : "hot"; }

/// Cold means: between two uses of a set, at least twice the cache passes by, or the cache is emptied and no set is used
/// twice before the next sample.
bool is_cold(const Timeline& timeline, const Subject& subject, int calls_per_sample) {
  if (static_cast<size_t>(subject.sets) * subject.set_bytes >= 2 * timeline.cache_bytes()) return true;
  return timeline.asynchronous() && calls_per_sample <= subject.sets;
}

[[noreturn]] void refuse_warm(const Timeline& timeline, const Subject& subject) {
  throw Fault(FaultKind::warm_cache,
              fmt::format("{} sets of {} bytes stay in a cache of {} bytes, but the figure is to be cold", subject.sets,
                          subject.set_bytes, timeline.cache_bytes()));
}

int samples_within(const Method& method, double sample_us) {
  return std::clamp(static_cast<int>(method.budget_us / std::max(sample_us, 1e-3)), kFewestSamples,
                    std::max(kFewestSamples, method.samples));
}

/// Takes all samples; if the first one alone is slow, takes them again, and refuses if that repeats.
template <class Sample>
Spread steady_samples(int count, const Sample& sample) {
  for (int attempt = 0;; ++attempt) {
    std::vector<double> us;
    for (int i = 0; i < count; ++i) us.push_back(sample(i));
    const double first = us.front();
    const Spread rest = spread_of({us.begin() + 1, us.end()});
    if (first <= kSlow * rest.p90) return spread_of(us);
    if (attempt == 2) {
      throw Fault(
          FaultKind::one_off_cost,
          fmt::format("the first timed call took {:.1f} us, the others {:.1f}, three times in a row: something is "
                      "compiled or loaded inside the timed region",
                      first, rest.median));
    }
  }
}

Timing time_synchronous(Timeline& timeline, const Subject& subject, const Method& method, Timing timing,
                        double call_us) {
  const bool cold = method.cache == Cache::cold;
  const int calls =
      std::clamp(static_cast<int>(std::ceil(20.0 / std::max(call_us, 1e-3))), 1, 1000);  // the clock's resolution
  // Small calls whose buffers all stay in the cache: it is emptied before each sample, which then uses no set twice.
  const bool flush = cold && !is_cold(timeline, subject, 1);
  if (flush && calls > subject.sets) refuse_warm(timeline, subject);
  double flush_us = 0;
  if (flush) {
    timeline.flush_cache();  // the first one also takes the memory for it
    const double begin = timeline.now_us();
    timeline.flush_cache();
    flush_us = timeline.now_us() - begin;
  }
  int set = 0;
  timing.us = steady_samples(samples_within(method, calls * call_us + flush_us + method.gap_us), [&](int) {
    if (method.gap_us > 0) timeline.sleep(method.gap_us);
    if (flush) timeline.flush_cache();
    const double begin = timeline.now_us();
    for (int c = 0; c < calls; ++c) {
      subject.launch(set);
      set = cold ? (set + 1) % subject.sets : 0;
    }
    return (timeline.now_us() - begin) / calls;
  });
  timing.method = fmt::format("clock, {}{}", word(method.cache), flush ? ", flushed" : "");
  return timing;
}

/// Device time between two marks around `issue`, which must be queued before the device comes to the first mark.
template <class Issue>
double queued_us(Timeline& timeline, const Method& method, const Issue& issue) {
  double spin_us = method.spin_us;
  for (int attempt = 0; attempt < 6; ++attempt, spin_us *= spin_us < 1.0 ? 1.0 : 3.0) {
    timeline.wait();
    if (method.gap_us > 0) timeline.sleep(method.gap_us);
    if (method.cache == Cache::cold) timeline.flush_cache();
    timeline.spin(spin_us);
    timeline.mark(0);
    issue();
    const bool ahead = !timeline.passed(0);
    timeline.mark(1);
    const double us = timeline.between_marks_us();
    if (ahead) return us;
  }
  throw Fault(FaultKind::idle_device,
              "the device had come to the start mark before the call was queued: it waited for the host, whose time "
              "would count");
}

Timing time_asynchronous(Timeline& timeline, const Subject& subject, const Method& method, Timing timing,
                         double call_us) {
  const bool cold = method.cache == Cache::cold;
  int nodes = call_us < method.node_us ? method.nodes : std::clamp(static_cast<int>(1000.0 / call_us), 1, method.nodes);
  if (cold && !is_cold(timeline, subject, nodes)) {
    // The cache is emptied before each sample, in which no set is used twice.
    if (call_us < method.node_us && subject.sets < kFewestNodes) refuse_warm(timeline, subject);
    nodes = subject.sets;
  }
  const auto set_of = [&](int call) { return cold ? call % subject.sets : 0; };
  std::unique_ptr<Recording> recording;
  if (method.record) {
    recording = timeline.record([&] {
      for (int c = 0; c < nodes; ++c) subject.launch(set_of(c));
    });
  }
  if (recording == nullptr) {
    timing.us = steady_samples(samples_within(method, call_us + method.gap_us),
                               [&](int i) { return queued_us(timeline, method, [&] { subject.launch(set_of(i)); }); });
    timing.method = fmt::format("events, {}", word(method.cache));
    return timing;
  }
  if (recording->launches.size() < static_cast<size_t>(nodes)) {
    throw Fault(
        FaultKind::wrong_stream,
        fmt::format("{} calls queued {} launches on the timed stream: the work went elsewhere, or there was none",
                    nodes, recording->launches.size()));
  }
  recording->replay();
  timing.us = steady_samples(samples_within(method, nodes * call_us + method.gap_us),
                             [&](int) { return queued_us(timeline, method, [&] { recording->replay(); }) / nodes; });
  timing.method = fmt::format("graph of {}, {}", nodes, word(method.cache));
  const size_t per_call = recording->launches.size() / static_cast<size_t>(nodes);
  timing.launches.assign(recording->launches.begin(),
                         recording->launches.begin() + static_cast<std::ptrdiff_t>(per_call));
  return timing;
}

}  // namespace

Spread spread_of(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const auto at = [&](double share) {
    return values[static_cast<size_t>(std::lround(share * static_cast<double>(values.size() - 1)))];
  };
  const size_t n = values.size();
  return {n % 2 == 1 ? values[n / 2] : 0.5 * (values[n / 2 - 1] + values[n / 2]), at(0.1), at(0.9),
          static_cast<int>(n)};
}

int cold_sets(const Timeline& timeline, size_t touched_bytes, size_t set_bytes, size_t budget_bytes,
              const Method& method) {
  const size_t wanted = 4 * timeline.cache_bytes() / std::max<size_t>(1, touched_bytes) + 1;
  const size_t most = static_cast<size_t>(timeline.asynchronous() ? method.nodes : 4096);
  const size_t affordable = std::max<size_t>(1, budget_bytes / std::max<size_t>(1, set_bytes));
  return static_cast<int>(std::clamp<size_t>(wanted, 2, std::max<size_t>(2, std::min(most, affordable))));
}

Timing time_device(Timeline& timeline, const Subject& subject, const Method& method) {
  Timing timing;
  timeline.wait();
  const double begin = timeline.now_us();
  subject.launch(0);
  timeline.wait();
  timing.first_call_us = timeline.now_us() - begin;

  // Warm-ups also estimate: the best of the later ones, since the first may load code for other sets.
  double call_us = timing.first_call_us, spent = timing.first_call_us;
  for (int i = 1; i < std::max(method.warmups, 2) && (i < 2 || spent < 2 * method.budget_us); ++i) {
    const double start = timeline.now_us();
    subject.launch(i % subject.sets);
    timeline.wait();
    const double us = timeline.now_us() - start;
    call_us = std::min(call_us, us);
    spent += us;
  }
  return timeline.asynchronous() ? time_asynchronous(timeline, subject, method, std::move(timing), call_us)
                                 : time_synchronous(timeline, subject, method, std::move(timing), call_us);
}

HostCost time_host(Timeline& timeline, const std::function<void()>& call, const std::function<void()>& bare) {
  constexpr int kPairs = 60, kDropped = 10, kCalls = 100;
  const auto batch = [&](const std::function<void()>& f) {
    timeline.wait();
    const double begin = timeline.now_us();
    for (int i = 0; i < kCalls; ++i) f();
    return (timeline.now_us() - begin) / kCalls;
  };
  std::vector<double> calls, bares, differences;
  for (int p = 0; p < kPairs; ++p) {
    double a = 0, b = 0;
    if (p % 2 == 0) {
      a = batch(call);
      b = batch(bare);
    } else {
      b = batch(bare);
      a = batch(call);
    }
    if (p < kDropped) continue;
    calls.push_back(a);
    bares.push_back(b);
    differences.push_back(a - b);
  }
  timeline.wait();
  return {spread_of(calls), spread_of(bares), spread_of(differences)};
}

}  // namespace monotile::bench
