#pragma once
// What the runtime asks of a machine whose memory is not the host's: one table per kind of device. A build without a backend has a table with `find` alone,
// which says so (src/runtime/no_<backend>). `device` is the index within the kind. Every function but `find` and the noexcept ones throws
// Error(device_error) naming the call and the driver's text.

#include <cstddef>
#include <string>
#include <vector>

#include "monotile/device.hpp"
#include "runtime/offload.hpp"

namespace monotile {

struct FoundDevices {
  std::vector<DeviceInfo> devices;
  std::vector<std::string> absent;  ///< one line per thing that is missing, and what to install
};

enum class Direction { to_device, to_host, on_device };

struct Driver {
  /// Never throws for a missing driver or device.
  FoundDevices (*find)();

  void* (*create_stream)(int device);
  void (*destroy_stream)(int device, void* stream) noexcept;
  void (*synchronize_stream)(int device, void* stream);

  void* (*create_event)(int device);
  void (*destroy_event)(int device, void* event) noexcept;
  void (*record_event)(int device, void* event, void* stream);
  void (*synchronize_event)(int device, void* event);
  double (*elapsed_ms)(const void* start, const void* end);

  void* (*allocate)(int device, size_t bytes);
  void (*release)(int device, void* data) noexcept;
  /// From a pool, in stream order; what is released stays in the pool for later requests.
  void* (*allocate_in_order)(int device, void* stream, size_t bytes);
  void (*release_in_order)(int device, void* stream, void* data) noexcept;

  void (*copy)(int device, void* stream, void* destination, const void* source, size_t bytes, Direction direction);
  void (*fill)(int device, void* stream, void* destination, int value, size_t bytes);

  /// Kernels of embedded code objects; null where kernels are linked in.
  void (*launch)(int device, void* stream, offload::Kernel& kernel, const offload::Launch& launch) = nullptr;

  /// Recorded work; null where the machine has none.
  bool (*is_capturing)(int device, void* stream) = nullptr;
  void (*begin_capture)(int device, void* stream) = nullptr;
  void* (*end_capture)(int device, void* stream) = nullptr;
  void (*launch_graph)(int device, void* executable, void* stream) = nullptr;
  void (*destroy_graph)(void* executable) noexcept = nullptr;
};

extern const Driver cuda_driver;    ///< src/runtime/cuda or src/runtime/no_cuda
extern const Driver hip_driver;     ///< src/runtime/hip or src/runtime/no_hip
extern const Driver opencl_driver;  ///< src/runtime/opencl or src/runtime/no_opencl

/// The driver of a kind of device. Not for kinds whose memory is the host's.
const Driver& driver_of(DeviceKind kind);

}  // namespace monotile
