// First proof of the language on a GPU: add_rms_norm 16384 x 4096 fp16 against the copy bandwidth of the same run (cold L2, rotating
// buffers, random data), and the host cost of Plan::run against an empty kernel with the same parameter bytes. Prints one JSON object.

#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "monotile/kernels/norm/params.hpp"
#include "monotile/numeric.hpp"
#include "monotile/ops/norm.hpp"
#include "ops/norm/variants.hpp"
#include "ops/row_tiles.hpp"

namespace {

using namespace monotile;  // NOLINT

void check(cudaError_t status, const char* what) {
  if (status != cudaSuccess) {
    std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(status));
    std::exit(1);
  }
}

__global__ void spin(long long cycles) {
  const long long start = clock64();
  while (clock64() - start < cycles) {
  }
}
__global__ void copy_kernel(uint4* __restrict__ to, const uint4* __restrict__ from, size_t n) {
  for (size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x; i < n;
       i += static_cast<size_t>(gridDim.x) * blockDim.x)
    __stcs(to + i, __ldcs(from + i));
}
using NormParams = kernels::RmsNormParams<half_t, half_t>;
__global__ void empty(const __grid_constant__ NormParams) {}  // same parameters, same launch attributes

struct Timer {
  cudaEvent_t begin, end;
  Timer() {
    check(cudaEventCreate(&begin), "event");
    check(cudaEventCreate(&end), "event");
  }
  /// Microseconds of device time of one call, with a spin queued ahead so that the host is never waited for.
  template <class F>
  double once(cudaStream_t stream, F f) {
    spin<<<1, 1, 0, stream>>>(200000);
    check(cudaEventRecord(begin, stream), "record");
    f();
    check(cudaEventRecord(end, stream), "record");
    check(cudaEventSynchronize(end), "synchronize");
    float ms = 0;
    check(cudaEventElapsedTime(&ms, begin, end), "elapsed");
    return ms * 1e3;
  }
};

struct Spread {
  double median, p10, p90;
};
Spread spread(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return {v[v.size() / 2], v[v.size() / 10], v[v.size() * 9 / 10]};
}

/// Microseconds that the host spends on issuing one call, in batches of 200.
template <class F>
double host_cost(cudaStream_t stream, F f) {
  check(cudaStreamSynchronize(stream), "synchronize");
  const auto t0 = std::chrono::steady_clock::now();
  for (int i = 0; i < 200; ++i) f();
  const auto t1 = std::chrono::steady_clock::now();
  return std::chrono::duration<double, std::micro>(t1 - t0).count() / 200;
}

}  // namespace

int main(int argc, char** argv) {
  const bool sweep = argc > 1 && std::string(argv[1]) == "--sweep";
  const Device device = parse_device("cuda:0");
  const DeviceInfo& info = device_info(device);
  Stream stream(device);
  auto* const s = static_cast<cudaStream_t>(stream.native());
  Timer timer;

  // Copy bandwidth: best of a 2 GiB memcpy and our own kernel.
  const size_t bytes = size_t{2} << 30;
  double memcpy_best = 0, kernel_best = 0;
  {
    Buffer a(device, bytes), b(device, bytes);
    check(cudaMemset(a.data(), 0x5a, bytes), "memset");
    for (int i = 0; i < 12; ++i) {
      const double t = timer.once(
          s, [&] { check(cudaMemcpyAsync(b.data(), a.data(), bytes, cudaMemcpyDeviceToDevice, s), "memcpy"); });
      const double u =
          timer.once(s, [&] { copy_kernel<<<132 * 16, 512, 0, s>>>(b.as<uint4>(), a.as<uint4>(), bytes / 16); });
      if (i >= 2)
        memcpy_best = std::max(memcpy_best, 2.0 * bytes / t * 1e-3),
        kernel_best = std::max(kernel_best, 2.0 * bytes / u * 1e-3);
    }
  }
  const double copy = std::max(memcpy_best, kernel_best);
  std::printf("{\"what\": \"add_rms_norm proof\", \"device\": \"%s\", \"path\": \"%s\", \"driver\": \"%s\",\n",
              info.name.c_str(), info.path.c_str(), info.driver.c_str());
  std::printf(" \"copy_gbs\": {\"memcpy_2GiB\": %.0f, \"own_kernel\": %.0f},\n \"rows\": [\n", memcpy_best,
              kernel_best);

  bool first = true;
  for (const auto& [rows, cols] :
       std::vector<std::pair<int64_t, int64_t>>{{16384, 4096}, {4096, 8192}, {65536, 2048}, {64, 4096}, {1, 4096}}) {
    const size_t one = static_cast<size_t>(rows * cols) * 2;
    const int sets = static_cast<int>(std::clamp<size_t>((size_t{256} << 20) / one, 2, 64));
    std::vector<Tensor> x, r, y;
    std::vector<uint16_t> host(static_cast<size_t>(rows * cols));
    std::mt19937 random(7);
    std::normal_distribution<float> normal;
    for (auto& h : host) h = from_float<half_t>(normal(random)).bits;
    Tensor gamma(device, DType::f16, {cols});
    copy_to_device(stream, gamma.view().data, host.data(), static_cast<size_t>(cols) * 2);
    for (int i = 0; i < sets; ++i) {
      x.emplace_back(device, DType::f16, std::initializer_list<int64_t>{rows, cols});
      r.emplace_back(device, DType::f16, std::initializer_list<int64_t>{rows, cols});
      y.emplace_back(device, DType::f16, std::initializer_list<int64_t>{rows, cols});
      copy_to_device(stream, x.back().view().data, host.data(), one);
      copy_to_device(stream, r.back().view().data, host.data(), one);
    }
    const auto args = [&](int i) {
      return ops::RmsNormArgs{.y = y[i], .residual = r[i], .x = x[i], .gamma = gamma, .beta = {}};
    };
    const auto plan = monotile::plan(device, args(0), TierPolicy{Tier::portable, false});
    std::vector<double> times;
    for (int i = 0; i < 120; ++i) {
      const auto a = args(i % sets);
      const double t = timer.once(s, [&] { plan.run(stream, a); });
      if (i >= 20) times.push_back(t);
    }
    if (sweep && rows > 1000) {
      for (const uint32_t base : {ops::kBlock2, ops::kBlock4, ops::kStream}) {
        const int64_t lanes = cols / 8 / (base == ops::kBlock4 ? 4 : 2);
        if (lanes > 512) continue;
        const uint32_t layout = base + ops::kExact;
        auto other = plan;
        other.kernel = reinterpret_cast<const void*>(
            find_kernel("add_rms_norm", target_of(info), ops::norm::variant(ops::norm::f16_f16, layout)));
        other.config[0] = layout;
        other.config[1] = lanes;
        std::vector<double> tried;
        try {
          for (int i = 0; i < 60; ++i) {
            const auto a = args(i % sets);
            const double t = timer.once(s, [&] { other.run(stream, a); });
            if (i >= 10) tried.push_back(t);
          }
        } catch (const Error& e) {
          std::fprintf(stderr, "sweep %ldx%ld layout %u lanes %ld: %s\n", rows, cols, layout, lanes, e.what());
          continue;
        }
        std::fprintf(stderr, "sweep %ldx%ld layout %u lanes %ld: %.2f us, %.3f of copy\n", rows, cols, layout, lanes,
                     spread(tried).median, 4.0 * one / spread(tried).median * 1e-3 / copy);
      }
    }
    const Spread t = spread(times);
    const double gbs = 4.0 * one / t.median * 1e-3;
    std::printf(
        "%s  {\"op\": \"add_rms_norm\", \"dtype\": \"f16\", \"rows\": %ld, \"cols\": %ld, \"median_us\": %.2f, "
        "\"p10\": %.2f, \"p90\": %.2f, \"gbs\": %.0f, \"of_copy\": %.3f, \"sets\": %d, \"tile\": [%ld, %ld, %ld]}",
        first ? "" : ",\n", rows, cols, t.median, t.p10, t.p90, gbs, gbs / copy, sets, plan.config[0], plan.config[1],
        plan.config[2]);
    first = false;
    if (rows == 1) {
      const auto a = args(0);
      NormParams p{};
      const auto launch_empty = [&] {
        cudaLaunchConfig_t config{};
        config.gridDim = dim3(1);
        config.blockDim = dim3(static_cast<unsigned>(plan.config[1]));
        config.stream = s;
        cudaLaunchAttribute overlap{};  // the attributes that our launches have on this path
        overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
        overlap.val.programmaticStreamSerializationAllowed = 1;
        config.attrs = &overlap;
        config.numAttrs = info.path == "cuda_sm90" ? 1 : 0;
        check(cudaLaunchKernelEx(&config, empty, p), "launch");
      };
      Context context(stream);
      // Interleaved, so that the drift of a virtual machine meets all three alike.
      std::vector<double> run_cost, empty_cost, difference, whole;
      for (int b = 0; b < 210; ++b) {
        const double r = host_cost(s, [&] { plan.run(stream, a); }), e = host_cost(s, launch_empty),
                     w = host_cost(s, [&] { run(context, a); });
        if (b < 10) continue;
        run_cost.push_back(r);
        empty_cost.push_back(e);
        difference.push_back(r - e);
        whole.push_back(w);
      }
      const Spread d = spread(difference);
      std::printf(
          "],\n \"host_us\": {\"run\": %.3f, \"empty_kernel_same_params\": %.3f, \"difference\": {\"median\": %.3f, "
          "\"p10\": %.3f, \"p90\": %.3f}, \"plan_and_run\": %.3f, \"param_bytes\": %zu}}\n",
          spread(run_cost).median, spread(empty_cost).median, d.median, d.p10, d.p90, spread(whole).median,
          sizeof(NormParams));
    }
  }
}
