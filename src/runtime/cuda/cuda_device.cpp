// The driver table of CUDA.

#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <string_view>

#include "runtime/cuda/current_device.hpp"
#include "runtime/driver.hpp"

namespace monotile::cuda {
namespace {

void check(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  (void)cudaGetLastError();  // a refused call must not show up again in the next one
  throw Error(ErrorCode::device_error,
              std::string("cuda: ") + call + ": " + cudaGetErrorString(status) + " (" + cudaGetErrorName(status) + ")");
}

/// For calls that may not throw: an error that nobody sees must not show up in the application's next call either.
void forget(cudaError_t status) noexcept {
  if (status != cudaSuccess) (void)cudaGetLastError();
}

cudaStream_t stream_of(void* stream) { return static_cast<cudaStream_t>(stream); }

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

void check_memory(cudaError_t status, const char* call, int device, size_t bytes) {
  if (status != cudaErrorMemoryAllocation) return check(status, call);
  (void)cudaGetLastError();
  size_t available = 0, total = 0;
  std::string text = "cuda:" + std::to_string(device) + ": " + call + " of " + std::to_string(bytes) + " bytes failed";
  if (cudaMemGetInfo(&available, &total) == cudaSuccess)
    text += "; " + std::to_string(available) + " of " + std::to_string(total) + " bytes are free";
  (void)cudaGetLastError();
  throw Error(ErrorCode::out_of_memory, text);
}

constexpr int kMostDevices = 64;

/// Our own stream-ordered pool of `device`: the default one belongs to the whole process, and its settings to the
/// application.
cudaMemPool_t pool_of(int device) {
  static std::mutex mutex;
  static cudaMemPool_t pools[kMostDevices] = {};
  const std::lock_guard lock(mutex);
  cudaMemPool_t& pool = pools[device];
  if (pool == nullptr) {
    cudaMemPoolProps properties{};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location.type = cudaMemLocationTypeDevice;
    properties.location.id = device;
    cudaMemPool_t created = nullptr;
    check(cudaMemPoolCreate(&created, &properties), "cudaMemPoolCreate");
    uint64_t keep_all = UINT64_MAX;  // what is released stays: a later request then costs no driver call
    check(cudaMemPoolSetAttribute(created, cudaMemPoolAttrReleaseThreshold, &keep_all), "cudaMemPoolSetAttribute");
    pool = created;
  }
  return pool;
}

DeviceInfo describe(int index, const cudaDeviceProp& properties, const std::string& versions, bool force_sm80) {
  const int capability = properties.major * 10 + properties.minor;
  DeviceInfo info;
  info.device = {DeviceKind::cuda, static_cast<int16_t>(index)};
  info.name = properties.name;
  info.architecture = "sm_" + std::to_string(capability) + (capability == 90 ? "a" : "");
  info.path = capability == 90 && !force_sm80 ? "cuda_sm90" : "cuda_sm80";
  info.units = properties.multiProcessorCount;
  info.wave = properties.warpSize;
  info.memory_bytes = properties.totalGlobalMem;
  info.l2_bytes = static_cast<size_t>(properties.l2CacheSize);
  info.shared_bytes = properties.sharedMemPerBlockOptin;
  info.driver = versions;
  return info;
}

FoundDevices find() {
  FoundDevices found;
  int count = 0, driver = 0, runtime = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  (void)cudaGetLastError();
  (void)cudaDriverGetVersion(&driver);
  (void)cudaRuntimeGetVersion(&runtime);
  if (status != cudaSuccess || count == 0) {
    const std::string why = driver == 0             ? "no driver"
                            : status == cudaSuccess ? "no device"
                                                    : cudaGetErrorString(status);
    const std::string versions = driver == 0 ? "" : ", driver for CUDA " + version_text(driver);
    found.absent.push_back("cuda: " + why + " (built with CUDA " + version_text(runtime) + versions +
                           "); the CPU is used");
    return found;
  }
  const std::string versions = "driver " + version_text(driver) + ", runtime " + version_text(runtime);
  const char* const forced = std::getenv("MONOTILE_CUDA_PATH");
  const bool force_sm80 = forced != nullptr && std::string_view(forced) == "sm80";
  if (forced != nullptr && *forced != '\0' && !force_sm80 && std::string_view(forced) != "auto") {
    found.absent.push_back(std::string("cuda: MONOTILE_CUDA_PATH: \"") + forced + "\"; allowed: sm80, auto; ignored");
  }
  for (int i = 0; i < count && i < kMostDevices; ++i) {
    cudaDeviceProp properties{};
    if (const cudaError_t failed = cudaGetDeviceProperties(&properties, i); failed != cudaSuccess) {
      (void)cudaGetLastError();
      found.absent.push_back("cuda:" + std::to_string(i) + ": cudaGetDeviceProperties: " + cudaGetErrorString(failed));
    } else if (properties.major < 8) {
      found.absent.push_back("cuda:" + std::to_string(i) + ": " + properties.name + " has compute capability " +
                             std::to_string(properties.major) + "." + std::to_string(properties.minor) +
                             "; 8.0 or higher is needed");
    } else {
      found.devices.push_back(describe(i, properties, versions, force_sm80));
    }
  }
  return found;
}

void* create_stream(int device) {
  const CurrentDevice selected(device);
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  return stream;
}
void destroy_stream(int, void* stream) noexcept { forget(cudaStreamDestroy(stream_of(stream))); }
void synchronize_stream(int device, void* stream) {
  const CurrentDevice selected(device);
  check(cudaStreamSynchronize(stream_of(stream)), "cudaStreamSynchronize");
}

void* create_event(int device) {
  const CurrentDevice selected(device);
  cudaEvent_t event = nullptr;
  check(cudaEventCreate(&event), "cudaEventCreate");
  return event;
}
void destroy_event(int, void* event) noexcept { forget(cudaEventDestroy(static_cast<cudaEvent_t>(event))); }
void record_event(int device, void* event, void* stream) {
  const CurrentDevice selected(device);
  check(cudaEventRecord(static_cast<cudaEvent_t>(event), stream_of(stream)), "cudaEventRecord");
}
void synchronize_event(int device, void* event) {
  const CurrentDevice selected(device);
  check(cudaEventSynchronize(static_cast<cudaEvent_t>(event)), "cudaEventSynchronize");
}
double elapsed_ms(const void* start, const void* end) {
  float milliseconds = 0;
  const auto event_of = [](const void* event) { return static_cast<cudaEvent_t>(const_cast<void*>(event)); };
  check(cudaEventElapsedTime(&milliseconds, event_of(start), event_of(end)), "cudaEventElapsedTime");
  return static_cast<double>(milliseconds);
}

bool is_capturing(int device, void* stream) {
  const CurrentDevice selected(device);
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check(cudaStreamIsCapturing(stream_of(stream), &status), "cudaStreamIsCapturing");
  return status != cudaStreamCaptureStatusNone;
}
void begin_capture(int device, void* stream) {
  const CurrentDevice selected(device);
  // Thread-local: other threads may allocate meanwhile, while an allocation of this thread in the middle of a capture
  // is an error.
  check(cudaStreamBeginCapture(stream_of(stream), cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
}
void* end_capture(int device, void* stream) {
  const CurrentDevice selected(device);
  cudaGraph_t graph = nullptr;
  check(cudaStreamEndCapture(stream_of(stream), &graph), "cudaStreamEndCapture");
  cudaGraphExec_t executable = nullptr;
  const cudaError_t status = cudaGraphInstantiate(&executable, graph, 0);
  forget(cudaGraphDestroy(graph));
  check(status, "cudaGraphInstantiate");
  return executable;
}
void launch_graph(int device, void* executable, void* stream) {
  const CurrentDevice selected(device);
  check(cudaGraphLaunch(static_cast<cudaGraphExec_t>(executable), stream_of(stream)), "cudaGraphLaunch");
}
void destroy_graph(void* executable) noexcept { forget(cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(executable))); }

void* allocate(int device, size_t bytes) {
  const CurrentDevice selected(device);
  void* data = nullptr;
  check_memory(cudaMalloc(&data, bytes), "cudaMalloc", device, bytes);
  return data;
}
void release(int, void* data) noexcept { forget(cudaFree(data)); }
void* allocate_in_order(int device, void* stream, size_t bytes) {
  const CurrentDevice selected(device);
  void* data = nullptr;
  check_memory(cudaMallocFromPoolAsync(&data, bytes, pool_of(device), stream_of(stream)), "cudaMallocFromPoolAsync",
               device, bytes);
  return data;
}
void release_in_order(int device, void* stream, void* data) noexcept {
  int before = -1;
  forget(cudaGetDevice(&before));
  if (before != device) forget(cudaSetDevice(device));
  forget(cudaFreeAsync(data, stream_of(stream)));
  if (before != device && before >= 0) forget(cudaSetDevice(before));
}

void copy(int device, void* stream, void* destination, const void* source, size_t bytes, Direction direction) {
  const CurrentDevice selected(device);
  const cudaMemcpyKind kind = direction == Direction::to_device ? cudaMemcpyHostToDevice
                              : direction == Direction::to_host ? cudaMemcpyDeviceToHost
                                                                : cudaMemcpyDeviceToDevice;
  check(cudaMemcpyAsync(destination, source, bytes, kind, stream_of(stream)), "cudaMemcpyAsync");
}
void fill(int device, void* stream, void* destination, int value, size_t bytes) {
  const CurrentDevice selected(device);
  check(cudaMemsetAsync(destination, value, bytes, stream_of(stream)), "cudaMemsetAsync");
}

}  // namespace
}  // namespace monotile::cuda

namespace monotile {

const Driver cuda_driver{
    .find = cuda::find,
    .create_stream = cuda::create_stream,
    .destroy_stream = cuda::destroy_stream,
    .synchronize_stream = cuda::synchronize_stream,
    .create_event = cuda::create_event,
    .destroy_event = cuda::destroy_event,
    .record_event = cuda::record_event,
    .synchronize_event = cuda::synchronize_event,
    .elapsed_ms = cuda::elapsed_ms,
    .allocate = cuda::allocate,
    .release = cuda::release,
    .allocate_in_order = cuda::allocate_in_order,
    .release_in_order = cuda::release_in_order,
    .copy = cuda::copy,
    .fill = cuda::fill,
    .is_capturing = cuda::is_capturing,
    .begin_capture = cuda::begin_capture,
    .end_capture = cuda::end_capture,
    .launch_graph = cuda::launch_graph,
    .destroy_graph = cuda::destroy_graph,
};

}  // namespace monotile
