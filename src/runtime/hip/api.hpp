#pragma once
// The part of the HIP runtime's documented C interface that Monotile calls, so that no header of ROCm is needed to build. Handles are opaque pointers;
// enumerators are named where they are used. Source: "HIP Runtime API Reference"; the same in ROCm 5, 6 and 7.

#include <cstddef>

namespace monotile::hip::api {

using Status = int;  ///< hipError_t; 0 is hipSuccess
constexpr Status kSuccess = 0, kOutOfMemory = 2, kNoDevice = 100, kInvalidDevice = 101;

/// hipMemcpyKind
constexpr int kHostToDevice = 1, kDeviceToHost = 2, kDeviceToDevice = 3;
/// hipDeviceAttribute_t
constexpr int kL2CacheSize = 19, kMultiprocessorCount = 63, kMaxSharedMemoryPerBlock = 74, kWarpSize = 87;
/// hipStreamNonBlocking, hipStreamCaptureModeThreadLocal
constexpr unsigned kNonBlocking = 1;
constexpr int kThreadLocal = 1;

// result, name, parameters
#define MT_HIP_CALLS(X)                                                                                             \
  X(Status, hipGetDeviceCount, (int* count))                                                                        \
  X(Status, hipGetDeviceProperties, (void* properties, int device))                                                 \
  X(Status, hipDeviceGetName, (char* name, int length, int device))                                                 \
  X(Status, hipDeviceGetAttribute, (int* value, int attribute, int device))                                         \
  X(Status, hipDeviceTotalMem, (size_t * bytes, int device))                                                        \
  X(Status, hipDriverGetVersion, (int* version))                                                                    \
  X(Status, hipRuntimeGetVersion, (int* version))                                                                   \
  X(Status, hipGetDevice, (int* device))                                                                            \
  X(Status, hipSetDevice, (int device))                                                                             \
  X(const char*, hipGetErrorName, (Status status))                                                                  \
  X(const char*, hipGetErrorString, (Status status))                                                                \
  X(Status, hipGetLastError, ())                                                                                    \
  X(Status, hipStreamCreateWithFlags, (void** stream, unsigned flags))                                              \
  X(Status, hipStreamDestroy, (void* stream))                                                                       \
  X(Status, hipStreamSynchronize, (void* stream))                                                                   \
  X(Status, hipEventCreate, (void** event))                                                                         \
  X(Status, hipEventDestroy, (void* event))                                                                         \
  X(Status, hipEventRecord, (void* event, void* stream))                                                            \
  X(Status, hipEventSynchronize, (void* event))                                                                     \
  X(Status, hipEventElapsedTime, (float* milliseconds, void* start, void* end))                                     \
  X(Status, hipMalloc, (void** data, size_t bytes))                                                                 \
  X(Status, hipFree, (void* data))                                                                                  \
  X(Status, hipMallocAsync, (void** data, size_t bytes, void* stream))                                              \
  X(Status, hipFreeAsync, (void* data, void* stream))                                                               \
  X(Status, hipMemcpyAsync, (void* to, const void* from, size_t bytes, int kind, void* stream))                     \
  X(Status, hipMemsetAsync, (void* to, int value, size_t bytes, void* stream))                                      \
  X(Status, hipModuleLoadData, (void** module, const void* image))                                                  \
  X(Status, hipModuleGetFunction, (void** function, void* module, const char* name))                                \
  X(Status, hipModuleLaunchKernel,                                                                                  \
    (void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,         \
     unsigned block_z, unsigned shared_bytes, void* stream, void** parameters, void** extra))                       \
  X(Status, hipStreamIsCapturing, (void* stream, int* status))                                                      \
  X(Status, hipStreamBeginCapture, (void* stream, int mode))                                                        \
  X(Status, hipStreamEndCapture, (void* stream, void** graph))                                                      \
  X(Status, hipGraphInstantiate, (void** executable, void* graph, void** failed_node, char* log, size_t log_bytes)) \
  X(Status, hipGraphDestroy, (void* graph))                                                                         \
  X(Status, hipGraphLaunch, (void* executable, void* stream))                                                       \
  X(Status, hipGraphExecDestroy, (void* executable))

}  // namespace monotile::hip::api
