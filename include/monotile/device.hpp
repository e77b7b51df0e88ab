#pragma once
// Devices, streams, events, memory. `Stream` orders work; the CPU stream runs each call to its end before it returns.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "monotile/error.hpp"

namespace monotile {

/// Values are part of the C ABI (and follow no other library's numbering).
enum class DeviceKind : uint8_t { cpu = 1, cuda = 2, hip = 3, opencl = 4, emulated = 5 };

/// A device by kind and index. For `emulated` the index is the wave width: 32 or 64. Memory of `emulated` is host memory.
struct Device {
  DeviceKind kind = DeviceKind::cpu;
  int16_t index = 0;
  friend bool operator==(const Device&, const Device&) = default;
  bool host_memory() const { return kind == DeviceKind::cpu || kind == DeviceKind::emulated; }
};

/// "cpu", "cuda:0", "emulated:32", ...
std::string to_string(Device device);
/// Parses what `to_string` prints ("cuda" means "cuda:0"). Throws Error(invalid_argument) naming the text.
Device parse_device(std::string_view text);

/// What was found out about a device when the process started.
struct DeviceInfo {
  Device device;
  std::string name;           ///< marketing name or CPU model
  std::string architecture;   ///< "sm_90a", "avx2", ...
  std::string path;           ///< code path that will be used: "cuda_sm90", "cuda_sm80", "cpu_amx", "cpu_avx2", "emulated32"
  int units = 0;              ///< multiprocessors or CPU threads
  int wave = 1;               ///< lanes that run in lockstep
  size_t memory_bytes = 0;    ///< total memory of the device
  size_t l2_bytes = 0;
  size_t shared_bytes = 0;    ///< most shared memory of one program
  std::string driver;         ///< driver and runtime versions, or empty
};

/// All usable devices: the CPU first, then GPUs, then emulated ones.
const std::vector<DeviceInfo>& devices();
/// Throws Error(not_found) with what is present if `device` is not usable.
const DeviceInfo& device_info(Device device);
/// One line per backend that is absent, saying why ("cuda: no driver (...); the CPU is used").
const std::vector<std::string>& absent_backends();

/// An in-order queue of work on one device. Movable, owns its native handle only if it made it.
class Stream {
 public:
  /// A new stream on `device`.
  explicit Stream(Device device);
  /// Wraps a caller's native stream (cudaStream_t). Not owned.
  Stream(Device device, void* native);
  ~Stream();
  Stream(Stream&& other) noexcept;
  Stream& operator=(Stream&& other) noexcept;
  Stream(const Stream&) = delete;

  Device device() const { return device_; }
  void* native() const { return native_; }
  /// Waits until all work queued so far is done. Throws Error(device_error) if any of it failed.
  void synchronize();

 private:
  Device device_;
  void* native_ = nullptr;
  bool owned_ = false;
};

/// A point in a stream's work; elapsed() needs both events recorded and done.
class Event {
 public:
  explicit Event(Device device);
  ~Event();
  Event(Event&&) noexcept;
  Event(const Event&) = delete;
  void record(Stream& stream);
  void synchronize();
  /// Milliseconds from `start` to `end`.
  static double elapsed_ms(const Event& start, const Event& end);

 private:
  Device device_;
  void* native_ = nullptr;
  int64_t host_ns_ = 0;
};

/// Work recorded from a stream, replayed with one call (CUDA graphs; on CPU and emulated devices capture is refused).
class Graph {
 public:
  Graph() = default;
  ~Graph();
  Graph(Graph&&) noexcept;
  Graph& operator=(Graph&&) noexcept;
  Graph(const Graph&) = delete;
  static bool supported(Device device);
  /// Everything queued on `stream` between the two calls is recorded and not run.
  static void begin_capture(Stream& stream);
  static Graph end_capture(Stream& stream);
  void launch(Stream& stream);

 private:
  void* exec_ = nullptr;
};

/// Owning device memory, 256-byte aligned. With a stream it comes from that device's stream-ordered pool.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Device device, size_t bytes);
  Buffer(Stream& stream, size_t bytes);
  ~Buffer();
  Buffer(Buffer&&) noexcept;
  Buffer& operator=(Buffer&&) noexcept;
  Buffer(const Buffer&) = delete;
  void* data() const { return data_; }
  size_t size() const { return bytes_; }
  Device device() const { return device_; }
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  Device device_;
  void* data_ = nullptr;
  size_t bytes_ = 0;
  void* stream_ = nullptr;
  bool pooled_ = false;
};

/// Copies in stream order. Host memory that is pageable makes the call wait for the copy.
void copy_to_device(Stream& stream, void* device_destination, const void* host_source, size_t bytes);
void copy_to_host(Stream& stream, void* host_destination, const void* device_source, size_t bytes);
void copy_on_device(Stream& stream, void* destination, const void* source, size_t bytes);
void fill_bytes(Stream& stream, void* destination, int value, size_t bytes);

/// Number of threads of the CPU device's pool (the caller counts as one). Default: hardware threads, at most 64.
int cpu_threads();
/// Resizes the pool; call while no work runs. Throws Error(invalid_argument) unless 1 <= n <= 1024.
void set_cpu_threads(int n);

}  // namespace monotile
