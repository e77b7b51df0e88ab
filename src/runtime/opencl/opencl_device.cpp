// The driver table of OpenCL: devices with shared virtual memory, so that tensors hold plain addresses. The library is looked for at run time. A
// kernel is compiled by the device's driver when it is first used: from SPIR-V where the device takes it, else from the bitcode that was translated
// from the same SPIR-V when Monotile was built (cmake/spirv_code.py).

#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>
#include <dlfcn.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>

#include "runtime/driver.hpp"

namespace monotile::opencl {
namespace {

constexpr size_t kAlignment = 256;

#define MT_OPENCL_CALLS(X)                                                                                           \
  X(clGetPlatformIDs)                                                                                                \
  X(clGetPlatformInfo) X(clGetDeviceIDs) X(clGetDeviceInfo) X(clCreateContext) X(clCreateCommandQueueWithProperties) \
      X(clReleaseCommandQueue) X(clFinish) X(clFlush) X(clSVMAlloc) X(clSVMFree) X(clEnqueueSVMMemcpy)               \
          X(clEnqueueSVMMemFill) X(clEnqueueMarkerWithWaitList) X(clWaitForEvents) X(clReleaseEvent)                 \
              X(clGetEventProfilingInfo) X(clCreateProgramWithIL) X(clCreateProgramWithBinary) X(clBuildProgram)     \
                  X(clGetProgramBuildInfo) X(clReleaseProgram) X(clCreateKernel) X(clSetKernelArg)                   \
                      X(clSetKernelArgSVMPointer) X(clSetKernelExecInfo) X(clEnqueueNDRangeKernel)

/// The functions of the library.
struct Library {
#define MT_MEMBER(name) decltype(&::name) name = nullptr;
  MT_OPENCL_CALLS(MT_MEMBER)
#undef MT_MEMBER
};

Library cl;

/// Empty if the library is there, else what is missing. It stays loaded: drivers keep threads of their own.
std::string load_library() {
  void* const handle = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr)
    return "libOpenCL.so.1 not found; install an OpenCL loader and a driver (Debian: ocl-icd-libopencl1 "
           "pocl-opencl-icd)";
  std::string missing;
#define MT_FIND(name)                                                  \
  cl.name = reinterpret_cast<decltype(cl.name)>(dlsym(handle, #name)); \
  if (cl.name == nullptr) missing = #name;
  MT_OPENCL_CALLS(MT_FIND)
#undef MT_FIND
  return missing.empty() ? "" : "libOpenCL.so.1 has no " + missing + "; a loader for OpenCL 2.1 or later is needed";
}

void check(cl_int status, const std::string& call) {
  if (status == CL_SUCCESS) return;
  const bool memory = status == CL_MEM_OBJECT_ALLOCATION_FAILURE || status == CL_OUT_OF_HOST_MEMORY;
  throw Error(memory ? ErrorCode::out_of_memory : ErrorCode::device_error,
              "opencl: " + call + ": status " + std::to_string(status));
}

std::string text_of(cl_device_id device, cl_device_info what) {
  size_t size = 0;
  if (cl.clGetDeviceInfo(device, what, 0, nullptr, &size) != CL_SUCCESS || size == 0) return "";
  std::string text(size, '\0');
  if (cl.clGetDeviceInfo(device, what, size, text.data(), nullptr) != CL_SUCCESS) return "";
  text.resize(std::strlen(text.c_str()));
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text;
}
template <class T>
T number_of(cl_device_id device, cl_device_info what) {
  T value{};
  return cl.clGetDeviceInfo(device, what, sizeof value, &value, nullptr) == CL_SUCCESS ? value : T{};
}

/// A device with what this process has on it.
struct State {
  cl_device_id id = nullptr;
  cl_context context = nullptr;
  cl_command_queue queue = nullptr;  ///< where a caller names none
  bool takes_spirv = false;
  bool host_writes = false;  ///< memory can be shared with the host without copies
  bool names_memory =
      false;  ///< kernels must be told of all memory that they reach through pointers in their parameters
  size_t most_work_items = 0, local_bytes = 0;

  /// Parameters too large for arguments: places that take turns, each free again when the launch that had it last is done.
  struct Place {
    void* data = nullptr;
    cl_event used = nullptr;
  };
  std::mutex places_mutex;
  std::vector<Place> places;
  size_t next_place = 0;

  std::mutex mutex;
  std::map<void*, void*> allocations;  ///< what a buffer holds -> what the driver gave
  uint64_t allocations_version = 1;
  std::vector<cl_command_queue> queues;
};

std::vector<std::unique_ptr<State>>& states() {
  static auto* const list =
      new std::vector<std::unique_ptr<State>>;  // never destroyed: buffers may outlive other globals
  return *list;
}
State& state(int device) { return *states().at(static_cast<size_t>(device)); }

cl_command_queue queue_of(int device, void* stream) {
  return stream != nullptr ? static_cast<cl_command_queue>(stream) : state(device).queue;
}

cl_command_queue make_queue(State& s) {
  const cl_queue_properties properties[] = {CL_QUEUE_PROPERTIES, CL_QUEUE_PROFILING_ENABLE, 0};
  cl_int status = CL_SUCCESS;
  const cl_command_queue queue = cl.clCreateCommandQueueWithProperties(s.context, s.id, properties, &status);
  check(status, "clCreateCommandQueueWithProperties");
  const std::lock_guard lock(s.mutex);
  s.queues.push_back(queue);
  return queue;
}

/// Why a device cannot be used, or empty.
std::string unusable(cl_device_id id) {
  if (number_of<cl_bool>(id, CL_DEVICE_AVAILABLE) == 0 || number_of<cl_bool>(id, CL_DEVICE_COMPILER_AVAILABLE) == 0)
    return "not available";
  if (number_of<cl_bool>(id, CL_DEVICE_ENDIAN_LITTLE) == 0 || number_of<cl_uint>(id, CL_DEVICE_ADDRESS_BITS) != 64)
    return "a little-endian device with 64-bit addresses is needed";
  const auto svm = number_of<cl_device_svm_capabilities>(id, CL_DEVICE_SVM_CAPABILITIES);
  if ((svm & CL_DEVICE_SVM_COARSE_GRAIN_BUFFER) == 0) return "no shared virtual memory, which tensors need";
  const bool spir = text_of(id, CL_DEVICE_EXTENSIONS).find("cl_khr_spir") != std::string::npos;
  if (text_of(id, CL_DEVICE_IL_VERSION).find("SPIR-V") == std::string::npos && !spir)
    return "it takes neither SPIR-V nor SPIR bitcode";
  return "";
}

DeviceInfo describe(int index, State& s) {
  DeviceInfo info;
  info.device = {DeviceKind::opencl, static_cast<int16_t>(index)};
  info.name = text_of(s.id, CL_DEVICE_NAME);
  info.architecture = s.takes_spirv ? text_of(s.id, CL_DEVICE_IL_VERSION) : "SPIR-V by way of SPIR bitcode";
  info.path = "spirv";
  info.units = static_cast<int>(number_of<cl_uint>(s.id, CL_DEVICE_MAX_COMPUTE_UNITS));
  info.wave = 32;  // lanes that a work-item stands for
  info.memory_bytes = number_of<cl_ulong>(s.id, CL_DEVICE_GLOBAL_MEM_SIZE);
  info.l2_bytes = number_of<cl_ulong>(s.id, CL_DEVICE_GLOBAL_MEM_CACHE_SIZE);
  info.shared_bytes = s.local_bytes;
  info.driver = text_of(s.id, CL_DEVICE_VERSION) + ", driver " + text_of(s.id, CL_DRIVER_VERSION);
  return info;
}

constexpr size_t kReservedLocal = 1024;  // what every launch adds for the exchange between waves

FoundDevices find() {
  FoundDevices found;
  if (const std::string why = load_library(); !why.empty()) {
    found.absent.push_back("opencl: " + why);
    return found;
  }
  cl_uint count = 0;
  std::vector<cl_platform_id> platforms;
  if (cl.clGetPlatformIDs(0, nullptr, &count) == CL_SUCCESS && count > 0) {
    platforms.resize(count);
    if (cl.clGetPlatformIDs(count, platforms.data(), nullptr) != CL_SUCCESS) platforms.clear();
  }
  for (const cl_platform_id platform : platforms) {
    cl_uint here = 0;
    if (cl.clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, nullptr, &here) != CL_SUCCESS) continue;
    std::vector<cl_device_id> ids(here);
    if (here == 0 || cl.clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, here, ids.data(), nullptr) != CL_SUCCESS) continue;
    for (const cl_device_id id : ids) {
      const std::string name = text_of(id, CL_DEVICE_NAME);
      if (const std::string why = unusable(id); !why.empty()) {
        found.absent.push_back("opencl: " + name + ": " + why);
        continue;
      }
      if (states().size() == offload::kMostDevices) continue;
      cl_int status = CL_SUCCESS;
      auto s = std::make_unique<State>();
      s->id = id;
      s->context = cl.clCreateContext(nullptr, 1, &id, nullptr, nullptr, &status);
      if (status != CL_SUCCESS) {
        found.absent.push_back("opencl: " + name + ": clCreateContext: status " + std::to_string(status));
        continue;
      }
      s->takes_spirv = text_of(id, CL_DEVICE_IL_VERSION).find("SPIR-V") != std::string::npos;
      const auto svm = number_of<cl_device_svm_capabilities>(id, CL_DEVICE_SVM_CAPABILITIES);
      s->host_writes = (svm & CL_DEVICE_SVM_FINE_GRAIN_BUFFER) != 0;
      s->names_memory = (svm & CL_DEVICE_SVM_FINE_GRAIN_SYSTEM) == 0;
      s->most_work_items = number_of<size_t>(id, CL_DEVICE_MAX_WORK_GROUP_SIZE);
      s->local_bytes = number_of<cl_ulong>(id, CL_DEVICE_LOCAL_MEM_SIZE) - kReservedLocal;
      try {
        s->queue = make_queue(*s);
      } catch (const Error& error) {
        found.absent.push_back("opencl: " + name + ": " + error.what());
        continue;
      }
      found.devices.push_back(describe(static_cast<int>(states().size()), *s));
      states().push_back(std::move(s));
    }
  }
  if (found.devices.empty() && found.absent.empty())
    found.absent.push_back("opencl: no platform has a device; install a driver (Debian: pocl-opencl-icd)");
  return found;
}

// --- streams and events --------------------------------------------------------------------------------------------------------------
void* create_stream(int device) { return make_queue(state(device)); }
void destroy_stream(int device, void* stream) noexcept {
  State& s = state(device);
  const auto queue = static_cast<cl_command_queue>(stream);
  {
    const std::lock_guard lock(s.mutex);
    std::erase(s.queues, queue);
  }
  cl.clFinish(queue);
  cl.clReleaseCommandQueue(queue);
}
void synchronize_stream(int device, void* stream) { check(cl.clFinish(queue_of(device, stream)), "clFinish"); }

struct Marker {
  cl_event event = nullptr;
};
void* create_event(int) { return new Marker; }
void destroy_event(int, void* event) noexcept {
  const auto* const marker = static_cast<Marker*>(event);
  if (marker->event != nullptr) cl.clReleaseEvent(marker->event);
  delete marker;
}
void record_event(int device, void* event, void* stream) {
  auto* const marker = static_cast<Marker*>(event);
  if (marker->event != nullptr) cl.clReleaseEvent(marker->event);
  marker->event = nullptr;
  check(cl.clEnqueueMarkerWithWaitList(queue_of(device, stream), 0, nullptr, &marker->event),
        "clEnqueueMarkerWithWaitList");
  check(cl.clFlush(queue_of(device, stream)), "clFlush");
}
void synchronize_event(int, void* event) {
  const auto* const marker = static_cast<Marker*>(event);
  if (marker->event != nullptr) check(cl.clWaitForEvents(1, &marker->event), "clWaitForEvents");
}
double elapsed_ms(const void* start, const void* end) {
  const auto time_of = [](const void* event) {
    const cl_event e = static_cast<const Marker*>(event)->event;
    cl_ulong ns = 0;
    check(cl.clWaitForEvents(1, &e), "clWaitForEvents");
    check(cl.clGetEventProfilingInfo(e, CL_PROFILING_COMMAND_END, sizeof ns, &ns, nullptr), "clGetEventProfilingInfo");
    return ns;
  };
  return static_cast<double>(static_cast<int64_t>(time_of(end) - time_of(start))) * 1e-6;
}

// --- memory --------------------------------------------------------------------------------------------------------------------------
void* allocate(int device, size_t bytes) {
  State& s = state(device);
  // The driver aligns to its widest type at most.
  void* const base =
      bytes < (size_t{1} << 47) ? cl.clSVMAlloc(s.context, CL_MEM_READ_WRITE, bytes + kAlignment, 0) : nullptr;
  if (base == nullptr) {
    throw Error(ErrorCode::out_of_memory,
                "opencl:" + std::to_string(device) + ": clSVMAlloc of " + std::to_string(bytes) + " bytes failed");
  }
  void* const data = reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(base) + kAlignment - 1) & ~(kAlignment - 1));
  const std::lock_guard lock(s.mutex);
  s.allocations.emplace(data, base);
  ++s.allocations_version;
  return data;
}
/// Waits for the device: work that is queued may still use the memory.
void release(int device, void* data) noexcept {
  State& s = state(device);
  const std::lock_guard lock(s.mutex);
  for (const cl_command_queue queue : s.queues) cl.clFinish(queue);
  const auto found = s.allocations.find(data);
  if (found == s.allocations.end()) return;
  cl.clSVMFree(s.context, found->second);
  s.allocations.erase(found);
  ++s.allocations_version;
}
void* allocate_in_order(int device, void*, size_t bytes) { return allocate(device, bytes); }
void release_in_order(int device, void*, void* data) noexcept { release(device, data); }

/// Host memory may go when the call returns, so only copies on the device are left in the queue.
void copy(int device, void* stream, void* destination, const void* source, size_t bytes, Direction direction) {
  const cl_bool wait = direction == Direction::on_device ? CL_FALSE : CL_TRUE;
  check(cl.clEnqueueSVMMemcpy(queue_of(device, stream), wait, destination, source, bytes, 0, nullptr, nullptr),
        "clEnqueueSVMMemcpy");
}
void fill(int device, void* stream, void* destination, int value, size_t bytes) {
  const auto byte = static_cast<unsigned char>(value);
  check(cl.clEnqueueSVMMemFill(queue_of(device, stream), destination, &byte, 1, bytes, 0, nullptr, nullptr),
        "clEnqueueSVMMemFill");
}

// --- kernels -------------------------------------------------------------------------------------------------------------------------
/// A kernel in the code object of its module (cmake/spirv_code.py tells the layout).
struct CodeRow {
  uint64_t hash;
  struct {
    uint32_t at, bytes;
  } spirv, bitcode, alone;
};
static_assert(sizeof(CodeRow) == 32);
struct Code {
  const unsigned char* data;
  size_t bytes;
};
enum class Form { spirv, bitcode, alone };  ///< alone: bitcode for groups of one work-item, without barriers

uint64_t hash_of(std::string_view name) {
  uint64_t h = 0xcbf29ce484222325u;
  for (const char c : name) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return h;
}

Code find_code(const offload::Kernel& kernel, Form form) {
  const unsigned char* const code = kernel.module->code;
  uint32_t count = 0;
  if (kernel.module->size() < 16 || std::memcmp(code, "MTSPIRV2", 8) != 0)
    throw Error(ErrorCode::internal, std::string("opencl: the code of ") + kernel.module->name + " is damaged");
  std::memcpy(&count, code + 8, sizeof count);
  for (uint32_t i = 0; i < count; ++i) {
    CodeRow row;
    std::memcpy(&row, code + 16 + i * sizeof row, sizeof row);
    if (row.hash != hash_of(kernel.name)) continue;
    const auto part = form == Form::spirv ? row.spirv : form == Form::bitcode ? row.bitcode : row.alone;
    return {code + part.at, part.bytes};
  }
  throw Error(ErrorCode::internal, std::string("opencl: ") + kernel.module->name + " holds no kernel " + kernel.name);
}

/// Arguments are a property of the kernel object, so that one launch at a time sets them.
struct Loaded {
  std::atomic<cl_kernel> kernel = nullptr;
  std::mutex mutex;
  uint64_t allocations_version = 0;
};
/// What `offload::Kernel::loaded` points to: compiled when first used.
struct Forms {
  Loaded of_group, alone;
};

cl_kernel load(State& s, const offload::Kernel& kernel, Form form) {
  Code code = find_code(kernel, form);
  cl_int status = CL_SUCCESS;
  cl_program program = nullptr;
  if (form == Form::spirv) {
    program = cl.clCreateProgramWithIL(s.context, code.data, code.bytes, &status);
    check(status, "clCreateProgramWithIL");
  } else {
    program = cl.clCreateProgramWithBinary(s.context, 1, &s.id, &code.bytes, &code.data, nullptr, &status);
    check(status, "clCreateProgramWithBinary");
  }
  // Some drivers compile ten times as fast with "-cl-opt-disable", and what they make is as right.
  const char* const options = std::getenv("MONOTILE_OPENCL_OPTIONS");
  if (const cl_int built = cl.clBuildProgram(program, 1, &s.id, options != nullptr ? options : "", nullptr, nullptr);
      built != CL_SUCCESS) {
    std::string log(4096, '\0');
    cl.clGetProgramBuildInfo(program, s.id, CL_PROGRAM_BUILD_LOG, log.size(), log.data(), nullptr);
    cl.clReleaseProgram(program);
    throw Error(ErrorCode::device_error, std::string("opencl: clBuildProgram of ") + kernel.name + ": status " +
                                             std::to_string(built) + ": " + log.c_str());
  }
  char name[24];
  std::snprintf(name, sizeof name, "k_%016llx", static_cast<unsigned long long>(hash_of(kernel.name)));
  const cl_kernel made = cl.clCreateKernel(program, name, &status);
  check(status, std::string("clCreateKernel ") + name);
  return made;
}

Loaded& loaded_on(int device, State& s, offload::Kernel& kernel, size_t items) {
  const std::atomic_ref<void*> slot(kernel.loaded[device]);
  const bool alone = !s.takes_spirv && items == 1;
  const auto form_in = [alone](void* forms) -> Loaded& {
    auto* const f = static_cast<Forms*>(forms);
    return alone ? f->alone : f->of_group;
  };
  if (void* const there = slot.load(std::memory_order_acquire)) {
    Loaded& form = form_in(there);
    if (form.kernel.load(std::memory_order_acquire) != nullptr) return form;
  }
  static std::mutex building;
  const std::lock_guard lock(building);
  if (slot.load(std::memory_order_acquire) == nullptr) slot.store(new Forms, std::memory_order_release);
  Loaded& form = form_in(slot.load(std::memory_order_acquire));
  if (form.kernel.load(std::memory_order_acquire) == nullptr) {
    const Form wanted = s.takes_spirv ? Form::spirv : alone ? Form::alone : Form::bitcode;
    form.kernel.store(load(s, kernel, wanted), std::memory_order_release);
  }
  return form;
}

/// Tells the kernel of all memory on the device, if it changed: parameters hold addresses that the driver cannot see.
void name_memory(State& s, Loaded& loaded) {
  const std::lock_guard lock(s.mutex);
  if (loaded.allocations_version == s.allocations_version || s.allocations.empty()) return;
  std::vector<void*> pointers;
  for (const auto& [data, base] : s.allocations) pointers.push_back(base);
  check(cl.clSetKernelExecInfo(loaded.kernel, CL_KERNEL_EXEC_INFO_SVM_PTRS, pointers.size() * sizeof(void*),
                               pointers.data()),
        "clSetKernelExecInfo");
  loaded.allocations_version = s.allocations_version;
}

constexpr size_t kPlaces = 64, kPlaceBytes = 4096;

/// A place with the parameters, for one launch. Waits only where that many launches are under way.
State::Place& place_for(int device, State& s, cl_command_queue queue, const offload::Launch& what) {
  if (s.places.empty()) {
    const cl_svm_mem_flags flags = CL_MEM_READ_WRITE | (s.host_writes ? CL_MEM_SVM_FINE_GRAIN_BUFFER : 0);
    auto* const memory = static_cast<unsigned char*>(cl.clSVMAlloc(s.context, flags, kPlaces * kPlaceBytes, 0));
    if (memory == nullptr)
      throw Error(ErrorCode::out_of_memory, "opencl:" + std::to_string(device) + ": clSVMAlloc for parameters failed");
    for (size_t i = 0; i < kPlaces; ++i) s.places.push_back({memory + i * kPlaceBytes, nullptr});
  }
  State::Place& place = s.places[s.next_place++ % kPlaces];
  if (place.used != nullptr) {
    check(cl.clWaitForEvents(1, &place.used), "clWaitForEvents");
    cl.clReleaseEvent(place.used);
    place.used = nullptr;
  }
  if (what.params_bytes > kPlaceBytes)
    throw Error(ErrorCode::internal, "opencl: parameters of " + std::to_string(what.params_bytes) + " bytes");
  if (s.host_writes) {
    std::memcpy(place.data, what.params, what.params_bytes);
    return place;
  }
  check(cl.clEnqueueSVMMemcpy(queue, CL_TRUE, place.data, what.params, what.params_bytes, 0, nullptr, nullptr),
        "clEnqueueSVMMemcpy");
  return place;
}

void launch(int device, void* stream, offload::Kernel& kernel, const offload::Launch& what) {
  State& s = state(device);
  const auto items = static_cast<size_t>(what.work_items);
  const auto refuse = [&](const std::string& why) {
    throw Error(ErrorCode::device_error, "opencl: " + why + ": " + kernel.name);
  };
  if (items == 0 || items > s.most_work_items)
    refuse(std::to_string(items) + " work-items in a group; allowed: 1 to " + std::to_string(s.most_work_items));
  if (what.local_bytes > s.local_bytes + kReservedLocal)
    refuse(std::to_string(what.local_bytes) + " bytes of local memory; allowed: at most " +
           std::to_string(s.local_bytes));
  Loaded& loaded = loaded_on(device, s, kernel, items);
  const std::lock_guard lock(loaded.mutex);
  const cl_command_queue queue = queue_of(device, stream);
  std::unique_lock places_lock(s.places_mutex, std::defer_lock);
  State::Place* place = nullptr;
  if (what.params_in_memory) {
    places_lock.lock();
    place = &place_for(device, s, queue, what);
    check(cl.clSetKernelArgSVMPointer(loaded.kernel, 0, place->data), "clSetKernelArgSVMPointer (parameters)");
  } else {
    check(cl.clSetKernelArg(loaded.kernel, 0, what.params_bytes, what.params), "clSetKernelArg (parameters)");
  }
  check(cl.clSetKernelArg(loaded.kernel, 1, what.local_bytes, nullptr), "clSetKernelArg (local memory)");
  if (s.names_memory) name_memory(s, loaded);
  const size_t global = static_cast<size_t>(what.programs) * items;
  check(cl.clEnqueueNDRangeKernel(queue, loaded.kernel, 1, nullptr, &global, &items, 0, nullptr,
                                  place != nullptr ? &place->used : nullptr),
        std::string("clEnqueueNDRangeKernel ") + kernel.name);
  check(cl.clFlush(queue), "clFlush");
}

}  // namespace
}  // namespace monotile::opencl

namespace monotile {

const Driver opencl_driver{
    .find = opencl::find,
    .create_stream = opencl::create_stream,
    .destroy_stream = opencl::destroy_stream,
    .synchronize_stream = opencl::synchronize_stream,
    .create_event = opencl::create_event,
    .destroy_event = opencl::destroy_event,
    .record_event = opencl::record_event,
    .synchronize_event = opencl::synchronize_event,
    .elapsed_ms = opencl::elapsed_ms,
    .allocate = opencl::allocate,
    .release = opencl::release,
    .allocate_in_order = opencl::allocate_in_order,
    .release_in_order = opencl::release_in_order,
    .copy = opencl::copy,
    .fill = opencl::fill,
    .launch = opencl::launch,
};

}  // namespace monotile
