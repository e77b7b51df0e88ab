#pragma once
// Offloaded targets: clang compiles a kernels file twice in HIP mode, once for the device and once for the host. The device's half holds the kernels and
// becomes a code object; the host's half knows their names and nothing else of them. Both see the same source, so that a kernel's name is asked
// of the compiler, and no registration at start is needed.
//
// How another target joins is told in src/runtime/offload.hpp.

#include "runtime/offload.hpp"

#define MT_KERNEL __attribute__((global))

#if defined(__HIP_DEVICE_COMPILE__)
#define MT_DEVICE_PASS 1
#else
#define MT_DEVICE_PASS 0
#endif

#define MT_JOIN_(a, b, c) a##b##_##c
#define MT_JOIN(a, b, c) MT_JOIN_(a, b, c)
#define MT_TEXT_(x) #x
#define MT_TEXT(x) MT_TEXT_(x)

#if !MT_DEVICE_PASS
// The bytes of the code object, from an assembler file that the build writes beside it (cmake/offload.cmake). MONOTILE_MODULE is the file's name.
extern "C" const unsigned char MT_JOIN(monotile_code_, MONOTILE_TARGET_NAME, MONOTILE_MODULE)[]
    __attribute__((visibility("hidden")));
extern "C" const unsigned char MT_JOIN(monotile_code_end_, MONOTILE_TARGET_NAME, MONOTILE_MODULE)[]
    __attribute__((visibility("hidden")));

namespace monotile::lang::inline MONOTILE_TARGET_NAME {
/// The code object of this translation unit: internal, although launch functions that refer to it may be merged with those of other units.
/// They hold the same kernels then.
static constinit offload::Module this_module{MT_TEXT(MONOTILE_MODULE),
                                             MT_JOIN(monotile_code_, MONOTILE_TARGET_NAME, MONOTILE_MODULE),
                                             MT_JOIN(monotile_code_end_, MONOTILE_TARGET_NAME, MONOTILE_MODULE)};
}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME

/// Queues a kernel: `function` is never called or emitted on the host, only named.
#define MT_LAUNCH_KERNEL(stream, description, ...)                                                                   \
  do {                                                                                                               \
    static ::monotile::offload::Kernel mt_kernel{&this_module, __builtin_get_device_side_mangled_name(__VA_ARGS__)}; \
    ::monotile::offload::launch(stream, mt_kernel, description);                                                     \
  } while (false)
#else
/// In the device's pass this makes the compiler emit the kernel.
#define MT_LAUNCH_KERNEL(stream, description, ...) (void)(stream), (void)(description), (void)&__VA_ARGS__
#endif
