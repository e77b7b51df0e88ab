// Measured limits: streams and launch overheads.

#include <algorithm>
#include <cstring>
#include <memory>

#include "bench/machine.hpp"
#include "bench/measure.hpp"
#include "runtime/thread_pool.hpp"

namespace monotile::bench {
namespace {

std::vector<StreamKernel> host_stream_kernels(size_t bytes) {
  struct Memory {
    Buffer a, b, c;
    float sink = 0;
  };
  const auto m =
      std::make_shared<Memory>(Memory{Buffer(Device{}, bytes), Buffer(Device{}, bytes), Buffer(Device{}, bytes)});
  std::memset(m->a.data(), 0x3a, bytes);
  std::memset(m->b.data(), 0x3c, bytes);
  std::memset(m->c.data(), 0, bytes);
  const int64_t threads = cpu_threads();
  const size_t part = bytes / static_cast<size_t>(threads) / 64 * 64;
  const double moved = static_cast<double>(part) * static_cast<double>(threads);
  const auto each = [=](auto f) {
    return [=] {
      const auto body = [&](int64_t t) { f(static_cast<size_t>(t) * part); };
      parallel_for(
          threads, 1,
          [](const void* context, int64_t begin, int64_t end, int) {
            for (int64_t t = begin; t < end; ++t) (*static_cast<decltype(body)*>(context))(t);
          },
          &body);
    };
  };
  return {
      {"memcpy, all threads", true, 2 * moved,
       each([=](size_t at) { std::memcpy(m->c.as<char>() + at, m->a.as<char>() + at, part); })},
      {"read-only stream, all threads", false, moved, each([=](size_t at) {
         const float* x = reinterpret_cast<const float*>(m->a.as<char>() + at);
         float sums[16] = {};
         for (size_t i = 0; i + 16 <= part / 4; i += 16) {
           for (size_t k = 0; k < 16; ++k) sums[k] += x[i + k];
         }
         float sum = 0;
         for (const float s : sums) sum += s;
         if (sum == 12345.0f) m->sink = sum;
       })},
      {"2:1 stream, all threads", false, 3 * moved, each([=](size_t at) {
         const float *x = reinterpret_cast<const float*>(m->a.as<char>() + at),
                     *y = reinterpret_cast<const float*>(m->b.as<char>() + at);
         float* z = reinterpret_cast<float*>(m->c.as<char>() + at);
         for (size_t i = 0; i < part / 4; ++i) z[i] = x[i] + y[i];
       })},
  };
}

}  // namespace

std::vector<StreamKernel> stream_kernels(Stream& stream, size_t bytes) {
  return stream.device().kind == DeviceKind::cuda ? cuda_stream_kernels(stream, bytes) : host_stream_kernels(bytes);
}

Ceilings measure_ceilings(Stream& stream, Timeline& timeline, bool quick) {
  const DeviceInfo& info = device_info(stream.device());
  Ceilings ceilings;
  ceilings.spec = spec_of(info.name);
  const size_t bytes = timeline.asynchronous()
                           ? std::min<size_t>(size_t{2} << 30, info.memory_bytes / 8)
                           : std::clamp<size_t>(2 * timeline.cache_bytes(), size_t{64} << 20, size_t{512} << 20);
  Method method;
  method.samples = 30;
  method.warmups = 3;
  method.budget_us = quick ? 400e3 : 150e3;
  for (const StreamKernel& kernel : stream_kernels(stream, bytes)) {
    method.record = kernel.recorded;
    const Timing timing =
        time_device(timeline, {[&](int) { kernel.launch(); }, 1, static_cast<size_t>(kernel.bytes)}, method);
    const double gbs = kernel.bytes * 1e-3 / timing.us.median;
    ceilings.streams.push_back({kernel.name, gbs});
    ceilings.peak_gbs = std::max(ceilings.peak_gbs, gbs);
    if (kernel.copies) ceilings.copy_gbs = std::max(ceilings.copy_gbs, gbs);
  }
  if (timeline.asynchronous()) {
    const LaunchShape shape{1, 256, 0, 256};
    const auto bare = [&] { timeline.bare_launch(shape); };
    Method empty;
    empty.cache = Cache::hot;
    ceilings.empty_node_us = time_device(timeline, {[&](int) { bare(); }, 1, 0}, empty).us.median;
    ceilings.launch_us = time_host(timeline, bare, bare).bare.median;
  }
  return ceilings;
}

}  // namespace monotile::bench
