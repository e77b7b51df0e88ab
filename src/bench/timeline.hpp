#pragma once
// What the measuring core needs of a machine: a queue of work, marks in it, recording and replay. One implementation
// runs on the host's clock, one on CUDA streams, one (in the tests) on a simulated device with a clock of its own.

#include <cstddef>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "monotile/device.hpp"

namespace monotile::bench {

/// Ways in which a measurement can be wrong. A fault is never averaged away: the row is refused.
enum class FaultKind {
  idle_device,     ///< the device waited for the host: host cost would count as device time
  wrong_stream,    ///< the call queued nothing on the timed stream
  warm_cache,      ///< "cold" was asked for, but the buffers fit in the cache
  one_off_cost,    ///< something was compiled or loaded inside the timed region
  wrong_output,    ///< the timed output is not the reference's
  constant_input,  ///< an input holds one value only
  under_floor,     ///< faster than the device's specified limits
};
const char* to_string(FaultKind kind);

class Fault : public std::runtime_error {
 public:
  Fault(FaultKind kind, const std::string& text)
      : std::runtime_error(std::string(to_string(kind)) + ": " + text), kind_(kind) {}
  FaultKind kind() const { return kind_; }

 private:
  FaultKind kind_;
};

/// One launch as it was recorded: what a bare launch of an empty kernel must copy to be comparable.
struct LaunchShape {
  unsigned grid = 1, block = 1;
  size_t shared_bytes = 0, param_bytes = 0;
};

/// Recorded work, replayed with one call.
class Recording {
 public:
  virtual ~Recording() = default;
  virtual void replay() = 0;
  std::vector<LaunchShape> launches;  ///< kernels, copies and fills, in order
};

class Timeline {
 public:
  virtual ~Timeline() = default;
  /// False where each call has ended when it returns (CPU): marks, spins and recordings are not used then.
  virtual bool asynchronous() const = 0;
  /// The host's clock.
  virtual double now_us() = 0;
  virtual void wait() = 0;
  virtual void sleep(double us) = 0;
  /// Keeps the device busy, so that what is queued behind does not wait for the host.
  virtual void spin(double us) = 0;
  /// Puts everything out of the last-level cache.
  virtual void flush_cache() = 0;
  virtual size_t cache_bytes() const = 0;
  /// Marks 0 and 1 are reused for each sample.
  virtual void mark(int which) = 0;
  virtual bool passed(int which) = 0;
  /// Waits for both.
  virtual double between_marks_us() = 0;
  /// Null if what `issue` does cannot be recorded.
  virtual std::unique_ptr<Recording> record(const std::function<void()>& issue) = 0;
  /// Queues an empty kernel of this shape.
  virtual void bare_launch(const LaunchShape& shape) = 0;
};

/// The host's clock, for devices with host memory.
std::unique_ptr<Timeline> host_timeline();
/// True where calls are timed one by one on the host's clock: host memory and OpenCL.
bool by_host_clock(Device device);
/// Of `stream`, which must outlive it. Defined in cuda/ or, as a refusal, in no_cuda/.
std::unique_ptr<Timeline> cuda_timeline(Stream& stream);
std::unique_ptr<Timeline> timeline_of(Stream& stream);

}  // namespace monotile::bench
