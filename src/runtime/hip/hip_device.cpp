// The driver table of AMD devices. The HIP runtime is looked for when devices are listed; nothing links against it. Kernels come from the code
// objects that are embedded in the library. Compiled, emulated and tested against a stand-in library (tests/hip): not yet run on AMD hardware.

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string_view>

#include "runtime/driver.hpp"
#include "runtime/hip/api.hpp"

#if !defined(MONOTILE_HIP_TARGETS)
#define MONOTILE_HIP_TARGETS ""
#endif

namespace monotile::hip {
namespace {

using namespace api;  // NOLINT

/// The functions of the library.
struct Library {
#define MT_MEMBER(result, name, parameters) result(*name) parameters = nullptr;
  MT_HIP_CALLS(MT_MEMBER)
#undef MT_MEMBER
};
Library runtime;

/// Empty if the library is there, else what is missing. It stays loaded: the driver keeps threads of its own.
std::string load_library() {
  const char* const forced = std::getenv("MONOTILE_HIP_LIBRARY");
  const std::string names[] = {forced != nullptr ? forced : "", "libamdhip64.so.7", "libamdhip64.so.6",
                               "libamdhip64.so.5", "libamdhip64.so"};
  void* handle = nullptr;
  std::string tried, found;
  for (const std::string& name : names) {
    if (name.empty() || handle != nullptr || (forced != nullptr && *forced != '\0' && name != forced)) continue;
    tried += (tried.empty() ? "" : ", ") + name;
    handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    found = name;
  }
  if (handle == nullptr) return tried + " not found; install ROCm's HIP runtime (Debian: libamdhip64-5)";
  std::string missing;
#define MT_FIND(result, name, parameters)                                        \
  runtime.name = reinterpret_cast<decltype(runtime.name)>(dlsym(handle, #name)); \
  if (runtime.name == nullptr && missing.empty()) missing = #name;
  MT_HIP_CALLS(MT_FIND)
#undef MT_FIND
  return missing.empty() ? "" : found + " has no " + missing + "; ROCm 5.2 or later is needed";
}

std::string text_of(Status status) {
  return std::string(runtime.hipGetErrorString(status)) + " (" + runtime.hipGetErrorName(status) + ")";
}
void check(Status status, const std::string& call) {
  if (status == kSuccess) return;
  (void)runtime.hipGetLastError();  // a refused call must not show up again in the application's next one
  throw Error(status == kOutOfMemory ? ErrorCode::out_of_memory : ErrorCode::device_error,
              "hip: " + call + ": " + text_of(status));
}
void forget(Status status) noexcept {
  if (status != kSuccess) (void)runtime.hipGetLastError();
}

/// Selects a device for this thread and gives the one before back.
class CurrentDevice {
 public:
  explicit CurrentDevice(int device) : device_(device) {
    check(runtime.hipGetDevice(&before_), "hipGetDevice");
    if (before_ != device) check(runtime.hipSetDevice(device), "hipSetDevice");
  }
  ~CurrentDevice() {
    if (before_ != device_) forget(runtime.hipSetDevice(before_));
  }
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

 private:
  int device_, before_ = 0;
};

int attribute(int which, int device) {
  int value = 0;
  forget(runtime.hipDeviceGetAttribute(&value, which, device));
  return value;
}

/// "gfx90a", from the text "gfx90a:sramecc+:xnack-" that the properties hold: where it lies in them differs between versions, so it is looked for.
std::string architecture_of(int device) {
  std::vector<char> properties(8192, '\0');
  if (const Status status = runtime.hipGetDeviceProperties(properties.data(), device); status != kSuccess) {
    forget(status);
    return "";
  }
  const std::string_view all(properties.data(), properties.size());
  for (size_t at = all.find("gfx"); at != std::string_view::npos; at = all.find("gfx", at + 3)) {
    size_t end = at + 3;
    while (end < all.size() && ((all[end] >= '0' && all[end] <= '9') || (all[end] >= 'a' && all[end] <= 'f'))) ++end;
    if (end - at >= 6) return std::string(all.substr(at, end - at));
  }
  return "";
}

/// Is there code for this architecture in the build?
bool built_for(const std::string& architecture) {
  return !architecture.empty() &&
         std::string("," MONOTILE_HIP_TARGETS ",").find("," + architecture + ",") != std::string::npos;
}

std::string version_text(int version) {
  return std::to_string(version / 10000000) + "." + std::to_string(version / 100000 % 100);
}

FoundDevices find() {
  FoundDevices found;
  if (const std::string why = load_library(); !why.empty()) {
    found.absent.push_back("hip: " + why);
    return found;
  }
  int count = 0;
  if (const Status status = runtime.hipGetDeviceCount(&count); status != kSuccess || count == 0) {
    forget(status);
    found.absent.push_back("hip: no device: " +
                           (status == kSuccess ? std::string("none is visible") : text_of(status)));
    return found;
  }
  int driver = 0;
  forget(runtime.hipRuntimeGetVersion(&driver));
  for (int i = 0; i < count && i < offload::kMostDevices; ++i) {
    char name[256] = {};
    forget(runtime.hipDeviceGetName(name, sizeof name - 1, i));
    const std::string architecture = architecture_of(i);
    if (!built_for(architecture)) {
      found.absent.push_back(
          "hip:" + std::to_string(i) + ": " + name + " is " +
          (architecture.empty() ? "of an unknown architecture" : architecture) + "; this build has code for " +
          (*MONOTILE_HIP_TARGETS != '\0' ? MONOTILE_HIP_TARGETS : "none (configure with the hip preset)"));
      continue;
    }
    DeviceInfo info;
    info.device = {DeviceKind::hip, static_cast<int16_t>(i)};
    info.name = name;
    info.architecture = architecture;
    info.path = "hip_" + architecture;
    info.units = attribute(kMultiprocessorCount, i);
    info.wave = attribute(kWarpSize, i);
    forget(runtime.hipDeviceTotalMem(&info.memory_bytes, i));
    info.l2_bytes = static_cast<size_t>(attribute(kL2CacheSize, i));
    info.shared_bytes = static_cast<size_t>(attribute(kMaxSharedMemoryPerBlock, i)) -
                        1024;  // what kernels keep for the exchange between waves
    info.driver = "HIP " + version_text(driver);
    found.devices.push_back(info);
  }
  return found;
}

void* create_stream(int device) {
  const CurrentDevice selected(device);
  void* stream = nullptr;
  check(runtime.hipStreamCreateWithFlags(&stream, kNonBlocking), "hipStreamCreateWithFlags");
  return stream;
}
void destroy_stream(int, void* stream) noexcept { forget(runtime.hipStreamDestroy(stream)); }
void synchronize_stream(int device, void* stream) {
  const CurrentDevice selected(device);
  check(runtime.hipStreamSynchronize(stream), "hipStreamSynchronize");
}

void* create_event(int device) {
  const CurrentDevice selected(device);
  void* event = nullptr;
  check(runtime.hipEventCreate(&event), "hipEventCreate");
  return event;
}
void destroy_event(int, void* event) noexcept { forget(runtime.hipEventDestroy(event)); }
void record_event(int device, void* event, void* stream) {
  const CurrentDevice selected(device);
  check(runtime.hipEventRecord(event, stream), "hipEventRecord");
}
void synchronize_event(int device, void* event) {
  const CurrentDevice selected(device);
  check(runtime.hipEventSynchronize(event), "hipEventSynchronize");
}
double elapsed_ms(const void* start, const void* end) {
  float milliseconds = 0;
  check(runtime.hipEventElapsedTime(&milliseconds, const_cast<void*>(start), const_cast<void*>(end)),
        "hipEventElapsedTime");
  return static_cast<double>(milliseconds);
}

void* allocate(int device, size_t bytes) {
  const CurrentDevice selected(device);
  void* data = nullptr;
  check(runtime.hipMalloc(&data, bytes),
        "hipMalloc of " + std::to_string(bytes) + " bytes on hip:" + std::to_string(device));
  return data;
}
void release(int, void* data) noexcept { forget(runtime.hipFree(data)); }
void* allocate_in_order(int device, void* stream, size_t bytes) {
  const CurrentDevice selected(device);
  void* data = nullptr;
  check(runtime.hipMallocAsync(&data, bytes, stream),
        "hipMallocAsync of " + std::to_string(bytes) + " bytes on hip:" + std::to_string(device));
  return data;
}
void release_in_order(int, void* stream, void* data) noexcept { forget(runtime.hipFreeAsync(data, stream)); }

void copy(int device, void* stream, void* destination, const void* source, size_t bytes, Direction direction) {
  const CurrentDevice selected(device);
  const int kind = direction == Direction::to_device ? kHostToDevice
                   : direction == Direction::to_host ? kDeviceToHost
                                                     : kDeviceToDevice;
  check(runtime.hipMemcpyAsync(destination, source, bytes, kind, stream), "hipMemcpyAsync");
}
void fill(int device, void* stream, void* destination, int value, size_t bytes) {
  const CurrentDevice selected(device);
  check(runtime.hipMemsetAsync(destination, value, bytes, stream), "hipMemsetAsync");
}

/// The function of a kernel on a device; modules are loaded when the first of their kernels is.
void* function_of(int device, offload::Kernel& kernel) {
  const std::atomic_ref<void*> slot(kernel.loaded[device]);
  if (void* const there = slot.load(std::memory_order_acquire)) return there;
  static std::mutex loading;
  static auto* const modules =
      new std::map<std::pair<int, const offload::Module*>, void*>;  // never unloaded: launches may be on their way
  const std::lock_guard lock(loading);
  void*& module = (*modules)[{device, kernel.module}];
  if (module == nullptr) {
    check(runtime.hipModuleLoadData(&module, kernel.module->code),
          std::string("hipModuleLoadData of ") + kernel.module->name + ", " + std::to_string(kernel.module->size()) +
              " bytes");
  }
  void* function = nullptr;
  check(runtime.hipModuleGetFunction(&function, module, kernel.name),
        std::string("hipModuleGetFunction of ") + kernel.name + " in " + kernel.module->name);
  slot.store(function, std::memory_order_release);
  return function;
}

void launch(int device, void* stream, offload::Kernel& kernel, const offload::Launch& what) {
  if (what.programs > static_cast<int64_t>(UINT32_MAX) / what.work_items) {  // HIP counts work-items in 32 bits
    throw Error(ErrorCode::invalid_argument, "hip: " + std::to_string(what.programs) + " programs of " +
                                                 std::to_string(what.work_items) +
                                                 " lanes; at most 4294967295 lanes fit into one launch");
  }
  const CurrentDevice selected(device);
  void* const function = function_of(device, kernel);
  void* parameters[] = {const_cast<void*>(what.params)};
  check(runtime.hipModuleLaunchKernel(function, static_cast<unsigned>(what.programs), 1, 1,
                                      static_cast<unsigned>(what.work_items), 1, 1,
                                      static_cast<unsigned>(what.local_bytes), stream, parameters, nullptr),
        std::string("hipModuleLaunchKernel of ") + kernel.name);
}

bool is_capturing(int device, void* stream) {
  const CurrentDevice selected(device);
  int status = 0;
  check(runtime.hipStreamIsCapturing(stream, &status), "hipStreamIsCapturing");
  return status != 0;
}
void begin_capture(int device, void* stream) {
  const CurrentDevice selected(device);
  check(runtime.hipStreamBeginCapture(stream, kThreadLocal), "hipStreamBeginCapture");
}
void* end_capture(int device, void* stream) {
  const CurrentDevice selected(device);
  void *graph = nullptr, *executable = nullptr;
  check(runtime.hipStreamEndCapture(stream, &graph), "hipStreamEndCapture");
  const Status status = runtime.hipGraphInstantiate(&executable, graph, nullptr, nullptr, 0);
  forget(runtime.hipGraphDestroy(graph));
  check(status, "hipGraphInstantiate");
  return executable;
}
void launch_graph(int device, void* executable, void* stream) {
  const CurrentDevice selected(device);
  check(runtime.hipGraphLaunch(executable, stream), "hipGraphLaunch");
}
void destroy_graph(void* executable) noexcept { forget(runtime.hipGraphExecDestroy(executable)); }

}  // namespace
}  // namespace monotile::hip

namespace monotile {

const Driver hip_driver{
    .find = hip::find,
    .create_stream = hip::create_stream,
    .destroy_stream = hip::destroy_stream,
    .synchronize_stream = hip::synchronize_stream,
    .create_event = hip::create_event,
    .destroy_event = hip::destroy_event,
    .record_event = hip::record_event,
    .synchronize_event = hip::synchronize_event,
    .elapsed_ms = hip::elapsed_ms,
    .allocate = hip::allocate,
    .release = hip::release,
    .allocate_in_order = hip::allocate_in_order,
    .release_in_order = hip::release_in_order,
    .copy = hip::copy,
    .fill = hip::fill,
    .launch = hip::launch,
    .is_capturing = hip::is_capturing,
    .begin_capture = hip::begin_capture,
    .end_capture = hip::end_capture,
    .launch_graph = hip::launch_graph,
    .destroy_graph = hip::destroy_graph,
};

}  // namespace monotile
