#pragma once
// Kernels that live in code objects embedded in the library and are loaded through a driver found at run time: OpenCL (SPIR-V), HIP (AMD).
//
// How a target plugs in:
//   1. cmake/offload.cmake compiles each src/ops/<family>/<name>.kernels.cpp with clang in HIP mode: the device pass to a code object (steps
//      MONOTILE_OFFLOAD_<backend>_COMMAND), the host pass to an object file, and the code object into an assembler file that defines the symbols
//      monotile_code_<target>_<name> and monotile_code_end_<target>_<name>.
//   2. include/monotile/lang/backend/<backend>/launch.hpp includes backend/offload.hpp, defines the kernel `entry<K, Params>` for the device pass
//      and `launch<K, Params>`, which queues it with MT_LAUNCH_KERNEL(stream, launch, entry<K, Params>).
//   3. src/runtime/<backend>/ finds devices and loads modules: a table of functions (src/runtime/driver.hpp), `launch` among them. driver.cpp chooses the
//      table by the kind of the device. src/runtime/no_<backend>/ says in one line that a build has no such code.
// A kernel is found by the name of its function in the code object; what a loader makes of it is kept in `Kernel::loaded`.

#include <cstddef>
#include <cstdint>

#include "runtime/kernel_table.hpp"

namespace monotile::offload {

/// The code object of one translation unit for one target.
struct Module {
  const char* name;  ///< of its source: "norm"
  const unsigned char* code;
  const unsigned char* end;

  size_t size() const { return static_cast<size_t>(end - code); }
};

inline constexpr int kMostDevices = 16;  ///< of one kind

/// A kernel of a module; one per launch function.
struct Kernel {
  const Module* module;
  const char* name;                 ///< the mangled name of its function
  void* loaded[kMostDevices] = {};  ///< the loader's own, by index of the device; written once each, read and written atomically
};

/// What one launch is.
struct Launch {
  int64_t programs;
  int work_items;      ///< of a program
  size_t local_bytes;  ///< memory shared by them
  const void* params;  ///< copied before the call returns
  size_t params_bytes;
  bool params_in_memory = false;  ///< the kernel takes their address
};

/// Queues `launch` on `stream`. Loads the module when the device first needs it. Throws Error(device_error) naming kernel and call.
void launch(Stream& stream, Kernel& kernel, const Launch& launch);

}  // namespace monotile::offload
