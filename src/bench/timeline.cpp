#include "bench/timeline.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

namespace monotile::bench {
namespace {

/// Calls have ended when they return, so only the clock and the cache matter.
class HostTimeline : public Timeline {
 public:
  bool asynchronous() const override { return false; }
  double now_us() override {
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }
  void wait() override {}
  void sleep(double us) override { std::this_thread::sleep_for(std::chrono::duration<double, std::micro>(us)); }
  void spin(double) override {}
  void flush_cache() override {
    if (waste_.empty()) waste_.resize(2 * cache_bytes());
    std::memset(waste_.data(), ++value_, waste_.size());
  }
  size_t cache_bytes() const override {
    // 0 in some virtual machines, and the sum of a whole host in others: no core has more than this to itself.
    constexpr size_t kMostPerCore = size_t{32} << 20;
    const long bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
    const size_t most = kMostPerCore * static_cast<size_t>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
    return bytes > 0 ? std::min(static_cast<size_t>(bytes), most) : kMostPerCore;
  }
  void mark(int) override {}
  bool passed(int) override { return true; }
  double between_marks_us() override { return 0; }
  std::unique_ptr<Recording> record(const std::function<void()>&) override { return nullptr; }
  void bare_launch(const LaunchShape&) override {}

 private:
  std::vector<unsigned char> waste_;
  unsigned char value_ = 0;
};

/// OpenCL: drivers differ too much in what their events measure, so the host's clock is read when the queue is empty. What a launch costs counts.
class WaitingTimeline : public HostTimeline {
 public:
  explicit WaitingTimeline(Stream& stream) : stream_(stream) {}
  double now_us() override {
    stream_.synchronize();
    return HostTimeline::now_us();
  }
  void wait() override { stream_.synchronize(); }

 private:
  Stream& stream_;
};

}  // namespace

const char* to_string(FaultKind kind) {
  switch (kind) {
    case FaultKind::idle_device: return "idle device";
    case FaultKind::wrong_stream: return "wrong stream";
    case FaultKind::warm_cache: return "warm cache";
    case FaultKind::one_off_cost: return "one-off cost";
    case FaultKind::wrong_output: return "wrong output";
    case FaultKind::constant_input: return "constant input";
    case FaultKind::under_floor: return "under the floor";
  }
  return "fault";
}

std::unique_ptr<Timeline> host_timeline() { return std::make_unique<HostTimeline>(); }

bool by_host_clock(Device device) { return device.host_memory() || device.kind == DeviceKind::opencl; }

std::unique_ptr<Timeline> timeline_of(Stream& stream) {
  if (stream.device().host_memory()) return host_timeline();
  if (by_host_clock(stream.device())) return std::make_unique<WaitingTimeline>(stream);
  return cuda_timeline(stream);
}

}  // namespace monotile::bench
