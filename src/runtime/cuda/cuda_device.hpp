#pragma once
// All that the runtime asks of CUDA, without CUDA's types. Defined in src/runtime/cuda (CUDA builds) or
// src/runtime/no_cuda (a stub that finds no device). Every function but `find` and the noexcept ones throws
// Error(device_error) naming the call and CUDA's text.

#include <cstddef>
#include <string>
#include <vector>

#include "monotile/device.hpp"

namespace monotile::cuda {

struct Found {
  std::vector<DeviceInfo> devices;
  std::vector<std::string> absent;  ///< one line per thing that is missing
};
/// Never throws for a missing driver or device.
Found find();

void* create_stream(int device);
void destroy_stream(int device, void* stream) noexcept;
void synchronize_stream(int device, void* stream);

void* create_event(int device);
void destroy_event(int device, void* event) noexcept;
void record_event(int device, void* event, void* stream);
void synchronize_event(int device, void* event);
double elapsed_ms(const void* start, const void* end);

bool is_capturing(int device, void* stream);
void begin_capture(int device, void* stream);
/// An executable graph (cudaGraphExec_t).
void* end_capture(int device, void* stream);
void launch_graph(int device, void* executable, void* stream);
void destroy_graph(void* executable) noexcept;

void* allocate(int device, size_t bytes);
void release(int device, void* data) noexcept;
/// From a pool of our own, in stream order; what is released stays in the pool for later requests.
void* allocate_in_order(int device, void* stream, size_t bytes);
void release_in_order(int device, void* stream, void* data) noexcept;

enum class Direction { to_device, to_host, on_device };
void copy(int device, void* stream, void* destination, const void* source, size_t bytes, Direction direction);
void fill(int device, void* stream, void* destination, int value, size_t bytes);

}  // namespace monotile::cuda
