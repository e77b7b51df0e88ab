// A stand-in for libamdhip64: memory is the host's, kernels are functions that this file knows by name, and every call is written down. So the loader,
// the packing of arguments and the errors are tested where there is no AMD GPU.

#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

struct Launch {
  std::string function;
  unsigned grid = 0, block = 0, shared = 0;
  void* stream = nullptr;
  std::vector<unsigned char> parameters;
};
std::vector<Launch>& launches() {
  static std::vector<Launch> list;
  return list;
}
int current = 0, modules = 0, last_error = 0;
size_t parameter_bytes = 0;

int count_from_environment() {
  const char* const text = std::getenv("FAKE_HIP_DEVICES");
  return text != nullptr ? std::atoi(text) : 2;
}
int failed(int status) { return last_error = status; }

}  // namespace

// --- for the test
EXPORT void fake_expect_parameters(size_t bytes) { parameter_bytes = bytes; }
EXPORT size_t fake_launches() { return launches().size(); }
EXPORT void fake_last_launch(const char** function, unsigned* grid, unsigned* block, unsigned* shared, void** stream,
                             const void** parameters) {
  const Launch& l = launches().back();
  *function = l.function.c_str(), *grid = l.grid, *block = l.block, *shared = l.shared, *stream = l.stream,
  *parameters = l.parameters.data();
}
EXPORT int fake_modules() { return modules; }
EXPORT int fake_current_device() { return current; }
EXPORT int fake_last_error() { return last_error; }

// --- what is called
EXPORT int hipGetDeviceCount(int* count) {
  *count = count_from_environment();
  return *count == 0 ? failed(100) : 0;
}
EXPORT int hipGetDeviceProperties(void* properties, int device) {
  // The name of the architecture lies deep within a large structure.
  std::memcpy(static_cast<char*>(properties) + 1160, device == 0 ? "gfx90a:sramecc+:xnack-" : "gfx906:sramecc+",
              23 - (device != 0) * 7);
  return 0;
}
EXPORT int hipDeviceGetName(char* name, int length, int device) {
  std::strncpy(name, device == 0 ? "Fake MI250X" : "Fake MI60", static_cast<size_t>(length));
  return 0;
}
EXPORT int hipDeviceGetAttribute(int* value, int attribute, int) {
  const std::map<int, int> known{{19, 8 << 20}, {63, 104}, {74, 65536}, {87, 64}};
  const auto found = known.find(attribute);
  if (found == known.end()) return failed(1);
  *value = found->second;
  return 0;
}
EXPORT int hipDeviceTotalMem(size_t* bytes, int) { return *bytes = size_t{64} << 30, 0; }
EXPORT int hipDriverGetVersion(int* version) { return *version = 60032831, 0; }
EXPORT int hipRuntimeGetVersion(int* version) { return *version = 60032831, 0; }
EXPORT int hipGetDevice(int* device) { return *device = current, 0; }
EXPORT int hipSetDevice(int device) { return current = device, 0; }
EXPORT const char* hipGetErrorName(int status) {
  return status == 2 ? "hipErrorOutOfMemory" : status == 100 ? "hipErrorNoDevice" : "hipErrorFake";
}
EXPORT const char* hipGetErrorString(int status) {
  return status == 2 ? "out of memory" : status == 100 ? "no ROCm-capable device is detected" : "a fake error";
}
EXPORT int hipGetLastError() {
  const int e = last_error;
  last_error = 0;
  return e;
}
EXPORT int hipStreamCreateWithFlags(void** stream, unsigned) { return *stream = std::malloc(16), 0; }
EXPORT int hipStreamDestroy(void* stream) { return std::free(stream), 0; }
EXPORT int hipStreamSynchronize(void*) { return 0; }
EXPORT int hipEventCreate(void** event) { return *event = std::malloc(16), 0; }
EXPORT int hipEventDestroy(void* event) { return std::free(event), 0; }
EXPORT int hipEventRecord(void*, void*) { return 0; }
EXPORT int hipEventSynchronize(void*) { return 0; }
EXPORT int hipEventElapsedTime(float* milliseconds, void*, void*) { return *milliseconds = 1.5f, 0; }
EXPORT int hipMalloc(void** data, size_t bytes) {
  if (bytes > size_t{1} << 40) return failed(2);
  return *data = std::malloc(bytes), 0;
}
EXPORT int hipFree(void* data) { return std::free(data), 0; }
EXPORT int hipMallocAsync(void** data, size_t bytes, void*) { return hipMalloc(data, bytes); }
EXPORT int hipFreeAsync(void* data, void*) { return std::free(data), 0; }
EXPORT int hipMemcpyAsync(void* to, const void* from, size_t bytes, int, void*) {
  return std::memcpy(to, from, bytes), 0;
}
EXPORT int hipMemsetAsync(void* to, int value, size_t bytes, void*) { return std::memset(to, value, bytes), 0; }
EXPORT int hipModuleLoadData(void** module, const void* image) {
  if (std::memcmp(image, "\177ELF", 4) != 0) return failed(200);
  ++modules;
  *module = const_cast<void*>(image);
  return 0;
}
EXPORT int hipModuleGetFunction(void** function, void*, const char* name) {
  if (std::strncmp(name, "known_", 6) != 0 && std::strncmp(name, "_Z", 2) != 0) return failed(500);
  *function = const_cast<char*>(name);
  return 0;
}
EXPORT int hipModuleLaunchKernel(void* function, unsigned grid_x, unsigned, unsigned, unsigned block_x, unsigned,
                                 unsigned, unsigned shared, void* stream, void** parameters, void** extra) {
  if (extra != nullptr || block_x > 1024) return failed(1);
  Launch l{static_cast<const char*>(function), grid_x, block_x, shared, stream, {}};
  const auto* const bytes = static_cast<const unsigned char*>(parameters[0]);
  l.parameters.assign(bytes, bytes + parameter_bytes);
  launches().push_back(l);
  return 0;
}
EXPORT int hipStreamIsCapturing(void*, int* status) { return *status = 0, 0; }
EXPORT int hipStreamBeginCapture(void*, int) { return 0; }
EXPORT int hipStreamEndCapture(void*, void** graph) { return *graph = std::malloc(16), 0; }
EXPORT int hipGraphInstantiate(void** executable, void*, void**, char*, size_t) {
  return *executable = std::malloc(16), 0;
}
EXPORT int hipGraphDestroy(void* graph) { return std::free(graph), 0; }
EXPORT int hipGraphLaunch(void*, void*) { return 0; }
EXPORT int hipGraphExecDestroy(void* executable) { return std::free(executable), 0; }
