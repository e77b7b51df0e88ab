// The timeline of a CUDA stream, and the kernels that measure the machine itself.

#include <cuda_runtime.h>

#include <array>
#include <chrono>
#include <memory>
#include <thread>

#include "bench/cuda/check.hpp"
#include "bench/machine.hpp"
#include "bench/timeline.hpp"

namespace monotile::bench {
namespace {

__global__ void spin_kernel(long long nanoseconds) {
  unsigned long long start = 0, now = 0;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
  do {
    __nanosleep(200);
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  } while (now - start < static_cast<unsigned long long>(nanoseconds));
}

template <size_t Bytes>
struct Parameters {
  unsigned char bytes[Bytes];
};
template <size_t Bytes>
__global__ void empty_kernel(const __grid_constant__ Parameters<Bytes>) {}

template <size_t Bytes>
void launch_empty(cudaStream_t stream, const LaunchShape& shape) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(shape.grid);
  config.blockDim = dim3(shape.block);
  config.dynamicSmemBytes = shape.shared_bytes <= 48 * 1024 ? shape.shared_bytes : 0;
  config.stream = stream;
  static const Parameters<Bytes> parameters{};
  check_cuda(cudaLaunchKernelEx(&config, empty_kernel<Bytes>, parameters), "launch of an empty kernel");
}

/// What a recorded node launches. Copies and fills count as launches without parameters.
LaunchShape shape_of(cudaGraphNode_t node) {
  LaunchShape shape;
  cudaGraphNodeType type{};
  check_cuda(cudaGraphNodeGetType(node, &type), "cudaGraphNodeGetType");
  if (type != cudaGraphNodeTypeKernel) return shape;
  cudaKernelNodeParams params{};
  if (cudaGraphKernelNodeGetParams(node, &params) != cudaSuccess) {
    (void)cudaGetLastError();
    return shape;
  }
  shape.grid = params.gridDim.x * params.gridDim.y * params.gridDim.z;
  shape.block = params.blockDim.x * params.blockDim.y * params.blockDim.z;
  shape.shared_bytes = params.sharedMemBytes;
  for (size_t i = 0;; ++i) {
    size_t offset = 0, size = 0;
    if (cudaFuncGetParamInfo(params.func, i, &offset, &size) != cudaSuccess) break;
    shape.param_bytes = offset + size;
  }
  (void)cudaGetLastError();
  return shape;
}

class CudaRecording : public Recording {
 public:
  CudaRecording(cudaGraph_t graph, cudaStream_t stream) : stream_(stream) {
    size_t count = 0;
    check_cuda(cudaGraphGetNodes(graph, nullptr, &count), "cudaGraphGetNodes");
    std::vector<cudaGraphNode_t> nodes(count);
    if (count != 0) check_cuda(cudaGraphGetNodes(graph, nodes.data(), &count), "cudaGraphGetNodes");
    for (const cudaGraphNode_t node : nodes) launches.push_back(shape_of(node));
    check_cuda(cudaGraphInstantiate(&executable_, graph, 0), "cudaGraphInstantiate");
  }
  ~CudaRecording() override { (void)cudaGraphExecDestroy(executable_); }
  void replay() override { check_cuda(cudaGraphLaunch(executable_, stream_), "cudaGraphLaunch"); }

 private:
  cudaStream_t stream_;
  cudaGraphExec_t executable_ = nullptr;
};

class CudaTimeline : public Timeline {
 public:
  explicit CudaTimeline(Stream& stream)
      : stream_(stream), waste_(stream.device(), 2 * device_info(stream.device()).l2_bytes) {
    for (cudaEvent_t& mark : marks_) check_cuda(cudaEventCreate(&mark), "cudaEventCreate");
  }
  ~CudaTimeline() override {
    for (const cudaEvent_t mark : marks_) (void)cudaEventDestroy(mark);
  }
  bool asynchronous() const override { return true; }
  double now_us() override {
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }
  void wait() override { stream_.synchronize(); }
  void sleep(double us) override { std::this_thread::sleep_for(std::chrono::duration<double, std::micro>(us)); }
  void spin(double us) override {
    if (us <= 0) return;
    spin_kernel<<<1, 1, 0, native()>>>(static_cast<long long>(us * 1e3));
    check_cuda(cudaGetLastError(), "launch of the spin kernel");
  }
  void flush_cache() override { fill_bytes(stream_, waste_.data(), ++value_, waste_.size()); }
  size_t cache_bytes() const override { return waste_.size() / 2; }
  void mark(int which) override {
    check_cuda(cudaEventRecord(marks_.at(static_cast<size_t>(which)), native()), "cudaEventRecord");
  }
  bool passed(int which) override {
    const cudaError_t status = cudaEventQuery(marks_.at(static_cast<size_t>(which)));
    if (status == cudaErrorNotReady) {
      (void)cudaGetLastError();
      return false;
    }
    check_cuda(status, "cudaEventQuery");
    return true;
  }
  double between_marks_us() override {
    check_cuda(cudaEventSynchronize(marks_[1]), "cudaEventSynchronize");
    float milliseconds = 0;
    check_cuda(cudaEventElapsedTime(&milliseconds, marks_[0], marks_[1]), "cudaEventElapsedTime");
    return 1e3 * static_cast<double>(milliseconds);
  }
  std::unique_ptr<Recording> record(const std::function<void()>& issue) override {
    check_cuda(cudaStreamBeginCapture(native(), cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
    cudaGraph_t graph = nullptr;
    try {
      issue();
    } catch (...) {
      (void)cudaStreamEndCapture(native(), &graph);
      if (graph != nullptr) (void)cudaGraphDestroy(graph);
      (void)cudaGetLastError();
      throw;
    }
    if (cudaStreamEndCapture(native(), &graph) != cudaSuccess) {  // something in it cannot be recorded
      (void)cudaGetLastError();
      return nullptr;
    }
    const std::unique_ptr<std::remove_pointer_t<cudaGraph_t>, void (*)(cudaGraph_t)> owner(
        graph, [](cudaGraph_t g) { (void)cudaGraphDestroy(g); });
    return std::make_unique<CudaRecording>(graph, native());
  }
  void bare_launch(const LaunchShape& shape) override {
    // The parameter bytes are copied at each launch, so they are rounded up to one of these sizes.
    if (shape.param_bytes <= 64) return launch_empty<64>(native(), shape);
    if (shape.param_bytes <= 128) return launch_empty<128>(native(), shape);
    if (shape.param_bytes <= 256) return launch_empty<256>(native(), shape);
    if (shape.param_bytes <= 512) return launch_empty<512>(native(), shape);
    if (shape.param_bytes <= 1024) return launch_empty<1024>(native(), shape);
    return launch_empty<4000>(native(), shape);
  }

 private:
  cudaStream_t native() const { return static_cast<cudaStream_t>(stream_.native()); }

  Stream& stream_;
  Buffer waste_;
  int value_ = 0;
  std::array<cudaEvent_t, 2> marks_{};
};

constexpr int kBlock = 512;

__global__ void copy_stream(uint4* __restrict__ to, const uint4* __restrict__ from, size_t n) {
  const size_t step = static_cast<size_t>(gridDim.x) * kBlock;
  for (size_t i = static_cast<size_t>(blockIdx.x) * kBlock + threadIdx.x; i < n; i += step)
    __stcs(to + i, __ldcs(from + i));
}
/// One block per 8 KiB: as operators do it.
__global__ void copy_blocks(uint4* __restrict__ to, const uint4* __restrict__ from, size_t n) {
  const size_t i = static_cast<size_t>(blockIdx.x) * kBlock + threadIdx.x;
  if (i < n) __stcs(to + i, __ldcs(from + i));
}
__global__ void copy_plain(uint4* to, const uint4* from, size_t n) {
  const size_t i = static_cast<size_t>(blockIdx.x) * kBlock + threadIdx.x;
  if (i < n) to[i] = from[i];
}
__global__ void copy_narrow(unsigned* __restrict__ to, const unsigned* __restrict__ from, size_t n) {
  const size_t i = static_cast<size_t>(blockIdx.x) * kBlock + threadIdx.x;
  if (i < n) __stcs(to + i, __ldcs(from + i));
}
__device__ unsigned mixed(uint4 v) { return v.x ^ v.y ^ v.z ^ v.w; }
__global__ void read_stream(unsigned* __restrict__ sink, const uint4* __restrict__ from, size_t n) {
  const size_t step = static_cast<size_t>(gridDim.x) * kBlock;
  unsigned sum = 0;
  size_t i = static_cast<size_t>(blockIdx.x) * kBlock + threadIdx.x;
  for (; i + 3 * step < n; i += 4 * step) {
    const uint4 a = from[i], b = from[i + step], c = from[i + 2 * step], d = from[i + 3 * step];
    sum += mixed(a) + mixed(b) + mixed(c) + mixed(d);
  }
  for (; i < n; i += step) sum += mixed(from[i]);
  if (sum == 0x9e3779b9u) *sink = sum;  // never for the data at hand, which the compiler cannot know
}
__global__ void two_to_one(uint4* __restrict__ to, const uint4* __restrict__ a, const uint4* __restrict__ b, size_t n) {
  const size_t i = static_cast<size_t>(blockIdx.x) * kBlock + threadIdx.x;
  if (i >= n) return;
  const uint4 x = a[i], y = b[i];
  to[i] = make_uint4(x.x ^ y.x, x.y ^ y.y, x.z ^ y.z, x.w ^ y.w);
}

}  // namespace

std::unique_ptr<Timeline> cuda_timeline(Stream& stream) { return std::make_unique<CudaTimeline>(stream); }

std::vector<StreamKernel> cuda_stream_kernels(Stream& stream, size_t bytes) {
  struct Memory {
    Buffer a, b, c;
  };
  const Device device = stream.device();
  const auto memory =
      std::make_shared<Memory>(Memory{Buffer(device, bytes), Buffer(device, bytes), Buffer(device, bytes)});
  fill_bytes(stream, memory->a.data(), 0x5a, bytes);
  fill_bytes(stream, memory->b.data(), 0x3c, bytes);
  const size_t n = bytes / sizeof(uint4);
  const unsigned waves = static_cast<unsigned>(device_info(device).units) * 4,
                 blocks = static_cast<unsigned>((n + kBlock - 1) / kBlock);
  auto* const s = static_cast<cudaStream_t>(stream.native());
  const double size = static_cast<double>(bytes);
  const auto launched = [](const char* what) { check_cuda(cudaGetLastError(), what); };
  return {
      {"memcpy on the device", true, 2 * size,
       [=, &stream] { copy_on_device(stream, memory->c.data(), memory->a.data(), bytes); }, false},
      {"copy kernel, grid-stride", true, 2 * size,
       [=] {
         copy_stream<<<waves, kBlock, 0, s>>>(memory->c.as<uint4>(), memory->a.as<uint4>(), n), launched("copy_stream");
       }},
      {"copy kernel, block per 8 KiB", true, 2 * size,
       [=] {
         copy_blocks<<<blocks, kBlock, 0, s>>>(memory->c.as<uint4>(), memory->a.as<uint4>(), n),
             launched("copy_blocks");
       }},
      {"copy kernel, no hints", true, 2 * size,
       [=] {
         copy_plain<<<blocks, kBlock, 0, s>>>(memory->c.as<uint4>(), memory->a.as<uint4>(), n), launched("copy_plain");
       }},
      {"copy kernel, 4-byte loads", true, 2 * size,
       [=] {
         copy_narrow<<<4 * blocks, kBlock, 0, s>>>(memory->c.as<unsigned>(), memory->a.as<unsigned>(), 4 * n),
             launched("copy_narrow");
       }},
      {"read-only stream", false, size,
       [=] {
         read_stream<<<waves, kBlock, 0, s>>>(memory->c.as<unsigned>(), memory->a.as<uint4>(), n),
             launched("read_stream");
       }},
      {"2:1 stream", false, 3 * size,
       [=] {
         two_to_one<<<blocks, kBlock, 0, s>>>(memory->c.as<uint4>(), memory->a.as<uint4>(), memory->b.as<uint4>(), n),
             launched("two_to_one");
       }},
  };
}

}  // namespace monotile::bench
