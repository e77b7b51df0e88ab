#pragma once
// The CPU device's only pool. The caller takes part; with one thread everything runs in the caller.

#include <cstddef>
#include <cstdint>

namespace monotile {

/// Runs body(context, begin, end, thread) over chunks of [0, count) until all is done. `thread` is in [0,
/// cpu_threads()). Not reentrant from inside a body (runs serially there). Exceptions from bodies reach the caller (the
/// first one).
void parallel_for(int64_t count, int64_t grain,
                  void (*body)(const void* context, int64_t begin, int64_t end, int thread), const void* context);
/// Scratch of at least `bytes` bytes, 64-byte aligned, of the calling thread (`thread` is its index inside a body);
/// valid until its next call on this thread, contents are not kept. A body that runs serially inside another one shares
/// it with that one.
void* thread_scratch(int thread, size_t bytes);

namespace detail {
/// Keeps the `units` of the CPU's DeviceInfo true after the pool was resized.
void note_cpu_threads(int n);
}  // namespace detail

}  // namespace monotile
