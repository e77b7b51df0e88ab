// Streams, events, graphs and copies. On host memory each call has done its work when it returns, so ordering is free.

#include <chrono>
#include <cstring>
#include <utility>

#include "monotile/device.hpp"
#include "runtime/driver.hpp"

namespace monotile {
namespace {

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

[[noreturn]] void refuse(const char* call, Device device, const char* why) {
  throw Error(ErrorCode::invalid_argument, std::string(call) + ": stream on " + to_string(device) + ": " + why);
}

void check_pointers(const char* call, const void* destination, const void* source, size_t bytes) {
  if (bytes != 0 && (destination == nullptr || source == nullptr)) {
    throw Error(ErrorCode::invalid_argument,
                std::string(call) + ": " + (destination == nullptr ? "destination" : "source") + ": null with " +
                    std::to_string(bytes) + " bytes to copy; allowed: null only for 0 bytes");
  }
}

void copy(const char* call, Stream& stream, void* destination, const void* source, size_t bytes, Direction direction) {
  check_pointers(call, destination, source, bytes);
  if (bytes == 0) return;
  if (stream.device().host_memory()) {
    std::memmove(destination, source, bytes);
  } else {
    driver_of(stream.device().kind).copy(stream.device().index, stream.native(), destination, source, bytes, direction);
  }
}

/// What a Graph holds.
struct Recorded {
  DeviceKind kind;
  void* executable;
};

}  // namespace

Stream::Stream(Device device) : device_(device_info(device).device) {
  if (device_.host_memory()) return;
  native_ = driver_of(device_.kind).create_stream(device_.index);
  owned_ = true;
}

Stream::Stream(Device device, void* native) : device_(device_info(device).device), native_(native) {
  if (device_.host_memory() && native != nullptr) refuse("Stream", device_, "a native handle was given; allowed: null");
}

Stream::~Stream() {
  if (owned_) driver_of(device_.kind).destroy_stream(device_.index, native_);
}

Stream::Stream(Stream&& other) noexcept
    : device_(other.device_),
      native_(std::exchange(other.native_, nullptr)),
      owned_(std::exchange(other.owned_, false)) {}

Stream& Stream::operator=(Stream&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(native_, other.native_);
  std::swap(owned_, other.owned_);
  return *this;
}

void Stream::synchronize() {
  if (!device_.host_memory()) driver_of(device_.kind).synchronize_stream(device_.index, native_);
}

Event::Event(Device device) : device_(device_info(device).device) {
  if (!device_.host_memory()) native_ = driver_of(device_.kind).create_event(device_.index);
}

Event::~Event() {
  if (native_ != nullptr) driver_of(device_.kind).destroy_event(device_.index, native_);
}

Event::Event(Event&& other) noexcept
    : device_(other.device_), native_(std::exchange(other.native_, nullptr)), host_ns_(other.host_ns_) {}

void Event::record(Stream& stream) {
  if (stream.device() != device_)
    refuse("Event::record", stream.device(), ("the event is on " + to_string(device_)).c_str());
  if (native_ != nullptr) {
    driver_of(device_.kind).record_event(device_.index, native_, stream.native());
  }
  host_ns_ = now_ns();
}

void Event::synchronize() {
  if (native_ != nullptr && host_ns_ != 0) driver_of(device_.kind).synchronize_event(device_.index, native_);
}

double Event::elapsed_ms(const Event& start, const Event& end) {
  if (start.device_ != end.device_) refuse("Event::elapsed_ms", end.device_, "the events are on different devices");
  if (start.host_ns_ == 0 || end.host_ns_ == 0) refuse("Event::elapsed_ms", end.device_, "an event was never recorded");
  if (start.native_ != nullptr) return driver_of(start.device_.kind).elapsed_ms(start.native_, end.native_);
  return static_cast<double>(end.host_ns_ - start.host_ns_) * 1e-6;
}

Graph::~Graph() {
  if (exec_ == nullptr) return;
  const Recorded* const recorded = static_cast<Recorded*>(exec_);
  driver_of(recorded->kind).destroy_graph(recorded->executable);
  delete recorded;
}

Graph::Graph(Graph&& other) noexcept : exec_(std::exchange(other.exec_, nullptr)) {}

Graph& Graph::operator=(Graph&& other) noexcept {
  std::swap(exec_, other.exec_);
  return *this;
}

bool Graph::supported(Device device) {
  return !device.host_memory() && driver_of(device.kind).begin_capture != nullptr;
}

void Graph::begin_capture(Stream& stream) {
  if (!supported(stream.device())) {
    throw Error(ErrorCode::unsupported,
                "Graph::begin_capture: " + to_string(stream.device()) + " records no graphs; allowed: cuda devices");
  }
  if (stream.native() == nullptr)
    refuse("Graph::begin_capture", stream.device(), "the default stream cannot be captured");
  driver_of(stream.device().kind).begin_capture(stream.device().index, stream.native());
}

Graph Graph::end_capture(Stream& stream) {
  if (!supported(stream.device())) {
    throw Error(ErrorCode::unsupported,
                "Graph::end_capture: " + to_string(stream.device()) + " records no graphs; allowed: cuda devices");
  }
  Graph graph;
  const DeviceKind kind = stream.device().kind;
  graph.exec_ = new Recorded{kind, driver_of(kind).end_capture(stream.device().index, stream.native())};
  return graph;
}

void Graph::launch(Stream& stream) {
  if (exec_ == nullptr)
    throw Error(ErrorCode::invalid_argument,
                "Graph::launch: the graph is empty; record one with begin_capture and end_capture");
  const Recorded& recorded = *static_cast<const Recorded*>(exec_);
  if (stream.device().kind != recorded.kind)
    refuse("Graph::launch", stream.device(), "the graph was recorded on another kind of device");
  driver_of(recorded.kind).launch_graph(stream.device().index, recorded.executable, stream.native());
}

void copy_to_device(Stream& stream, void* device_destination, const void* host_source, size_t bytes) {
  copy("copy_to_device", stream, device_destination, host_source, bytes, Direction::to_device);
}

void copy_to_host(Stream& stream, void* host_destination, const void* device_source, size_t bytes) {
  copy("copy_to_host", stream, host_destination, device_source, bytes, Direction::to_host);
}

void copy_on_device(Stream& stream, void* destination, const void* source, size_t bytes) {
  copy("copy_on_device", stream, destination, source, bytes, Direction::on_device);
}

void fill_bytes(Stream& stream, void* destination, int value, size_t bytes) {
  check_pointers("fill_bytes", destination, destination, bytes);
  if (bytes == 0) return;
  if (stream.device().host_memory()) {
    std::memset(destination, value, bytes);
  } else {
    driver_of(stream.device().kind).fill(stream.device().index, stream.native(), destination, value, bytes);
  }
}

}  // namespace monotile
