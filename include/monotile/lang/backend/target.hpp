#pragma once
// Which target this translation unit is compiled for. CMake defines exactly one of MONOTILE_TARGET_CPU, MONOTILE_TARGET_EMULATED (with
// MONOTILE_WAVE), MONOTILE_TARGET_CUDA, MONOTILE_TARGET_HIP or MONOTILE_TARGET_SPIRV, and MONOTILE_TARGET_NAME; host code that only fills views defines none of them.

#if defined(__HIP__)  // clang's way to compile one source for host and device: offloaded targets (backend/offload.hpp)
#define MT_FN __attribute__((host)) __attribute__((device)) inline __attribute__((always_inline))
#if defined(MONOTILE_TARGET_HIP)
#define MT_UNROLL _Pragma("unroll")
#else
#define MT_UNROLL
#endif
#elif defined(__CUDACC__)
#define MT_FN __host__ __device__ __forceinline__
#define MT_UNROLL _Pragma("unroll")
#else
#define MT_FN inline __attribute__((always_inline))
#define MT_UNROLL
#endif

#if defined(__CUDACC__) || defined(__clang__)
#define MT_NO_UNROLL _Pragma("unroll 1")
#else
#define MT_NO_UNROLL
#endif

/// Words with long bodies: on lanes they must become part of the kernel, the emulator compiles faster when it may call them.
#if defined(MONOTILE_TARGET_EMULATED)
#define MT_WORD inline
#else
#define MT_WORD MT_FN
#endif

#if defined(MONOTILE_TARGET_CUDA) || defined(MONOTILE_TARGET_HIP) || defined(MONOTILE_TARGET_EMULATED) || defined(MONOTILE_TARGET_SPIRV)
#define MONOTILE_TARGET_SIMT 1
#endif
